// Runs that are compared, as pyhybrid/exporters/page/diff.py writes them.  The errors are those of
// pyhybrid/views/diff/significance.py.
import type { Box } from "./boxes";
import type { Columns } from "./columns";
import { Paths } from "./paths";
import type { ComparedFunction, ComparisonMeta } from "./records";
import type { Weights } from "./selection";
import type { ComparisonSort, Width } from "./state";
import { Tree } from "./tree";

/** Of paths together; nanoseconds, means of the runs. */
export interface PathChange {
  before: number;
  after: number;
  /** How many standard errors lie between the two. */
  errors: number;
}

interface Run {
  self: Float64Array;
  total: Float64Array;
  selfVariance: Float64Array;
  totalVariance: Float64Array;
}

export class Comparison extends Paths {
  readonly tree: Tree;
  readonly facts: ComparisonMeta["comparison"];
  private readonly sides: [before: Run[], after: Run[]];
  private readonly known = new Map<Width, Weights>();

  constructor(meta: ComparisonMeta, columns: Columns) {
    super(columns);
    this.facts = meta.comparison;
    this.tree = new Tree(this.parent, this.frame, null, this);
    const runs = this.facts.periods_ns.map((period, i) => this.run(i, period));
    this.sides = [runs.slice(0, this.facts.n_before), runs.slice(this.facts.n_before)];
  }

  private run(i: number, period: number): Run {
    const self = new Float64Array(this.parent.length);
    const selfVariance = new Float64Array(this.parent.length);
    const [steps, weights, variances] = ["node", "weight", "variance"].map((name) => this.columns.numbers(`run.${i}.${name}`));
    let node = 0;
    steps!.forEach((step, row) => {
      node += step;
      self[node] = weights![row]!;
      selfVariance[node] = variances![row]! * period ** 2;
    });
    return { self, selfVariance, total: this.tree.inclusive(self), totalVariance: this.tree.inclusive(selfVariance) };
  }

  /** What is drawn: the time after, before, or on each path the larger one of both. */
  weights(width: Width): Weights {
    let found = this.known.get(width);
    if (!found) {
      const [before, after] = this.sides.map((runs) => {
        const mean = new Float64Array(this.parent.length);
        for (const run of runs) run.self.forEach((weight, node) => (mean[node]! += weight / runs.length));
        return mean;
      }) as [Float64Array, Float64Array];
      const self = width === "after" ? after : width === "before" ? before : after.map((weight, node) => Math.max(weight, before[node]!));
      const total = this.tree.inclusive(self);
      this.known.set(width, (found = { tree: this.tree, self, total, all: total[0]!, exact: null, gpu: null }));
    }
    return found;
  }

  /** `alone`: where the way leads up, it began with the time of paths without what they called. */
  changeOf(box: Box, alone: boolean): PathChange {
    const nodes = box.origins ?? box.nodes;
    const [before, after] = this.sides.map((runs, side) => {
      const values: number[] = [];
      let variance = 0;
      runs.forEach((run, i) => {
        const [of, ofVariance] = box.origins && alone ? [run.self, run.selfVariance] : [run.total, run.totalVariance];
        let value = 0;
        let counted = 0;
        for (const node of nodes) {
          value += of[node]!;
          counted += ofVariance[node]!;
        }
        values.push(value);
        variance += Math.max(counted, this.facts.periods_ns[side * this.facts.n_before + i]! ** 2);
      });
      return this.mean(values, variance);
    }) as [{ value: number; variance: number }, { value: number; variance: number }];
    const difference = after.value - before.value;
    return { before: before.value, after: after.value, errors: difference / Math.sqrt(before.variance + after.variance) };
  }

  private mean(values: number[], counted: number): { value: number; variance: number } {
    const n = values.length;
    const value = values.reduce((sum, each) => sum + each, 0) / n;
    if (!this.facts.by_runs) return { value, variance: counted / n ** 2 + (this.facts.run_to_run * value) ** 2 / n };
    const spread = values.reduce((sum, each) => sum + (each - value) ** 2, 0) / (n - 1);
    return { value, variance: Math.max(spread / n, counted / n ** 2) };
  }

  /** As the table shows them: what differs comes first. */
  sorted(rows: ComparedFunction[], key: ComparisonSort, ascending: boolean): ComparedFunction[] {
    const sign = ascending ? -1 : 1;
    if (key === "name") return rows.slice().sort((a, b) => -sign * (this.label(a.frame) < this.label(b.frame) ? -1 : 1));
    const value = (row: ComparedFunction): number => {
      switch (key) {
        case "before":
        case "after":
          return row.total?.[key] ?? -1;
        case "change":
          return relative(row.total?.before ?? 0, row.total?.after ?? 0);
        case "share":
          return relative(row.share?.before ?? 0, row.share?.after ?? 0);
        case "calls":
          return row.calls ? Math.abs(row.calls[1] - row.calls[0]) : -1;
        case "perCall":
          return row.per_call ? relative(...row.per_call) : -1;
        default:
          return Math.abs(row.own);
      }
    };
    const first = (row: ComparedFunction) => Number(key === "own" && !row.differs && !row.calls_differ);
    return rows.slice().sort((a, b) => first(a) - first(b) || sign * (value(b) - value(a)) || a.frame - b.frame);
  }
}

/** 0.05: 5 % more. */
export function relative(before: number, after: number): number {
  return before ? after / before - 1 : after ? Infinity : 0;
}
