// What to show, and of what.
import { time } from "./format";
import { chosenName, ProcessChoice } from "./Processes";
import { KINDS, type Profile } from "./profile";
import { KIND_NAMES } from "./FlameGraph";
import type { Gil, Imports } from "./selection";
import { IMPORTS, type State, type Theme, type View } from "./state";
import type { Frames } from "./tree";

const TITLES: Record<View, [title: string, help: string]> = {
  flame: ["Flame graph", "the root above, what a function called below it; width is time"],
  inverted: ["Inverted", "where the time is spent above, what called it below"],
  callers: ["Callers and callees", "of the chosen function"],
  source: ["Source", "lines, and the samples on each"],
  calls: ["Calls", "single calls that were kept: the slowest, and how long all took"],
};

const IMPORT_NAMES: Record<Imports, string> = { box: "one narrow box", all: "all frames", out: "left out" };

export function toTable(): void {
  document.querySelector(".functions")!.scrollIntoView();
}

/** What selects say, which are not printed. */
function choicesOf({ frames, gil, measure, each, search }: State): string[] {
  return [
    ...(frames === "all" ? [] : [frames === "plumbing" ? "with plumbing" : `${frames} frames only`]),
    ...(gil === "any" ? [] : [`GIL ${gil}`]),
    ...(measure === "samples" ? [] : [`width is ${measure === "gpu" ? "time on the GPU" : "exact time"}`]),
    ...(each ? ["each process by itself"] : []),
    ...(search ? [`search ${search}`] : []),
  ];
}

interface ToolbarProps {
  profile: Profile;
  views: readonly View[];
  /** Folds what stands above, or unfolds it. */
  onFold: () => void;
  state: State;
  hasExact: boolean;
  hasGpu: boolean;
  matched: string;
  badSearch: boolean;
  nSamples: string;
  change: (patch: Partial<State>) => void;
}

export function Toolbar({ profile, views, onFold, state, hasExact, hasGpu, matched, badSearch, nSamples, change }: ToolbarProps) {
  const withPlumbing = state.frames === "plumbing";
  const isPart = state.threads.length > 0 || state.processes.length > 0 || state.from !== null || state.to !== null || state.gil !== "any";
  const measures = [
    { measure: "samples", title: "samples", isHere: profile.nSamples > 0, isOff: false },
    { measure: "exact", title: "exact time", isHere: profile.hasExact, isOff: !hasExact },
    { measure: "gpu", title: "on GPU", isHere: profile.gpu !== null, isOff: !hasGpu },
  ].filter((each) => each.isHere);
  return (
    <nav class="toolbar" aria-label="What to show">
      <button class="fold" aria-expanded={!state.folded} title={`${state.folded ? "show" : "fold"} what stands above (h)`} onClick={onFold}>
        <span aria-hidden="true">{state.folded ? "▸" : "▾"}</span> head
      </button>
      <Tabs views={views} view={state.view} change={change} />
      <Search state={state} matched={matched} badSearch={badSearch} change={change} />
      {profile.isSeveral && <ProcessChoice profile={profile} state={state} change={change} />}
      <label>
        frames{" "}
        <select value={state.frames} onChange={(event) => change({ frames: event.currentTarget.value as Frames, focus: [] })}>
          <option value="all">all</option>
          {profile.meta.plumbing && <option value="plumbing">all, with plumbing</option>}
          <option value="python">Python only</option>
          <option value="native">native only</option>
        </select>
      </label>
      {profile.meta.import_frame > 0 && (
        <label title="what import statements run">
          imports{" "}
          <select value={withPlumbing && state.imports === "box" ? "all" : state.imports} onChange={(event) => change({ imports: event.currentTarget.value as Imports, focus: [] })}>
            {IMPORTS.map((each) => (
              <option key={each} value={each} disabled={withPlumbing && each === "box"}>
                {IMPORT_NAMES[each]}
              </option>
            ))}
          </select>
        </label>
      )}
      {profile.nSamples > 0 && (
        <label>
          GIL{" "}
          <select value={state.gil} onChange={(event) => change({ gil: event.currentTarget.value as Gil })}>
            {["any", "held", "waiting", "neither"].map((each) => (
              <option key={each}>{each}</option>
            ))}
          </select>
        </label>
      )}
      {profile.nSamples > 0 && (
        <button aria-pressed={state.heat} title="samples by second, and by when in the second" onClick={() => change({ heat: !state.heat })}>
          heat map
        </button>
      )}
      {measures.length > 1 && (
        <label title="what the width of a box is">
          width{" "}
          <select value={state.measure} disabled={measures.every((each) => each.isOff) || withPlumbing} onChange={(event) => change({ measure: event.currentTarget.value as State["measure"], focus: [] })}>
            {measures.map(({ measure, title, isOff }) => (
              <option key={measure} value={measure} disabled={isOff}>
                {title}
              </option>
            ))}
          </select>
        </label>
      )}
      <button title="to the table of functions, below the graph (t)" onClick={toTable}>
        table
      </button>
      <span class="muted chosen" role="status">
        <span class="paper">{[TITLES[state.view][0], ...choicesOf({ ...state, each: state.each && profile.isSeveral })].join(", ")}: </span>
        {nSamples}
        {profile.isSeveral && state.processes.length > 0 && ` of ${chosenName(profile, state.processes)}`}
        {state.imports === "out" && ", without imports"}
        {(state.from !== null || state.to !== null) && ` from ${time(state.from ?? 0)} to ${time(state.to ?? profile.end)}`}
        {isPart && (
          <button onClick={() => change({ threads: [], processes: [], from: null, to: null, gil: "any" })} title="Esc">
            show all
          </button>
        )}
      </span>
    </nav>
  );
}

