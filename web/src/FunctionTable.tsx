// All functions: samples beside what events counted.
import { useMemo } from "preact/hooks";
import { count, percent, shortCount, time } from "./format";
import type { FunctionRow, SortKey } from "./functions";
import type { Profile } from "./profile";
import { Table, type Head } from "./Table";

const HEADS: Head<SortKey>[] = [
  { key: "self", title: "self", help: "samples in the function itself" },
  { key: "below", title: "with native", help: "of Python functions: in itself and in the native code that it called, down to the next Python function", isExtra: true },
  { key: "total", title: "total", help: "samples in it and in all that it called" },
  { key: "calls", title: "calls", help: "how often it was called: all are counted", isExact: true },
  { key: "exactTotal", title: "time", help: "wall-clock time of all calls, with what they called", isExact: true },
  { key: "exactSelf", title: "self time", help: "the same without what they called", isExact: true, isExtra: true },
  { key: "perCall", title: "a call", help: "time of a call on average", isExact: true, isExtra: true },
  { key: "gpu", title: "on GPU", help: "time on the GPU of what it, and all that it called, launched, in the forward and the backward pass" },
];

export interface FunctionTableProps {
  profile: Profile;
  rows: FunctionRow[];
  nAll: number;
  all: number;
  sort: SortKey;
  ascending: boolean;
  onSort: (key: SortKey) => void;
  selected: number;
  onSelect: (frame: number, open: boolean) => void;
  /** Why exact figures are not of what is chosen; empty: they are. */
  noExact: string;
}

export function FunctionTable({ profile, rows, all, noExact, ...rest }: FunctionTableProps) {
  const heads = HEADS.filter((each) => (each.key === "gpu" ? profile.gpu : each.isExact ? profile.hasExact : profile.nSamples > 0)).map((each) =>
    each.isExact && noExact ? { ...each, help: noExact, isGrey: true } : each,
  );
  const most = useMemo(() => {
    const widest = { self: 1, below: 1, total: 1 };
    for (const row of rows) for (const key of ["self", "below", "total"] as const) widest[key] = Math.max(widest[key], row[key]);
    return widest;
  }, [rows]);
  const cell = (row: FunctionRow, key: SortKey) => {
    const { exact } = row;
    switch (key) {
      case "self":
      case "total":
        return <Share part={row[key]} all={all} most={most[key]} />;
      case "below":
        return row.below ? <Share part={row.below} all={all} most={most.below} /> : "";
      case "gpu":
        return row.gpu ? time(row.gpu) : "";
      case "calls":
        return exact ? <span title={count(exact.calls)}>{shortCount(exact.calls)}</span> : "";
      case "exactTotal":
        return exact ? time(exact.total) : "";
      case "exactSelf":
        return exact ? time(exact.self) : "";
      default:
        return exact?.calls ? time(exact.total / exact.calls) : "";
    }
  };
  return (
    <section class="functions" aria-label="Functions">
      <Table paths={profile} rows={rows} heads={heads} cell={cell} {...rest} />
      {profile.hasExact && noExact && <p class="muted note">{noExact}</p>}
    </section>
  );
}

function Share({ part, all, most }: { part: number; all: number; most: number }) {
  if (!part) return null;
  return (
    <span class="share" title={`${percent(part, all)}, ${time(part)}`}>
      <span class="bar" style={{ width: `${Math.min(100, (100 * part) / most)}%` }} />
      {percent(part, all)} <small>{time(part)}</small>
    </span>
  );
}
