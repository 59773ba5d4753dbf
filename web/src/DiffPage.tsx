// The page of runs that are compared: width is time, colour how many standard errors it changed by.
import { useLayoutEffect, useMemo } from "preact/hooks";
import { inverted, ofFunction, wholeTree, type Box } from "./boxes";
import { changeColor } from "./colors";
import { relative, type Comparison } from "./diff";
import { useAddress, useKeys, useTheme, useWidth } from "./environment";
import { FlameGraph } from "./FlameGraph";
import { change as percentChange, count, percent, plural, time } from "./format";
import { matchedWeight } from "./functions";
import { comparisonFromHash, comparisonToHash, COMPARISON_VIEWS, INITIAL_COMPARISON, type ComparisonSort, type ComparisonState, type Width } from "./state";
import { Table, type Head } from "./Table";
import { Search, Tabs, ThemeButton } from "./Toolbar";
import type { ComparedFunction, ComparedStep, ShownChange } from "./records";

const HEADS: Head<ComparisonSort>[] = [
  { key: "own", title: "own change", help: "change of the time in the function itself, of Python functions with the native code that they called; what differs by more than noise comes first" },
  { key: "before", title: "before", help: "time in it and in all that it called, by samples: mean of the runs before" },
  { key: "after", title: "after", help: "the same of the runs after" },
  { key: "change", title: "change", help: "of this time, with its 95 % interval: noise on a busy machine" },
  { key: "share", title: "vs rest", help: "change of its time over that of the rest of the run, with its 95 % interval; grey: within noise" },
  { key: "calls", title: "calls", help: "how often it was called: all are counted", isExact: true },
  { key: "perCall", title: "a call", help: "exact time of a call", isExact: true, isExtra: true },
];

const WIDTH_NAMES: Record<Width, string> = { after: "time after", before: "time before", larger: "the larger one" };

export function ComparisonPage({ comparison }: { comparison: Comparison }) {
  const { facts } = comparison;
  const [state, change] = useAddress(INITIAL_COMPARISON, comparisonFromHash, comparisonToHash);
  const { dark, colors } = useTheme(state.theme);
  const inner = useWidth() - 24;
  useKeys(COMPARISON_VIEWS, change, () => change({ search: "", focus: [] }));
  const { view, selected } = state;
  const sums = comparison.weights(state.width);
  const [matches, badSearch] = useMemo(() => comparison.search(state.search), [state.search]);
  const rows = useMemo(
    () => comparison.sorted(matches ? facts.functions.filter((row) => matches[row.frame]) : facts.functions, state.sort, state.ascending),
    [matches, state.sort, state.ascending],
  );
  const ways = useMemo(() => {
    if (view === "flame") return [[wholeTree(sums)]];
    if (view === "inverted") return [inverted(sums)];
    return selected ? [[ofFunction(sums, selected, true)], [ofFunction(sums, selected, false)]] : [];
  }, [view, sums, selected]);
  const paint = useMemo(() => {
    const known = new WeakMap<Box, string>();
    return (box: Box) => {
      let color = known.get(box);
      if (!color) known.set(box, (color = changeColor(comparison.changeOf(box, view === "inverted").errors, dark)));
      return color;
    };
  }, [view, dark]);
  const tell = (box: Box) => {
    const { before, after, errors } = comparison.changeOf(box, view === "inverted");
    return `${time(before)} before, ${time(after)} after: ${percentChange(relative(before, after))}, ${Math.abs(errors).toFixed(1)} standard errors ${errors < 0 ? "less" : "more"}`;
  };
  useLayoutEffect(() => {
    window.functions = () => rows.map((row) => ({ name: comparison.name(row.frame), before: row.total?.before ?? null, after: row.total?.after ?? null, differs: row.differs === null ? null : Number(row.differs) }));
    window.ready = true;
  }, [rows]);

  const height = Math.max(220, Math.round(window.innerHeight * 0.42));
  const flame = { profile: comparison, sums, colors, matches, selected, width: inner, paint, tell, onSelect: (frame: number) => change({ selected: frame }) };
  const choose = (path: number[]) => change({ selected: path.at(-1) ?? selected });
  return (
    <>
      <header>
        <h1>pyhybrid diff</h1>
        <dl class="said">
          {facts.facts.map(([name, text, care]) => (
            <div key={name + text} class={care ? "amber" : ""}>
              <dt>{name}</dt>
              <dd>{text}</dd>
            </div>
          ))}
        </dl>
        {facts.n_steps && <StepChanges steps={facts.steps} n={facts.n_steps} />}
      </header>
      <ThemeButton dark={dark} change={change} />
      <nav class="toolbar" aria-label="What to show">
        <Tabs views={COMPARISON_VIEWS} view={view} change={change} />
        <Search state={state} badSearch={badSearch} matched={matches ? `${percent(matchedWeight(sums, matches), sums.all)} in ${plural(rows.length, "function")}` : ""} change={change} />
        <label title="what the width of a box is">
          width{" "}
          <select value={state.width} onChange={(event) => change({ width: event.currentTarget.value as Width, focus: [] })}>
            {Object.entries(WIDTH_NAMES).map(([width, name]) => (
              <option key={width} value={width}>
                {name}
              </option>
            ))}
          </select>
        </label>
      </nav>
      <main>
        {view !== "callers" && (
          <FlameGraph {...flame} label={view === "flame" ? "Flame graph" : "Inverted flame graph"} roots={ways[0]!} focus={state.focus} onFocus={(focus) => change({ focus })} height={height} />
        )}
        {view === "callers" &&
          (ways.length ? (
            <>
              <h2 class="muted">called by</h2>
              <FlameGraph {...flame} label="Callers" roots={ways[0]!} focus={[]} onFocus={choose} height={Math.round(height * 0.5)} flip />
              <h2 class="muted">calls</h2>
              <FlameGraph {...flame} label="Callees" roots={ways[1]!} focus={[]} onFocus={choose} height={Math.round(height * 0.5)} />
            </>
          ) : (
            <p class="empty">Choose a function in the table below.</p>
          ))}
        <Legend dark={dark} />
        <section class="functions" aria-label="Functions">
          <Table
            paths={comparison}
            rows={rows}
            nAll={facts.functions.length}
            heads={HEADS}
            cell={cell}
            isGrey={(row) => !row.differs && !row.calls_differ}
            sort={state.sort}
            ascending={state.ascending}
            onSort={(sort) => change(sort === state.sort ? { ascending: !state.ascending } : { sort, ascending: false })}
            selected={selected}
            onSelect={(frame, open) => change({ selected: frame, ...(open ? { view: "callers" as const } : {}) } as Partial<ComparisonState>)}
          />
          {facts.n_left_out > 0 && <p class="muted note">{plural(facts.n_left_out, "function")} with as many calls before and after, and too few samples to be compared, are left out.</p>}
        </section>
      </main>
      <footer class="muted">pyhybrid {facts.version} · keys: 1-3 views, / search, arrows in the graph and the table, Esc all</footer>
    </>
  );
}

