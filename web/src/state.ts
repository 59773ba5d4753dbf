// What the page shows, which its address has, too: a link opens the same view.
import type { Choice, Gil, Imports, Measure } from "./selection";
import type { SortKey } from "./functions";
import type { Frames } from "./tree";

export const VIEWS = ["flame", "inverted", "callers", "source", "calls"] as const;
export type View = (typeof VIEWS)[number];
export type Theme = "auto" | "light" | "dark";

/** What all pages have. */
export interface Common<V extends string> {
  view: V;
  /** The function that is looked at; 0: none. */
  selected: number;
  /** The functions from the top of the view to what it is zoomed to. */
  focus: number[];
  search: string;
  ascending: boolean;
  theme: Theme;
}

const COMMON = { selected: 0, focus: [] as number[], search: "", ascending: false, theme: "auto" as Theme };

export interface State extends Common<View>, Choice {
  measure: Measure;
  sort: SortKey;
  file: string;
  /** Of the file: the line that is looked at; 0: that of the selected function. */
  line: number;
  /** Of kept calls: the bar of the histogram that is looked at; null: all. */
  took: number | null;
  /** Is the heat map shown? */
  heat: boolean;
  /** Is what stands above the toolbar folded? */
  folded: boolean;
  /** Do kinds of functions, and what threads do, have patterns beside their colours? */
  patterns: boolean;
  /** Does each process stand at the root of its own paths? */
  each: boolean;
}

export const INITIAL: State = {
  ...COMMON,
  view: "flame",
  measure: "samples",
  threads: [],
  processes: [],
  frames: "all",
  imports: "box",
  gil: "any",
  from: null,
  to: null,
  sort: "self",
  file: "",
  line: 0,
  took: null,
  heat: false,
  folded: false,
  patterns: false,
  each: false,
};

export const COMPARISON_VIEWS = ["flame", "inverted", "callers"] as const;
export const WIDTHS = ["after", "before", "larger"] as const;
export const COMPARISON_SORTS = ["own", "before", "after", "change", "share", "calls", "perCall", "name"] as const;
export type Width = (typeof WIDTHS)[number];
export type ComparisonSort = (typeof COMPARISON_SORTS)[number];

/** Of runs that are compared. */
export interface ComparisonState extends Common<(typeof COMPARISON_VIEWS)[number]> {
  width: Width;
  sort: ComparisonSort;
}

export const INITIAL_COMPARISON: ComparisonState = { ...COMMON, view: "flame", width: "after", sort: "own" };

export const IMPORTS: readonly Imports[] = ["box", "all", "out"];
const SORTS: SortKey[] = ["self", "total", "below", "calls", "exactSelf", "exactTotal", "perCall", "gpu", "name"];

function oneOf<T extends string>(value: string | null, known: readonly T[], otherwise: T): T {
  return known.includes(value as T) ? (value as T) : otherwise;
}

function whole(value: string | null): number | null {
  return value !== null && /^\d{1,15}$/.test(value) ? Number(value) : null;
}

function numbers(value: string | null): number[] {
  return (value ?? "").split(".").flatMap((each) => whole(each) ?? []);
}

const LONGEST = 100_000;

/** `1-3.7`: 1, 2, 3 and 7. */
function inRanges(value: string | null): number[] {
  return (value ?? "").split(".").flatMap((each) => {
    const [from, to] = each.split("-").map(whole);
    return typeof from === "number" ? Array.from({ length: Math.max(0, Math.min((to ?? from) - from + 1, LONGEST)) }, (_, i) => from + i) : [];
  });
}

function asRanges(numbers: readonly number[]): string {
  const ranges: [number, number][] = [];
  for (const each of [...numbers].sort((a, b) => a - b)) {
    if (ranges.at(-1)?.[1] === each - 1) ranges.at(-1)![1] = each;
    else ranges.push([each, each]);
  }
  return ranges.map(([from, to]) => (from === to ? `${from}` : `${from}-${to}`)).join(".");
}

