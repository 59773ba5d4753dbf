// What was measured, how well, and what it cost: the first thing to see.  Amber: read the rest with care.
import type { ComponentChildren } from "preact";
import { count, escaped, plural, shortCount, time, when } from "./format";
import type { Finding, Profile } from "./profile";
import type { Run } from "./records";
import type { State } from "./state";

interface Fact {
  name: string;
  value: ComponentChildren;
  help: string;
  amber?: boolean;
}

const share = (value: number) => `${(100 * value).toFixed(1)} %`;

export function facts(profile: Profile): Fact[] {
  const s = profile.summary;
  const found: Fact[] = [];
  if (s.run.wall_ns !== null) {
    const cpu = s.run.cpu_ns === null ? "" : `, CPU ${time(s.run.cpu_ns)}`;
    const several = s.run.n_processes > 1 ? `, ${plural(s.run.n_processes, "process", "processes")}` : "";
    found.push({ name: "ran", value: `${time(s.run.wall_ns)}${cpu}${several}`, help: `${plural(s.run.n_threads, "thread")}, ${s.run.n_busy_threads} busy` });
  }
  if (s.run.mode !== "trace") found.push(...sampled(profile));
  if (s.calls) {
    const { calls, n_traced, c_calls, n_c_traced } = s.calls;
    const c = c_calls === null ? "" : `, ${count(c_calls)} of ${n_c_traced} C functions`;
    found.push({ name: "calls", value: `${shortCount(calls)} of ${count(n_traced)} functions`, help: `${count(calls)} calls of Python functions${c}: all are counted and timed` });
  }
  found.push(...costs(profile));
  found.push(...children(s.run));
  return found;
}

/** Child processes of which the profile has nothing. */
function children({ unprofiled, still_running: running, n_processes }: Run): Fact[] {
  const found: Fact[] = [];
  if (unprofiled) {
    const { n, cpu_ns, kinds, known, much } = unprofiled;
    const of = n_processes > 1 ? ` of ${count(n_processes - 1 + n)}` : "";
    const why = Object.entries(kinds).map(([kind, times]) => `${count(times)} ${kind}`);
    const value = `${count(n)}${of} child process${n > 1 || of ? "es" : ""}${cpu_ns ? `, CPU ${time(cpu_ns)}` : ""}`;
    found.push({ name: "not profiled", value, help: why.join(", ") || "why is not known", amber: much && !known });
  }
  if (running.length) {
    found.push({ name: "still ran", value: plural(running.length, "child process", "child processes"), help: `when the profile was made: ${running.join(", ")}; \`pyhybrid merge\` adds what is in PREFIX.pyhybrid.parts`, amber: true });
  }
  return found;
}

function sampled({ summary: s, meta }: Profile): Fact[] {
  const lost = Object.values(s.samples.losses).reduce((sum, n) => sum + n, 0);
  const reasons = Object.entries(s.samples.losses).map(([reason, n]) => `${count(n)} ${reason.replaceAll("_", " ")}`);
  const slow = s.clock.hz_reached !== null && s.clock.hz !== null && s.clock.hz_reached < 0.9 * s.clock.hz;
  const few = s.samples.recorded < 200;
  const unseen = s.samples.missed_weight_ns > 0.02 * (s.samples.recorded_weight_ns + s.samples.missed_weight_ns);
  const unaccounted = s.samples.unaccounted_ns > 0.01 * (s.run.cpu_ns ?? 0);
  const found: Fact[] = [
    {
      name: "samples",
      value: `${s.samples.recorded ? count(s.samples.recorded) : "none"}${lost ? `, ${count(lost)} lost` : ""}${few && s.samples.recorded ? ": few" : ""}`,
      help: `${count(s.samples.signals)} signals; lost: ${reasons.join(", ") || "none"}; ${time(s.samples.missed_weight_ns)} without a signal${unaccounted ? `; ${time(s.samples.unaccounted_ns)} in no thread's samples` : ""}${few ? "; shares of few samples are rough" : ""}`,
      amber: few || unseen || unaccounted || lost > 0.01 * s.samples.signals,
    },
    {
      name: "rate",
      value: `${s.clock.hz_reached === null ? "?" : Math.round(s.clock.hz_reached)} Hz of ${s.clock.kind} time`,
      help: `${s.clock.hz_asked} Hz asked, set to ${s.clock.hz}; by ${s.clock.engine}${s.clock.engine_reason ? `: ${s.clock.engine_reason}` : ""}${s.clock.wall_threads.length ? `; only threads ${s.clock.wall_threads.join(", ")}` : ""}${meta.is_part ? "; only some samples are shown" : ""}`,
      amber: slow && !few,
    },
  ];
  const { complete = 0, re_anchored = 0, gapped = 0, truncated = 0 } = s.samples.stacks;
  if (s.samples.recorded) {
    found.push({
      name: "whole stacks",
      value: share(complete + re_anchored),
      help: `${share(complete)} complete, ${share(re_anchored)} re-anchored at the next Python frame, ${share(gapped)} with a gap, ${share(truncated)} truncated`,
      amber: gapped + truncated > 0.02,
    });
    const waited = s.samples.gil.waiting ?? 0;
    const off = s.samples.off_cpu === null ? "" : `, off the CPU ${share(s.samples.off_cpu)}`;
    found.push({ name: "GIL", value: `held ${share(s.samples.gil.held ?? 0)}, waited ${share(waited)}${off}`, help: "of the samples: their threads held the GIL, or waited for it", amber: waited > 0.1 });
  }
  return found;
}

