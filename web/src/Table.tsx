// A table of functions.  Only the rows in sight are in the document.
import type { ComponentChildren } from "preact";
import { useRef, useState } from "preact/hooks";
import { count, plural } from "./format";
import { usePaper } from "./environment";
import type { Paths } from "./paths";

const ROW = 22;
const MORE = 12; // rows above and below those in sight
const HEIGHT = 396;
const PAPER_ROWS = 40; // the first ones are printed

export interface Head<K extends string> {
  key: K;
  title: string;
  help: string;
  isExact?: boolean;
  /** Left out where there is little room. */
  isExtra?: boolean;
  isGrey?: boolean;
}

interface TableProps<R extends { frame: number }, K extends string> {
  paths: Paths;
  rows: R[];
  nAll: number;
  heads: Head<K>[];
  cell: (row: R, key: K) => ComponentChildren;
  isGrey?: (row: R) => boolean;
  sort: K | "name";
  ascending: boolean;
  onSort: (key: K | "name") => void;
  selected: number;
  onSelect: (frame: number, open: boolean) => void;
}

export function Table<R extends { frame: number }, K extends string>(props: TableProps<R, K>) {
  const { paths, rows, heads, selected } = props;
  const [top, setTop] = useState(0);
  const scroller = useRef<HTMLDivElement>(null);
  const isPaper = usePaper();
  const first = isPaper ? 0 : Math.max(0, Math.floor(top / ROW) - MORE);
  const shown = rows.slice(first, first + (isPaper ? PAPER_ROWS : Math.ceil(HEIGHT / ROW) + 2 * MORE));
  const sorted = (key: K | "name") => (props.sort === key ? (props.ascending ? "ascending" : "descending") : "none");
  const classOf = (each: Head<K>) => `${each.isGrey ? "grey" : ""} ${each.isExtra && each.key !== props.sort ? "extra" : ""} ${each.isExact && each.key !== props.sort ? "exact" : ""}`;
  const move = (event: KeyboardEvent) => {
    const now = rows.findIndex((each) => each.frame === selected);
    const next = { ArrowDown: now + 1, ArrowUp: Math.max(0, now - 1), Home: 0, End: rows.length - 1 }[event.key];
    if (next !== undefined && rows[next]) {
      event.preventDefault();
      props.onSelect(rows[next].frame, false);
      const y = next * ROW;
      const box = scroller.current!;
      if (y < box.scrollTop) box.scrollTop = y;
      if (y + 2 * ROW > box.scrollTop + HEIGHT) box.scrollTop = y + 2 * ROW - HEIGHT;
    } else if (event.key === "Enter" && selected) props.onSelect(selected, true);
  };
  return (
    <div ref={scroller} class="scroller" style={isPaper ? {} : { height: `${HEIGHT}px` }} tabIndex={0} onKeyDown={move} onScroll={(event) => setTop(event.currentTarget.scrollTop)} aria-label="Functions: arrow keys choose one, Enter shows its callers and callees">
      <table aria-rowcount={rows.length + 1}>
        <thead>
          <tr>
            {heads.map((each) => (
              <th key={each.key} class={classOf(each)} aria-sort={sorted(each.key)}>
                <button title={each.help} onClick={() => props.onSort(each.key)}>
                  {each.title}
                  {each.isExact && <sup title="exact">=</sup>}
                </button>
              </th>
            ))}
            <th class="function" aria-sort={sorted("name")}>
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
              class={props.isGrey?.(row) ? "within" : ""}
              aria-rowindex={first + i + 2}
              aria-selected={row.frame === selected}
              data-frame={row.frame}
              onClick={() => props.onSelect(row.frame, false)}
              onDblClick={() => props.onSelect(row.frame, true)}
            >
              {heads.map((each) => (
                <td key={each.key} class={classOf(each)}>
                  {!each.isGrey && props.cell(row, each.key)}
                </td>
              ))}
              <td class="function" title={`${paths.name(row.frame)}\n${paths.file(row.frame)}`}>
                <i class={`kind ${paths.kind(row.frame)}`} />
                {paths.short(row.frame)} <small>{paths.isInlined(row.frame) && "inlined "}{paths.place(row.frame)}</small>
              </td>
            </tr>
          ))}
          {!isPaper && first + shown.length < rows.length && <tr class="room" style={{ height: `${(rows.length - first - shown.length) * ROW}px` }} />}
        </tbody>
      </table>
    </div>
  );
}