function cell(row: ComparedFunction, key: ComparisonSort) {
  const { total, share, calls } = row;
  switch (key) {
    case "own":
      return total ? `${row.own > 0 ? "+" : row.own < 0 ? "−" : ""}${time(Math.abs(row.own))}` : "";
    case "before":
    case "after":
      return total ? time(total[key]) : "";
    case "change":
      return total ? <span title={interval(total)}>{percentChange(relative(total.before, total.after))}</span> : "";
    case "share":
      return share ? <span title={interval(share)}>{percentChange(relative(share.before, share.after))}</span> : "";
    case "calls":
      return calls ? (row.calls_differ ? <b>{`${count(calls[0])} → ${count(calls[1])}`}</b> : count(calls[1])) : "";
    default:
      return row.per_call ? `${time(row.per_call[0])} → ${time(row.per_call[1])}` : "";
  }
}

/** The median and the mean time of a step, and of each of its phases. */
function StepChanges({ steps, n }: { steps: ComparedStep[]; n: number[][] }) {
  const cells = (change: ShownChange, differs: boolean | null) => {
    const style = differs ? "" : "muted";
    return [time(change.before), time(change.after), percentChange(relative(change.before, change.after))].map((text, i) => (
      <td key={i} class={style} title={interval(change)}>
        {differs && i === 2 ? <b>{text}</b> : text}
      </td>
    ));
  };
  return (
    <details class="step-changes" open>
      <summary>steps of the training: {n.map((runs) => runs.map(count).join(", ")).join(" → ")}</summary>
      <table>
        <thead>
          <tr>
            <th scope="col" class="name">
              of a step
            </th>
            {["median", "mean"].flatMap((figure) => [`${figure} before`, "after", "change"]).map((title, i) => (
              <th scope="col" key={i} title="with its 95 % interval; grey: within noise">
                {title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {steps.map((step) => (
            <tr key={step.name}>
              <th scope="row" class="name">
                {step.name}
              </th>
              {cells(step.median, step.median_differs)}
              {cells(step.mean, step.mean_differs)}
            </tr>
          ))}
        </tbody>
      </table>
    </details>
  );
}

function interval({ low, high, visible }: ShownChange): string {
  const end = (value: number | null) => (value === null ? "?" : percentChange(value));
  return `95 % interval: ${end(low)} to ${end(high)}${visible === null ? "" : `; ${(100 * visible).toFixed(1)} % would be seen`}`;
}

function Legend({ dark }: { dark: boolean }) {
  return (
    <p class="legend">
      colour: standard errors
      {[-8, -4, 0, 4, 8].map((errors) => (
        <span key={errors}>
          <svg width="10" height="10" aria-hidden="true">
            <rect width="10" height="10" rx="2" fill={changeColor(errors, dark)} />
          </svg>{" "}
          {errors === 0 ? "within noise" : `${Math.abs(errors)} ${errors < 0 ? "less" : "more"}`}
        </span>
      ))}
    </p>
  );
}
