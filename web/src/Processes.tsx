// The processes of a profile in groups of those that are alike, as the first screen of `report` has them, and the
// choice of a group, of one process, or of several.
import { useState } from "preact/hooks";
import { percent, plural, time } from "./format";
import type { Profile } from "./profile";
import type { State } from "./state";

const SHOWN = 5;
const BEGAN: Record<string, string> = { fork: "forked", start: "started" };

type Change = (patch: Partial<State>) => void;

/** Its processes. */
export function membersOf(profile: Profile, group: number): number[] {
  return profile.meta.processes.flatMap((each, process) => (each.group === group ? [process] : []));
}

export function isSame(one: readonly number[], other: readonly number[]): boolean {
  return one.length === other.length && one.every((each) => other.includes(each));
}

/** What is chosen after a click on `these`: they alone, or all again; with `more` beside what was chosen. */
export function picked(before: readonly number[], these: readonly number[], isPressed: boolean, more: boolean): number[] {
  const others = more ? before.filter((each) => !these.includes(each)) : [];
  return isPressed ? others : [...others, ...these];
}

/** Is it a click that adds to what is chosen? */
export const addsTo = (event: MouseEvent) => event.shiftKey || event.ctrlKey || event.metaKey;

/** `rank 1 (pid 4711)`, a group, or how many they are. */
export function chosenName(profile: Profile, chosen: readonly number[]): string {
  const processes = chosen.filter((each) => profile.meta.processes[each]);
  const [first, ...others] = processes;
  const known = profile.meta.processes[first ?? -1];
  if (known && !others.length) return `${profile.processName(first!)} (pid ${known.pid})`;
  const group = known ? known.group : -1;
  if (known && isSame(membersOf(profile, group), processes)) return profile.meta.groups[group]!;
  return plural(processes.length, "process", "processes");
}

/** What there is to say of one. */
export function describe(profile: Profile, process: number): string {
  const { pid, parent, how, cut_off, command } = profile.meta.processes[process]!;
  const began = parent !== null && BEGAN[how] ? `, ${BEGAN[how]} by ${parent}` : "";
  return `${profile.processName(process)}, pid ${pid}${began}${cut_off ? ", cut off" : ""}: ${command}`;
}

export function Processes({ profile, processes, change }: { profile: Profile; processes: readonly number[]; change: Change }) {
  const [all, setAll] = useState(false);
  const groups = profile.summary.processes;
  const shown = all ? groups : groups.slice(0, SHOWN);
  const most = Math.max(...groups.map((each) => each.share));
  return (
    <section class="processes listed" aria-label="Processes">
      <h2 class="muted">processes, by CPU time</h2>
      <ol>
        {shown.map((each, group) => {
          const members = membersOf(profile, group);
          const isPressed = isSame(members, processes);
          return (
            <li key={group}>
              <button
                aria-pressed={isPressed}
                title={`${members.length === 1 ? describe(profile, members[0]!) : `pids ${each.pids.join(", ")}`}; click: ${members.length === 1 ? "this one" : "these"} alone`}
                onClick={(event) => change({ processes: picked(processes, members, isPressed, addsTo(event)), threads: [], focus: [] })}
              >
                <span class="share">
                  <span class="bar" style={{ width: `${(100 * each.share) / most}%` }} />
                  {percent(each.share, 1)} <small>{time(each.cpu_ns)}</small>
                </span>
                <b>{profile.meta.groups[group]}</b>
                {each.cut_off > 0 && <span class="amber">{each.n > 1 ? `${each.cut_off} cut off` : "cut off"}</span>}
              </button>
            </li>
          );
        })}
      </ol>
      {groups.length > SHOWN && (
        <button class="more" onClick={() => setAll(!all)}>
          {all ? "fewer groups" : plural(groups.length - SHOWN, "more group")}
        </button>
      )}
    </section>
  );
}

const ALL = "-1";

/** Of all, of a group, or of one process; and whether the graph has them together. */
export function ProcessChoice({ profile, state, change }: { profile: Profile; state: State; change: Change }) {
  const { processes, threads } = state;
  const { groups, processes: known } = profile.meta;
  const members = groups.map((_, group) => membersOf(profile, group));
  const group = members.findIndex((of) => of.length > 1 && isSame(of, processes));
  const value = threads.length ? ALL : group >= 0 ? `group ${group}` : processes.length === 1 ? `${processes[0]}` : ALL;
  const choose = (chosen: string) => {
    const these = chosen.startsWith("group ") ? members[Number(chosen.slice(6))]! : [Number(chosen)].filter((each) => each >= 0);
    change({ processes: these, threads: [], focus: [] });
  };
  const rest = threads.length ? "threads as chosen" : processes.length ? plural(processes.length, "process", "processes") : "all";
  return (
    <>
      <label title="of all processes, of those that are alike, or of one; the lanes' names choose several, and threads">
        process{" "}
        <select class="process" value={value} onChange={(event) => choose(event.currentTarget.value)}>
          <option value={ALL}>{value === ALL ? rest : "all"}</option>
          {members.map((of, group) => (
            <>
              {of.length > 1 && <option value={`group ${group}`}>{groups[group]}</option>}
              {of.map((process) => (
                <option key={process} value={process}>
                  {of.length > 1 && "\u2003"}
                  {known[process]!.how === "root" ? `${known[process]!.pid} ${known[process]!.command}` : `${profile.processName(process)} (${known[process]!.pid})`}
                </option>
              ))}
            </>
          ))}
        </select>
      </label>
      <label title="one graph of all processes, or each process at the root of its own paths, side by side; by time on the GPU there is one">
        root{" "}
        <select class="root" value={state.each ? "each" : "all"} disabled={state.measure === "gpu"} onChange={(event) => change({ each: event.currentTarget.value === "each", focus: [] })}>
          <option value="all">all</option>
          <option value="each">each process</option>
        </select>
      </label>
    </>
  );
}
