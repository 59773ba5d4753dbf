// The figures of each function: hot_paths.py and function_calls.py do the same.
import { PSEUDO, type Profile } from "./profile";
import { KEPT } from "./tree";
import { chosenThreads, hasExact, type Choice, type Sums, type Weights } from "./selection";

export interface FunctionRow {
  frame: number;
  samples: number;
  self: number;
  total: number;
  /** Itself with the native code that it called, down to the next Python function. */
  below: number;
  /** Null: no events counted it, or they are not of what is chosen. */
  /** Time on the GPU of what it, and all that it called, launched; null: it is not known. */
  gpu: number | null;
  exact: { calls: number; turns: number; raised: number; self: number; total: number } | null;
}

export function functionsOf(profile: Profile, sums: Sums, choice: Choice): FunctionRow[] {
  const n = profile.nFrames;
  const [samples, self, total, below] = [new Float64Array(n), new Float64Array(n), new Float64Array(n), new Float64Array(n)];
  const { tree } = sums;
  const { isOuter, frame } = tree;
  const nearest = tree.nearestPython();
  for (let node = 1; node < tree.size; node++) {
    if (!sums.total[node] && !sums.samples[node]) continue; // a sample may have no weight
    const of = frame[node]!;
    samples[of]! += sums.samples[node]!;
    self[of]! += sums.self[node]!;
    if (isOuter[node]) total[of]! += sums.total[node]!;
    below[frame[nearest[node]!]!]! += sums.self[node]!;
  }
  const gpu = gpuRows(sums, n);
  const exact = exactRows(profile, choice);
  const rows: FunctionRow[] = [];
  for (let of = 1; of < n; of++) {
    if (!exact.has(of) && (profile.frames.kind[of] === PSEUDO || !(total[of] || gpu?.[of]))) continue;
    const figures = [total[of] ? samples[of]! : 0, self[of]!, total[of]!, below[of]!] as const;
    rows.push({ frame: of, samples: figures[0], self: figures[1], total: figures[2], below: figures[3], gpu: gpu && gpu[of]!, exact: exact.get(of) ?? null });
  }
  return rows;
}

function gpuRows({ gpu, tree }: Sums, n: number): Float64Array | null {
  if (!gpu) return null;
  const total = new Float64Array(n);
  for (let node = 1; node < tree.size; node++) if (gpu.total[node] && tree.isOuter[node]) total[tree.frame[node]!]! += gpu.total[node]!;
  return total;
}

function exactRows(profile: Profile, choice: Choice): Map<number, NonNullable<FunctionRow["exact"]>> {
  const rows = new Map<number, NonNullable<FunctionRow["exact"]>>();
  const chosen = chosenThreads(profile, choice);
  if (!hasExact(profile, choice)) return rows;
  const all = profile.functions;
  const python = choice.frames === "python";
  for (let i = 0; i < all.frame.length; i++) {
    if (chosen && !chosen[all.thread[i]!]) continue;
    const frame = all.frame[i]!;
    if (python && !KEPT.python.includes(profile.frames.kind[frame]!)) continue;
    let row = rows.get(frame);
    if (!row) rows.set(frame, (row = { calls: 0, turns: 0, raised: 0, self: 0, total: 0 }));
    row.calls += all.calls[i]!;
    row.turns += all.turns[i]!;
    row.raised += all.raised[i]!;
    row.self += (python && all.pythonSelf ? all.pythonSelf : all.self)[i]!;
    row.total += all.total[i]!;
  }
  return rows;
}

export type SortKey = "self" | "total" | "below" | "calls" | "exactSelf" | "exactTotal" | "perCall" | "gpu" | "name";

export function valueOf(row: FunctionRow, key: SortKey): number {
  const { exact } = row;
  switch (key) {
    case "self":
    case "total":
    case "below":
      return row[key];
    case "gpu":
      return row.gpu ?? -1;
    case "calls":
      return exact ? exact.calls : -1;
    case "exactSelf":
      return exact ? exact.self : -1;
    case "exactTotal":
      return exact ? exact.total : -1;
    case "perCall":
      return exact && exact.calls ? exact.total / exact.calls : -1;
    default:
      return 0;
  }
}

export function sorted(rows: FunctionRow[], key: SortKey, ascending: boolean, profile: Profile): FunctionRow[] {
  const sign = ascending ? -1 : 1;
  if (key === "name") return rows.slice().sort((a, b) => -sign * (profile.label(a.frame) < profile.label(b.frame) ? -1 : 1));
  return rows
    .slice()
    .sort((a, b) => sign * (valueOf(b, key) - valueOf(a, key)) || b.total - a.total || valueOf(b, "exactSelf") - valueOf(a, "exactSelf") || a.frame - b.frame);
}

/** By the names of `report --json`. */
export function asRecord(profile: Profile, row: FunctionRow): Record<string, string | number | null> {
  const { exact } = row;
  return {
    name: profile.label(row.frame),
    samples: row.samples,
    self_ns: row.self,
    total_ns: row.total,
    python_ns: row.below,
    calls: exact && exact.calls,
    raised: exact && exact.raised,
    exact_self_ns: exact && exact.self,
    exact_total_ns: exact && exact.total,
    ...(row.gpu !== null && { gpu_ns: row.gpu }),
  };
}

/** How much of all is in functions that match, or in what they called. */
export function matchedWeight(sums: Weights, matches: Uint8Array): number {
  const { tree } = sums;
  const inside = new Uint8Array(tree.size);
  let weight = 0;
  for (let node = 1; node < tree.size; node++) {
    if (inside[tree.parent[node]!]) inside[node] = 1;
    else if (matches[tree.frame[node]!]) {
      inside[node] = 1;
      weight += sums.total[node]!;
    }
  }
  return weight;
}
