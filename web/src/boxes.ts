// Where the boxes of a flame graph are.  A box stands for nodes of the tree that have one function and one
// way to the root of the view; what is below it are these nodes' children, or, where the way leads up,
// their parents, by function.
import type { Paths } from "./paths";
import type { Weights } from "./selection";

export interface Box {
  frame: number;
  nodes: number[];
  /** Of each node, where the way leads up: how much of it comes from where the way began. */
  weights: number[] | null;
  /** And where it began. */
  origins: number[] | null;
  weight: number;
  /** What its width is made of: its weight, but where `sums` have something narrow. */
  drawn: number;
  x: number;
  width: number;
  depth: number;
  /** Above what the view is zoomed to. */
  isContext: boolean;
}

const LEAST = 0.6; // pixels

/** In the place of a frame: boxes that are too narrow to be seen. */
export const REST = -1;

function box(frame: number, up: boolean): Box {
  return { frame, nodes: [], weights: up ? [] : null, origins: up ? [] : null, weight: 0, drawn: 0, x: 0, width: 0, depth: 0, isContext: false };
}

const byWidth = (a: Box, b: Box) => b.drawn - a.drawn || a.frame - b.frame;

/** Adds a node's weight; where the way leads up, it came from `origin`. */
function extend(of: Box, node: number, weight: number, origin: number, { narrow, tree }: Weights): void {
  of.nodes.push(node);
  of.weights?.push(weight);
  of.origins?.push(origin);
  of.weight += weight;
  if (!narrow) of.drawn += weight;
  else if (!of.weights) of.drawn += narrow.total[node]!;
  else of.drawn += tree.frame[origin] === narrow.frame ? weight * narrow.scale : weight;
}

/** What is below a box, the widest first. */
export function below(parent: Box, sums: Weights): Box[] {
  const { tree, total } = sums;
  const found = new Map<number, Box>();
  const up = parent.weights;
  const add = (node: number, weight: number, origin: number) => {
    const frame = tree.frame[node]!;
    let of = found.get(frame);
    if (!of) found.set(frame, (of = box(frame, up !== null)));
    extend(of, node, weight, origin, sums);
  };
  parent.nodes.forEach((node, i) => {
    if (up) {
      const above = tree.parent[node]!;
      if (above) add(above, up[i]!, parent.origins![i]!);
      return;
    }
    for (let child = tree.firstChild[node]!; child; child = tree.nextSibling[child]!) if (total[child]) add(child, total[child]!, child);
  });
  return [...found.values()].sort(byWidth);
}

/** The whole tree: one box, the root's. */
export function wholeTree(sums: Weights): Box {
  const one = box(0, false);
  extend(one, 0, sums.all, 0, sums);
  return one;
}

/** One box, below which are the functions where time was spent, and what called them. */
export function inverted(sums: Weights): Box[] {
  const found = new Map<number, Box>();
  for (let node = 1; node < sums.tree.size; node++) {
    const weight = sums.self[node]!;
    if (!weight) continue;
    const frame = sums.tree.frame[node]!;
    let of = found.get(frame);
    if (!of) found.set(frame, (of = box(frame, true)));
    extend(of, node, weight, node, sums);
  }
  return [...found.values()].sort(byWidth);
}

/** All of a function's outermost activations: with what they called, or `up`, with what called them. */
export function ofFunction(sums: Weights, frame: number, up: boolean): Box {
  const one = box(frame, up);
  const { tree, total } = sums;
  for (let node = 1; node < tree.size; node++) {
    if (tree.frame[node] === frame && tree.isOuter[node] && total[node]) extend(one, node, total[node]!, node, sums);
  }
  return one;
}

/** The boxes that are wide enough to be seen; those on the way to `focus` (functions) are as wide as all. */
export function layout(roots: Box[], width: number, focus: readonly number[], sums: Weights): Box[] {
  const boxes: Box[] = [];
  let level = roots;
  let depth = 0;
  let scale = roots.reduce((sum, each) => sum + each.drawn, 0);
  for (const frame of focus) {
    const next = level.find((each) => each.frame === frame);
    if (!next) break;
    const isLast = depth === focus.length - 1;
    boxes.push(Object.assign(next, { x: 0, width, depth, isContext: !isLast }));
    scale = next.drawn;
    level = below(next, sums);
    depth++;
  }
  const todo: [Box[], number, number][] = [[level, 0, depth]];
  while (todo.length) {
    const [row, start, at] = todo.pop()!;
    let x = start;
    for (const each of row) {
      const wide = (each.drawn / scale) * width;
      if (!(wide >= LEAST)) {
        const rest = row.slice(row.indexOf(each)).reduce((sum, one) => sum + one.drawn, 0);
        const left = (rest / scale) * width;
        if (left >= LEAST) boxes.push({ ...box(REST, false), drawn: rest, x, width: left, depth: at });
        break;
      }
      Object.assign(each, { x, width: wide, depth: at, isContext: false });
      boxes.push(each);
      todo.push([below(each, sums), x, at + 1]);
      x += wide;
    }
  }
  return boxes;
}

/** What the box adds by itself: what is not below it. */
export function selfOf(each: Box, sums: Weights): number {
  return each.nodes.reduce((sum, node) => sum + sums.self[node]!, 0);
}

export function exactOf(each: Box, sums: Weights): { calls: number; total: number } | null {
  if (!sums.exact || each.weights) return null;
  const of = { calls: 0, total: 0 };
  for (const node of each.nodes) {
    of.calls += sums.exact.calls[node]!;
    of.total += sums.exact.total[node]!;
  }
  return of.calls || of.total ? of : null;
}

/** Time on the GPU of what was launched in it and below. */
export function gpuOf(each: Box, sums: Weights): number {
  return sums.gpu && !each.weights ? each.nodes.reduce((sum, node) => sum + sums.gpu!.total[node]!, 0) : 0;
}

export function pathText(path: readonly number[], paths: Paths): string {
  return path.map((frame) => paths.name(frame)).join(" > ");
}
