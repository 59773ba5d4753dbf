// What the page shows, which its address has, too: a link opens the same view.
import type { Choice, Gil, Measure } from "./selection";
import type { SortKey } from "./functions";
import type { Frames } from "./tree";

export const VIEWS = ["flame", "inverted", "callers", "source", "calls"] as const;
export type View = (typeof VIEWS)[number];
export type Theme = "auto" | "light" | "dark";

export interface State extends Choice {
  view: View;
  measure: Measure;
  /** The function that is looked at; 0: none. */
  selected: number;
  /** The functions from the top of the view to what it is zoomed to. */
  focus: number[];
  search: string;
  sort: SortKey;
  ascending: boolean;
  file: string;
  /** Is the heat map shown? */
  heat: boolean;
  theme: Theme;
}

export const INITIAL: State = {
  view: "flame",
  measure: "samples",
  threads: [],
  frames: "all",
  gil: "any",
  from: null,
  to: null,
  selected: 0,
  focus: [],
  search: "",
  sort: "self",
  ascending: false,
  file: "",
  heat: false,
  theme: "auto",
};

const SORTS: SortKey[] = ["self", "total", "below", "calls", "exactSelf", "exactTotal", "perCall", "name"];

function oneOf<T extends string>(value: string | null, known: readonly T[], otherwise: T): T {
  return known.includes(value as T) ? (value as T) : otherwise;
}

function whole(value: string | null): number | null {
  return value !== null && /^\d{1,15}$/.test(value) ? Number(value) : null;
}

function numbers(value: string | null): number[] {
  return (value ?? "").split(".").flatMap((each) => whole(each) ?? []);
}

export function fromHash(hash: string, initial: State): State {
  const given = new URLSearchParams(hash.replace(/^#/, ""));
  const get = (name: string) => given.get(name);
  return {
    view: oneOf<View>(get("view"), VIEWS, initial.view),
    measure: oneOf<Measure>(get("measure"), ["samples", "exact"], initial.measure),
    threads: numbers(get("threads")),
    frames: oneOf<Frames>(get("frames"), ["all", "plumbing", "python", "native"], "all"),
    gil: oneOf<Gil>(get("gil"), ["any", "held", "waiting", "neither"], "any"),
    from: whole(get("from")),
    to: whole(get("to")),
    selected: whole(get("function")) ?? 0,
    focus: numbers(get("focus")),
    search: get("search") ?? "",
    sort: oneOf<SortKey>(get("sort"), SORTS, initial.sort),
    ascending: get("order") === "up",
    file: get("file") ?? "",
    heat: get("heat") === "1",
    theme: oneOf<Theme>(get("theme"), ["light", "dark"], "auto"),
  };
}

export function toHash(state: State, initial: State): string {
  const told = new URLSearchParams();
  const put = (name: string, value: string | number | null, usual: unknown) => {
    if (value !== usual && value !== null) told.set(name, String(value));
  };
  put("view", state.view, initial.view);
  put("measure", state.measure, initial.measure);
  put("threads", state.threads.join("."), "");
  put("frames", state.frames, "all");
  put("gil", state.gil, "any");
  put("from", state.from, null);
  put("to", state.to, null);
  put("function", state.selected, 0);
  put("focus", state.focus.join("."), "");
  put("search", state.search, "");
  put("sort", state.sort, initial.sort);
  if (state.ascending) told.set("order", "up");
  put("file", state.file, "");
  if (state.heat) told.set("heat", "1");
  put("theme", state.theme, "auto");
  return told.toString();
}
