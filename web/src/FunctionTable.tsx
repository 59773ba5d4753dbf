// All functions: samples beside what events counted.  Only the rows in sight are in the document.
import { useMemo, useRef, useState } from "preact/hooks";
import { count, percent, plural, shortCount, time } from "./format";
import { type FunctionRow, type SortKey } from "./functions";
import type { Profile } from "./profile";

const ROW = 22;
const MORE = 12; // rows above and below those in sight

interface Head {
  key: SortKey;
  title: string;
  help: string;
  isExact: boolean;
  /** Left out where there is little room. */
  isExtra?: boolean;
}

const HEADS: Head[] = [
  { key: "self", title: "self", help: "samples in the function itself", isExact: false },
  { key: "below", title: "with native", help: "of Python functions: in itself and in the native code that it called, down to the next Python function", isExact: false, isExtra: true },
  { key: "total", title: "total", help: "samples in it and in all that it called", isExact: false },
  { key: "calls", title: "calls", help: "how often it was called: all are counted", isExact: true },
  { key: "exactTotal", title: "time", help: "wall-clock time of all calls, with what they called", isExact: true },
  { key: "exactSelf", title: "self time", help: "the same without what they called", isExact: true, isExtra: true },
  { key: "perCall", title: "a call", help: "time of a call on average", isExact: true, isExtra: true },
];

export interface TableProps {
  profile: Profile;
  rows: FunctionRow[];
  nAll: number;
  all: number;
  sort: SortKey;
  ascending: boolean;
  onSort: (key: SortKey) => void;
  selected: number;
  onSelect: (frame: number, open: boolean) => void;
  hasSamples: boolean;
  hasExact: boolean;
  /** Why exact figures are not of what is chosen; empty: they are. */
  noExact: string;
}

export function FunctionTable(props: TableProps) {
  const { profile, rows, all, selected, noExact } = props;
  const [top, setTop] = useState(0);
  const scroller = useRef<HTMLDivElement>(null);
  const height = 396;
  const first = Math.max(0, Math.floor(top / ROW) - MORE);
  const shown = rows.slice(first, first + Math.ceil(height / ROW) + 2 * MORE);
  const heads = HEADS.filter((each) => (each.isExact ? props.hasExact : props.hasSamples));
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
  const classOf = (each: Head) => `${each.isExact && noExact ? "grey" : ""} ${each.isExtra ? "extra" : ""}`;
  const move = (event: KeyboardEvent) => {
    const now = rows.findIndex((each) => each.frame === selected);
    const next = { ArrowDown: now + 1, ArrowUp: Math.max(0, now - 1), Home: 0, End: rows.length - 1 }[event.key];
    if (next !== undefined && rows[next]) {
      event.preventDefault();
      props.onSelect(rows[next].frame, false);
      const y = next * ROW;
      const box = scroller.current!;
      if (y < box.scrollTop) box.scrollTop = y;
      if (y + 2 * ROW > box.scrollTop + height) box.scrollTop = y + 2 * ROW - height;
    } else if (event.key === "Enter" && selected) props.onSelect(selected, true);
  };
  return (
    <section class="functions" aria-label="Functions">
      <div ref={scroller} class="scroller" style={{ height: `${height}px` }} tabIndex={0} onKeyDown={move} onScroll={(event) => setTop(event.currentTarget.scrollTop)} aria-label="Functions: arrow keys choose one, Enter shows its callers and callees">
        <table aria-rowcount={rows.length + 1}>
          <thead>
            <tr>
              {heads.map((each) => (
                <th key={each.key} class={classOf(each)} aria-sort={props.sort === each.key ? (props.ascending ? "ascending" : "descending") : "none"}>
                  <button title={each.isExact && noExact ? noExact : each.help} onClick={() => props.onSort(each.key)}>
                    {each.title}
                    {each.isExact && <sup title="exact">=</sup>}
                  </button>
                </th>
              ))}
              <th class="function" aria-sort={props.sort === "name" ? (props.ascending ? "ascending" : "descending") : "none"}>
                <button onClick={() => props.onSort("name")}>function</button>
                <span class="muted">
                  {rows.length < props.nAll ? `${count(rows.length)} of ${plural(props.nAll, "function")}` : plural(rows.length, "function")}
                </span>
              </th>
            </tr>
          </thead>
          <tbody>
            {first > 0 && <tr class="room" style={{ height: `${first * ROW}px` }} />}
            {shown.map((row, i) => (
              <tr
                key={row.frame}
                aria-rowindex={first + i + 2}
                aria-selected={row.frame === selected}
                data-frame={row.frame}
                onClick={() => props.onSelect(row.frame, false)}
                onDblClick={() => props.onSelect(row.frame, true)}
              >
                {heads.map((each) => (
                  <td key={each.key} class={classOf(each)}>
                    {each.isExact && noExact ? "" : cell(row, each.key)}
                  </td>
                ))}
                <td class="function" title={`${profile.name(row.frame)}\n${profile.file(row.frame)}`}>
                  <i class={`kind ${profile.kind(row.frame)}`} />
                  {profile.short(row.frame)} <small>{profile.isInlined(row.frame) && "inlined "}{profile.place(row.frame)}</small>
                </td>
              </tr>
            ))}
            {first + shown.length < rows.length && <tr class="room" style={{ height: `${(rows.length - first - shown.length) * ROW}px` }} />}
          </tbody>
        </table>
      </div>
      {props.hasExact && noExact && <p class="muted note">{noExact}</p>}
    </section>
  );
}

function Share({ part, all, most }: { part: number; all: number; most: number }) {
  if (!part) return null;
  return (
    <span class="share" title={time(part)}>
      <span class="bar" style={{ width: `${Math.min(100, (100 * part) / most)}%` }} />
      {percent(part, all)}
    </span>
  );
}