function costs({ summary: s, meta }: Profile): Fact[] {
  const parts: string[] = [];
  if (s.cost.overhead !== null) parts.push(`sampling ${share(s.cost.overhead)}`);
  const counting = s.cost.counting_ns !== null && s.run.cpu_ns ? s.cost.counting_ns / s.run.cpu_ns : null;
  if (counting !== null) parts.push(`counting ${share(counting)}`);
  if (!parts.length) return [];
  const handler = s.cost.handler_median_ns === null ? "" : `signal handler: median ${time(s.cost.handler_median_ns)}, p99 ${time(s.cost.handler_p99_ns ?? 0)}; `;
  const turns = s.calls === null ? "" : `${count(s.calls.turns)} calls and resumes counted`;
  const amber = (s.cost.overhead ?? 0) >= meta.most_sampling || (counting ?? 0) >= meta.most_counting;
  return [{ name: "cost", value: parts.join(", "), help: `of the CPU time, estimated; ${handler}${turns}`, amber }];
}

/** What shows more of a finding; null: nothing in particular. */
function lookAt(found: Finding, profile: Profile): Partial<State> | null {
  if (found.rule === "gil") return { gil: "waiting" };
  if (found.rule === "imports") return { imports: "all", view: "flame" };
  if (found.rule === "idle GPU" && profile.gpu) return { from: profile.gpu.begin, to: profile.gpu.end, view: "flame" };
  const { function: one, module, functions = [one ?? module] } = found.evidence;
  const names = (functions as unknown[]).filter((name) => typeof name === "string");
  return names.length ? { search: names.map((name) => escaped(name.replace(/ \(.*/, ""))).join("|") } : null;
}

function Findings({ profile, found, change }: { profile: Profile; found: Finding[]; change: (patch: Partial<State>) => void }) {
  return (
    <ul class="findings" aria-label="What stands out">
      {found.map((each) => {
        const look = lookAt(each, profile);
        return (
          <li key={each.rule}>
            <b>{each.text}</b> {look && <button onClick={() => change(look)}>show</button>} <code class="muted">{each.command}</code>
          </li>
        );
      })}
    </ul>
  );
}

/** `folded`: only what needs care. */
export function Banner({ profile, folded, change }: { profile: Profile; folded: boolean; change: (patch: Partial<State>) => void }) {
  const { summary: s, meta } = profile;
  const program = [s.run.argv[0]?.replace(/.*\//, ""), ...s.run.argv.slice(1)].filter(Boolean).join(" ") || "?";
  const where = [when(meta.start_unix_ns), `Python ${s.run.python}`, `pid ${s.run.pid}`, meta.host, meta.cpu].filter(Boolean).join(" · ");
  const notes = [...(s.run.complete ? [] : ["the process was killed, or the end of its profile is missing"]), ...s.notes];
  return (
    <header class={folded ? "folded" : ""}>
      <h1 title={s.run.argv.join(" ")}>{program}</h1>
      {!folded && <p class="muted where">{where}</p>}
      <dl class="facts">
        {facts(profile)
          .filter((fact) => fact.amber || !folded)
          .map((fact) => (
            <div key={fact.name} class={fact.amber ? "amber" : ""} title={fact.help}>
              <dt>{fact.name}</dt>
              <dd>{fact.value}</dd>
            </div>
          ))}
        {!folded && meta.sources.length > 0 && (
          <div title="Before you send it: --no-source leaves it out.">
            <dt>holds</dt>
            <dd>source text</dd>
          </div>
        )}
      </dl>
      {!folded && s.findings.length > 0 && <Findings profile={profile} found={s.findings} change={change} />}
      {!folded && notes.length > 0 && (
        <ul class="notes">
          {notes.map((note) => (
            <li key={note}>{note}</li>
          ))}
        </ul>
      )}
    </header>
  );
}