interface TabsProps<V extends View> {
  views: readonly V[];
  view: V;
  change: (patch: { view: V; focus: number[] }) => void;
}

export function Tabs<V extends View>({ views, view, change }: TabsProps<V>) {
  return (
    <div class="tabs" role="tablist" aria-label="View">
      {views.map((each, i) => (
        <button key={each} role="tab" aria-selected={each === view} title={`${TITLES[each][1]} (${i + 1})`} onClick={() => change({ view: each, focus: [] })}>
          {TITLES[each][0]}
        </button>
      ))}
    </div>
  );
}

interface SearchProps {
  state: { search: string };
  matched: string;
  badSearch: boolean;
  change: (patch: { search: string }) => void;
}

export function Search({ state, matched, badSearch, change }: SearchProps) {
  return (
    <label class="search">
      <input
        type="search"
        id="search"
        placeholder="Search (regex)  /"
        aria-label="Search functions by regular expression"
        aria-invalid={badSearch}
        value={state.search}
        onInput={(event) => change({ search: event.currentTarget.value })}
      />
      <output>{badSearch ? "no regular expression" : matched}</output>
    </label>
  );
}

export function ThemeButton({ dark, change }: { dark: boolean; change: (patch: { theme: Theme }) => void }) {
  return (
    <button class="theme" aria-label={dark ? "Light" : "Dark"} title={dark ? "light" : "dark"} onClick={() => change({ theme: dark ? "light" : "dark" })}>
      {dark ? "☀" : "☾"}
    </button>
  );
}

interface LegendProps {
  profile: Profile;
  hasTime: boolean;
  isNarrow: boolean;
  patterns: boolean;
  onPatterns: (patterns: boolean) => void;
}

export function Legend({ profile, hasTime, isNarrow, patterns, onPatterns }: LegendProps) {
  const used = KINDS.filter((kind, i) => kind !== "process" && ((kind !== "region" && kind !== "pseudo") || profile.frames.kind.includes(i)));
  return (
    <p class="legend">
      {used.map((kind) => (
        <span key={kind}>
          <i class={`kind ${kind}`} />
          {KIND_NAMES[kind]}
        </span>
      ))}
      {isNarrow && (
        <span>
          <i class="kind narrow" />
          imports, narrower than their time
        </span>
      )}
      <label title="kinds of functions, and what threads do, have patterns beside their colours">
        <input type="checkbox" checked={patterns} onChange={(event) => onPatterns(event.currentTarget.checked)} /> patterns
      </label>
      {hasTime && (
        <span class="gil">
          threads: <i class="held" />
          held the GIL <i class="neither" />
          ran without it <i class="waiting" />
          waited for it
          {profile.summary.samples.off_cpu !== null && (
            <>
              {" "}
              <i class="off" />
              off the CPU
            </>
          )}
          {profile.calls.length > 0 && (
            <>
              {" "}
              <i class="call" />
              kept calls and regions
            </>
          )}
        </span>
      )}
    </p>
  );
}
