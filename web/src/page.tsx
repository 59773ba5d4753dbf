// The page: state, and the views of it.
import { render } from "preact";
import { useLayoutEffect, useMemo, useState } from "preact/hooks";
import { Banner } from "./Banner";
import { inverted, ofFunction, wholeTree } from "./boxes";
import { palette } from "./colors";
import { FlameGraph } from "./FlameGraph";
import { count, percent, plural, time } from "./format";
import { FunctionTable } from "./FunctionTable";
import { asRecord, functionsOf, matchedWeight, sorted } from "./functions";
import { Lanes } from "./Lanes";
import { load, PYTHON, type Profile } from "./profile";
import { byExactTime, Chooser, hasExact } from "./selection";
import { CallsView } from "./CallsView";
import { HeatMap } from "./HeatMap";
import { SourceView } from "./SourceView";
import { fromHash, INITIAL, toHash, VIEWS, type State } from "./state";
import { Legend, Toolbar } from "./Toolbar";

declare global {
  interface Window {
    /** Everything was drawn. */
    ready?: boolean;
    /** The table as it is shown, for a console. */
    functions?: () => Record<string, string | number | null>[];
  }
}

const prefersDark = window.matchMedia("(prefers-color-scheme: dark)");

function App({ profile }: { profile: Profile }) {
  const initial = useMemo<State>(() => {
    const sampled = profile.nSamples > 0;
    return { ...INITIAL, measure: sampled ? "samples" : "exact", sort: sampled ? "self" : "exactSelf" };
  }, [profile]);
  const [state, setState] = useState<State>(() => fromHash(location.hash, initial));
  const [systemDark, setSystemDark] = useState(prefersDark.matches);
  const [width, setWidth] = useState(document.documentElement.clientWidth);
  const change = (patch: Partial<State>) => setState((now) => ({ ...now, ...patch }));
  const chooser = useMemo(() => new Chooser(profile), [profile]);
  const dark = state.theme === "auto" ? systemDark : state.theme === "dark";
  const colors = palette(dark);

  const sums = useMemo(() => chooser.sums(state), [chooser, state.threads, state.frames, state.gil, state.from, state.to]);
  const shownSums = useMemo(() => (state.measure === "exact" ? byExactTime(sums) : sums), [sums, state.measure]);
  const rows = useMemo(() => functionsOf(profile, sums, state), [sums]);
  const [matches, badSearch] = useMemo(() => search(profile, state.search), [state.search]);
  const ordered = useMemo(
    () => sorted(matches ? rows.filter((row) => matches[row.frame]) : rows, state.sort, state.ascending, profile),
    [rows, matches, state.sort, state.ascending],
  );
  const { selected, view } = state;
  const roots = useMemo(() => {
    if (view === "flame") return [wholeTree(shownSums)];
    return view === "inverted" ? inverted(shownSums) : [];
  }, [view, shownSums]);
  const callers = useMemo(() => (view === "callers" && selected ? [ofFunction(shownSums, selected, true)] : []), [view, selected, shownSums]);
  const callees = useMemo(() => (view === "callers" && selected ? [ofFunction(shownSums, selected, false)] : []), [view, selected, shownSums]);

  // The theme and the address are what the page is, and it listens, before the next event comes.
  useLayoutEffect(() => {
    document.documentElement.dataset.theme = dark ? "dark" : "light";
  }, [dark]);
  useLayoutEffect(() => {
    const hash = toHash(state, initial);
    try {
      history.replaceState(null, "", hash ? `#${hash}` : location.pathname + location.search);
    } catch {
      // A page without an address of its own has none to keep.
    }
  }, [state]);
  useLayoutEffect(() => {
    const onHash = () => setState(fromHash(location.hash, initial));
    const onDark = () => setSystemDark(prefersDark.matches);
    const onResize = () => setWidth(document.documentElement.clientWidth);
    const onKey = (event: KeyboardEvent) => keyPressed(event, change);
    window.addEventListener("hashchange", onHash);
    window.addEventListener("resize", onResize);
    window.addEventListener("keydown", onKey);
    prefersDark.addEventListener("change", onDark);
    return () => {
      window.removeEventListener("hashchange", onHash);
      window.removeEventListener("resize", onResize);
      window.removeEventListener("keydown", onKey);
      prefersDark.removeEventListener("change", onDark);
    };
  }, []);
  useLayoutEffect(() => {
    window.functions = () => ordered.map((row) => asRecord(profile, row));
    window.ready = true;
  }, [ordered]);

  const inner = width - 24;
  const height = Math.max(220, Math.round(window.innerHeight * 0.42));
  const exactHere = hasExact(profile, state);
  const flame = {
    profile,
    sums: shownSums,
    colors,
    matches,
    selected,
    width: inner,
    onFocus: (focus: number[]) => change({ focus }),
    onSelect: (frame: number) => change({ selected: frame }),
  };
  return (
    <>
      <Banner profile={profile} change={change} />
      <button class="theme" aria-label={dark ? "Light" : "Dark"} title={dark ? "light" : "dark"} onClick={() => change({ theme: dark ? "light" : "dark" })}>
        {dark ? "☀" : "☾"}
      </button>
      {profile.nSamples > 0 && (
        <Lanes
          profile={profile}
          colors={colors}
          width={inner}
          from={state.from}
          to={state.to}
          threads={state.threads}
          onTime={(from, to) => change({ from, to })}
          onThreads={(threads) => change({ threads })}
        />
      )}
      {state.heat && <HeatMap profile={profile} colors={colors} width={inner} choice={state} onTime={(from, to) => change({ from, to })} />}
      <Toolbar
        profile={profile}
        state={state}
        hasExact={exactHere}
        badSearch={badSearch}
        matched={matches ? `${percent(matchedWeight(shownSums, matches), shownSums.all)} in ${plural(ordered.length, "function")}` : ""}
        nSamples={profile.nSamples ? `${plural(sums.nSamples, "sample")}, ${time(sums.all)}` : time(shownSums.all)}
        change={change}
      />
      <main>
        {(view === "flame" || view === "inverted") && (
          <FlameGraph {...flame} label={view === "flame" ? "Flame graph" : "Inverted flame graph"} roots={roots} focus={state.focus} height={height} />
        )}
        {view === "callers" &&
          (selected ? (
            <>
              <h2 class="muted">called by</h2>
              <FlameGraph {...flame} label="Callers" roots={callers} focus={[]} onFocus={(path) => change({ selected: path.at(-1) ?? selected })} height={Math.round(height * 0.5)} flip />
              <h2 class="muted">calls</h2>
              <FlameGraph {...flame} label="Callees" roots={callees} focus={[]} onFocus={(path) => change({ selected: path.at(-1) ?? selected })} height={Math.round(height * 0.5)} />
            </>
          ) : (
            <p class="empty">Choose a function in the table below.</p>
          ))}
        {view === "calls" && <CallsView profile={profile} selected={selected} onCall={(thread, from, to) => change({ threads: [thread], from, to, view: "flame", focus: [] })} onSelect={(frame) => change({ selected: frame })} height={height} />}
        {view === "source" && (
          <SourceView profile={profile} sums={sums} file={state.file} line={0} onFile={(file) => change({ file })} height={height} />
        )}
        {selected > 0 && <Selected profile={profile} frame={selected} state={state} change={change} row={rows.find((each) => each.frame === selected)} all={sums.all} />}
        <Legend profile={profile} hasTime={profile.nSamples > 0} />
        <FunctionTable
          profile={profile}
          rows={ordered}
          nAll={rows.length}
          all={sums.all}
          sort={state.sort}
          ascending={state.ascending}
          onSort={(sort) => change(sort === state.sort ? { ascending: !state.ascending } : { sort, ascending: false })}
          selected={selected}
          onSelect={(frame, open) => change({ selected: frame, ...(open ? { view: "callers" as const } : {}) })}
          hasSamples={profile.nSamples > 0}
          hasExact={profile.hasExact}
          noExact={exactHere ? "" : "Exact figures are of the whole run: they are not kept by time or state, nor of native code alone."}
        />
      </main>
      <footer class="muted">
        pyhybrid {profile.summary.version} · {profile.summary.file.replace(/.*\//, "")} · keys: 1-5 views, / search, arrows in the graph and the table, Esc all
      </footer>
    </>
  );
}

interface SelectedProps {
  profile: Profile;
  frame: number;
  state: State;
  change: (patch: Partial<State>) => void;
  row: ReturnType<typeof functionsOf>[number] | undefined;
  all: number;
}

/** The function that is looked at, and where to look at it. */
function Selected({ profile, frame, state, change, row, all }: SelectedProps) {
  const isPython = profile.frames.kind[frame] === PYTHON;
  const hasSource = isPython && profile.meta.sources.some((each) => each.file === profile.file(frame));
  return (
    <p class="selected" role="status">
      <i class={`kind ${profile.kind(frame)}`} />
      <b>{profile.short(frame)}</b> <span class="muted" title={profile.file(frame)}>{profile.place(frame)}</span>
      {row && profile.nSamples > 0 && (
        <span>
          self {percent(row.self, all) || "0"} · total {percent(row.total, all) || "0"}
        </span>
      )}
      {row?.exact && (
        <span>
          {count(row.exact.calls)} calls, {time(row.exact.total)}
          {row.exact.raised > 0 && `, ${count(row.exact.raised)} raised`}
        </span>
      )}
      {state.view !== "callers" && <button onClick={() => change({ view: "callers", focus: [] })}>callers and callees</button>}
      {hasSource && <button onClick={() => change({ view: "source", file: profile.file(frame) })}>source</button>}
      <button onClick={() => change({ search: `^${escaped(profile.label(frame))}$` })}>find</button>
      <button aria-label="choose no function" onClick={() => change({ selected: 0 })}>
        ×
      </button>
    </p>
  );
}

function escaped(text: string): string {
  return text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
}

function search(profile: Profile, text: string): [Uint8Array | null, boolean] {
  if (!text) return [null, false];
  let pattern: RegExp;
  try {
    pattern = new RegExp(text, "i");
  } catch {
    return [null, true];
  }
  const matches = new Uint8Array(profile.nFrames);
  for (let frame = 1; frame < matches.length; frame++) if (pattern.test(profile.label(frame))) matches[frame] = 1;
  return [matches, false];
}

function keyPressed(event: KeyboardEvent, change: (patch: Partial<State>) => void): void {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const field = document.activeElement;
  const isField = field instanceof HTMLInputElement || field instanceof HTMLSelectElement;
  if (event.key === "Escape") {
    if (isField) field.blur();
    change({ search: "", focus: [], threads: [], from: null, to: null, gil: "any" });
    return;
  }
  if (isField) return;
  if (event.key === "/") {
    event.preventDefault();
    document.getElementById("search")?.focus();
  }
  const view = VIEWS[Number(event.key) - 1];
  if (view) change({ view, focus: [] });
}

async function main(): Promise<void> {
  const app = document.getElementById("app")!;
  try {
    const profile = await load();
    render(<App profile={profile} />, app);
  } catch (error) {
    app.textContent = `This browser cannot show the page (${error instanceof Error ? error.message : error}). It needs DecompressionStream: Chrome 80, Firefox 113, Safari 16.4, or later.`;
    throw error;
  }
}

void main();