/** What a page's address says. */
function reader(hash: string): (name: string) => string | null {
  const given = new URLSearchParams(hash.replace(/^#/, ""));
  return (name) => given.get(name);
}

function common<V extends string>(get: (name: string) => string | null, views: readonly V[], initial: V): Common<V> {
  return {
    view: oneOf<V>(get("view"), views, initial),
    selected: whole(get("function")) ?? 0,
    focus: numbers(get("focus")),
    search: get("search") ?? "",
    ascending: get("order") === "up",
    theme: oneOf<Theme>(get("theme"), ["light", "dark"], "auto"),
  };
}

/** `views`: those that have something to show. */
export function fromHash(hash: string, initial: State, views: readonly View[]): State {
  const get = reader(hash);
  return {
    ...common<View>(get, views, initial.view),
    measure: oneOf<Measure>(get("measure"), ["samples", "exact", "gpu"], initial.measure),
    threads: numbers(get("threads")),
    processes: inRanges(get("processes")),
    frames: oneOf<Frames>(get("frames"), ["all", "plumbing", "python", "native"], "all"),
    imports: oneOf<Imports>(get("imports"), IMPORTS, initial.imports),
    gil: oneOf<Gil>(get("gil"), ["any", "held", "waiting", "neither"], "any"),
    from: whole(get("from")),
    to: whole(get("to")),
    sort: oneOf<SortKey>(get("sort"), SORTS, initial.sort),
    file: get("file") ?? "",
    line: whole(get("line")) ?? 0,
    took: whole(get("took")),
    heat: get("heat") === "1",
    folded: get("folded") === "1",
    each: get("root") === "each",
    patterns: (get("patterns") ?? yes(initial.patterns)) === "1",
  };
}

export function comparisonFromHash(hash: string, initial: ComparisonState): ComparisonState {
  const get = reader(hash);
  return {
    ...common(get, COMPARISON_VIEWS, initial.view),
    width: oneOf<Width>(get("width"), WIDTHS, initial.width),
    sort: oneOf<ComparisonSort>(get("sort"), COMPARISON_SORTS, initial.sort),
  };
}

const yes = (is: boolean) => (is ? "1" : "");

type Told = [name: string, value: string | number | null, usual: unknown][];

function text(told: Told): string {
  const written = told.filter(([, value, usual]) => value !== usual && value !== null);
  return new URLSearchParams(written.map(([name, value]) => [name, String(value)])).toString();
}

function commonText(state: Common<string>): Told {
  return [
    ["function", state.selected, 0],
    ["focus", state.focus.join("."), ""],
    ["search", state.search, ""],
    ["order", state.ascending ? "up" : "", ""],
    ["theme", state.theme, "auto"],
  ];
}

export function toHash(state: State, initial: State): string {
  return text([
    ["view", state.view, initial.view],
    ["measure", state.measure, initial.measure],
    ["threads", state.threads.join("."), ""],
    ["processes", asRanges(state.processes), ""],
    ["root", state.each ? "each" : "all", "all"],
    ["frames", state.frames, "all"],
    ["imports", state.imports, initial.imports],
    ["gil", state.gil, "any"],
    ["from", state.from, null],
    ["to", state.to, null],
    ["sort", state.sort, initial.sort],
    ["file", state.file, ""],
    ["line", state.line, 0],
    ["took", state.took, null],
    ["heat", yes(state.heat), ""],
    ["folded", yes(state.folded), ""],
    ["patterns", yes(state.patterns) || "0", yes(initial.patterns) || "0"],
    ...commonText(state),
  ]);
}

export function comparisonToHash(state: ComparisonState, initial: ComparisonState): string {
  return text([["view", state.view, initial.view], ["width", state.width, initial.width], ["sort", state.sort, initial.sort], ...commonText(state)]);
}
