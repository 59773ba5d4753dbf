// The page: state, and the views of it.
import { render } from "preact";
import { useLayoutEffect, useMemo, useRef } from "preact/hooks";
import { Banner } from "./Banner";
import { inverted, ofFunction, wholeTree } from "./boxes";
import { Columns, unpack, type Index } from "./columns";
import { Comparison } from "./diff";
import { ComparisonPage } from "./DiffPage";
import { useAddress, useHeight, useKeys, useTheme, useWidth } from "./environment";
import { FlameGraph } from "./FlameGraph";
import { count, escaped, percent, plural, time } from "./format";
import { FunctionTable } from "./FunctionTable";
import { asRecord, functionsOf, matchedWeight, sorted } from "./functions";
import { GpuLanes } from "./GpuLanes";
import { Lanes } from "./Lanes";
import { Memory } from "./Memory";
import { programLines, type ProgramLine } from "./lines";
import { Profile, PYTHON, type Meta } from "./profile";
import { byExactTime, byGpuTime, Chooser, hasExact, narrowed, type Weights } from "./selection";
import { CallsView } from "./CallsView";
import { HeatMap } from "./HeatMap";
import { Processes } from "./Processes";
import { ProgramLines } from "./ProgramLines";
import { SourceView } from "./SourceView";
import { Steps, stepsAsRecords } from "./Steps";
import { fromHash, INITIAL, toHash, VIEWS, type State, type View } from "./state";
import { Legend, ThemeButton, Toolbar, toTable } from "./Toolbar";
import type { ComparisonMeta } from "./records";

declare global {
  interface Window {
    /** Everything was drawn. */
    ready?: boolean;
    /** The table as it is shown, for a console. */
    functions?: () => Record<string, string | number | null>[];
    /** The steps of a training, as `report steps --json` has them. */
    steps?: () => ReturnType<typeof stepsAsRecords>;
    /** The lines of the program, all of them. */
    programLines?: () => ProgramLine[];
  }
}

const LARGE = 100_000; // paths: what is done with all of them takes so long that one wants to know

/** Those that have something to show. */
function viewsOf({ meta, summary }: Profile): View[] {
  const has: Partial<Record<View, boolean>> = { source: meta.sources.length > 0, calls: summary.durations.length > 0 };
  return VIEWS.filter((view) => has[view] ?? true);
}

function App({ profile }: { profile: Profile }) {
  const initial = useMemo<State>(() => {
    const sampled = profile.nSamples > 0;
    const patterns = window.matchMedia("(prefers-contrast: more)").matches;
    return { ...INITIAL, patterns, measure: sampled ? "samples" : "exact", sort: !sampled ? "exactSelf" : profile.frames.kind.includes(PYTHON, 1) ? "below" : "self" };
  }, [profile]);
  const views = useMemo(() => viewsOf(profile), [profile]);
  const [state, change, isAtWork] = useAddress(initial, (hash) => fromHash(hash, initial, views), toHash, profile.parent.length > LARGE);
  const { dark, colors } = useTheme(state.theme, state.patterns);
  const width = useWidth();
  const chooser = useMemo(() => new Chooser(profile), [profile]);

  const sums = useMemo(() => chooser.sums(state), [chooser, state.threads, state.processes, state.frames, state.imports, state.gil, state.from, state.to]);
  const isApart = state.each && profile.isSeveral && state.measure !== "gpu";
  const shownSums = useMemo(() => {
    const whole: Weights = isApart ? chooser.byProcess(state) : sums;
    const measured = state.measure === "gpu" ? byGpuTime(whole) : state.measure === "exact" ? byExactTime(whole) : whole;
    return state.imports === "box" ? narrowed(measured, profile.meta.import_frame) : measured;
  }, [sums, state.measure, isApart]);
  const rows = useMemo(() => functionsOf(profile, sums, state), [sums]);
  const lines = useMemo(() => programLines(profile, sums.leaves), [sums]);
  const [matches, badSearch] = useMemo(() => profile.search(state.search), [state.search]);
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

  const fold = () => change({ folded: !state.folded });
  useKeys(views, change, () => change({ search: "", focus: [], threads: [], processes: [], from: null, to: null, gil: "any" }), { h: fold, t: toTable });
  const main = useRef<HTMLElement>(null);
  const shown = useRef(view);
  useLayoutEffect(() => {
    if (shown.current === view) return;
    shown.current = view;
    const hidden = document.querySelector(".toolbar")!.getBoundingClientRect().bottom - main.current!.getBoundingClientRect().top;
    if (hidden > 0) window.scrollBy(0, -hidden);
  }, [view]);
  useLayoutEffect(() => {
    window.functions = () => ordered.map((row) => asRecord(profile, row));
    window.steps = () => stepsAsRecords(profile);
    window.programLines = () => lines;
    window.ready = true;
  }, [ordered, lines]);

  const inner = width - 24;
  const height = Math.max(220, Math.round(useHeight() * 0.7));
  const exactHere = hasExact(profile, state);
  const flame = {
    profile,
    sums: shownSums,
    colors,
    matches,
    selected,
    width: inner,
    patterns: state.patterns,
    onFocus: (focus: number[]) => change({ focus }),
    onSelect: (frame: number) => change({ selected: frame }),
  };
  return (
    <>
      {isAtWork && (
        <p class="work" role="status">
          working…
        </p>
      )}
      <Banner profile={profile} folded={state.folded} change={change} />
      <ThemeButton dark={dark} change={change} />
      {!state.folded && profile.isSeveral && <Processes profile={profile} processes={state.processes} change={change} />}
      {!state.folded && <ProgramLines profile={profile} lines={lines} all={sums.all} onLine={views.includes("source") ? (file, line) => change({ view: "source", file, line }) : null} />}
      {!state.folded && profile.meta.steps && <Steps profile={profile} colors={colors} width={inner} from={state.from} to={state.to} onTime={(from, to) => change({ from, to })} />}
      {!state.folded && profile.meta.memory && <Memory memory={profile.meta.memory} width={inner} />}
      {!state.folded && profile.nSamples > 0 && (
        <Lanes
          profile={profile}
          colors={colors}
          width={inner}
          from={state.from}
          to={state.to}
          threads={state.threads}
          processes={state.processes}
          patterns={state.patterns}
          onTime={(from, to) => change({ from, to })}
          onChoose={change}
        />
      )}
      {!state.folded && profile.gpu && (
        <GpuLanes
          profile={profile}
          gpu={profile.gpu}
          colors={colors}
          width={inner}
          from={state.from}
          to={state.to}
          selected={selected}
          onTime={(from, to) => change({ from, to })}
          onSelect={(frame) => change({ selected: frame })}
        />
      )}
      {state.heat && <HeatMap profile={profile} colors={colors} width={inner} choice={state} onTime={(from, to) => change({ from, to })} />}
      <Toolbar
        profile={profile}
        views={views}
        onFold={fold}
        state={state}
        hasExact={exactHere}
        hasGpu={sums.gpu !== null}
        badSearch={badSearch}
        matched={matches ? `${percent(matchedWeight(shownSums, matches), shownSums.all)} in ${plural(ordered.length, "function")}` : ""}
        nSamples={state.measure === "gpu" ? `${time(shownSums.all)} on the GPU` : profile.nSamples ? `${plural(sums.nSamples, "sample")}, ${time(sums.all)}` : time(shownSums.all)}
        change={change}
      />
      <main ref={main}>
        {(view === "flame" || view === "inverted") && (
          <FlameGraph {...flame} label={view === "flame" ? "Flame graph" : "Inverted flame graph"} roots={roots} focus={state.focus} />
        )}
        {view === "callers" &&
          (selected ? (
            <>
              <h2 class="muted">called by</h2>
              <FlameGraph {...flame} label="Callers" roots={callers} focus={[]} onFocus={(path) => change({ selected: path.at(-1) ?? selected })} height={height / 2} flip />
              <h2 class="muted">calls</h2>
              <FlameGraph {...flame} label="Callees" roots={callees} focus={[]} onFocus={(path) => change({ selected: path.at(-1) ?? selected })} />
            </>
          ) : (
            <p class="empty">Choose a function in the table below.</p>
          ))}
        {view === "calls" && (
          <CallsView
            profile={profile}
            selected={selected}
            took={state.took}
            onCall={(thread, from, to) => change({ threads: [thread], processes: [], from, to, view: "flame", focus: [] })}
            onSelect={(frame, took) => change({ selected: frame, took })}
            height={height}
          />
        )}
        {view === "source" && (
          <SourceView
            profile={profile}
            sums={sums}
            lines={lines}
            file={state.file}
            line={state.line || (selected && profile.file(selected) === state.file ? profile.frames.line[selected]! : 0)}
            onFile={(file) => change({ file, line: 0 })}
            height={height}
          />
        )}
        {selected > 0 && <Selected profile={profile} frame={selected} state={state} change={change} row={rows.find((each) => each.frame === selected)} all={sums.all} />}
        <Legend profile={profile} hasTime={profile.nSamples > 0} isNarrow={shownSums.narrow !== undefined} patterns={state.patterns} onPatterns={(patterns) => change({ patterns })} />
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
          noExact={exactHere ? "" : "Exact figures are of the whole run: they are not kept by time or state, nor of native code alone."}
        />
      </main>
      <footer class="muted">
        pyhybrid {profile.summary.run.version} · {profile.summary.file.replace(/.*\//, "")}
        <span class="keys"> · keys: 1-{views.length} views, h head, t table, / search, arrows in the graph and the table, Esc all</span>
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
          self {row.self ? `${percent(row.self, all)}, ${time(row.self)}` : "0"} · total {row.total ? `${percent(row.total, all)}, ${time(row.total)}` : "0"}
        </span>
      )}
      {row?.exact && (
        <span>
          {plural(row.exact.calls, "call")}, {time(row.exact.total)}
          {row.exact.raised > 0 && `, ${count(row.exact.raised)} raised`}
        </span>
      )}
      {row && row.gpu !== null && row.gpu > 0 && <span>{time(row.gpu)} on the GPU</span>}
      {state.view !== "callers" && <button onClick={() => change({ view: "callers", focus: [] })}>callers and callees</button>}
      {hasSource && <button onClick={() => change({ view: "source", file: profile.file(frame), line: 0 })}>source</button>}
      <button onClick={() => change({ search: `^${escaped(profile.label(frame))}$` })}>find</button>
      <button aria-label="choose no function" onClick={() => change({ selected: 0 })}>
        ×
      </button>
    </p>
  );
}

async function main(): Promise<void> {
  const app = document.getElementById("app")!;
  const text = (id: string) => document.getElementById(id)!.textContent!;
  try {
    const columns = new Columns(await unpack(text("data")), JSON.parse(text("index")) as Index);
    const meta = JSON.parse(columns.texts("meta")[0]!) as Meta | ComparisonMeta;
    render("comparison" in meta ? <ComparisonPage comparison={new Comparison(meta, columns)} /> : <App profile={new Profile(meta, columns)} />, app);
  } catch (error) {
    app.textContent = `This browser cannot show the page (${error instanceof Error ? error.message : error}). It needs DecompressionStream: Chrome 80, Firefox 113, Safari 16.4, or later.`;
    throw error;
  }
}

void main();
