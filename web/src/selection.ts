// What is chosen, and the figures of it on every path.
import { HELD, NEITHER, OFF_CPU, WAITING, type Profile } from "./profile";
import { Tree, treeOf, type Frames } from "./tree";

export type Gil = "any" | "held" | "waiting" | "neither";
/** What import statements run: one box, all frames, left out. */
export type Imports = "box" | "all" | "out";
export type Measure = "samples" | "exact" | "gpu";

export interface Choice {
  threads: readonly number[];
  processes: readonly number[]; // and all of their threads; none of both: all
  frames: Frames;
  imports: Imports;
  gil: Gil;
  from: number | null;
  to: number | null;
}

/** On every path. */
export interface Weights {
  tree: Tree;
  /** By node. */
  self: Float64Array;
  total: Float64Array;
  /** What 100 % is. */
  all: number;
  /** By node; null: exact figures are not kept by time or state, and those of native code or plumbing are not here. */
  exact: { calls: Float64Array; total: Float64Array; self: Float64Array } | null;
  /** A function that is drawn narrower than its weight, how much, and what its paths' widths are made of, by node. */
  narrow?: { frame: number; scale: number; total: Float64Array };
  /** By node, time on the GPU of what was launched; null: it is not known. */
  gpu: { total: Float64Array; self: Float64Array } | null;
}

/** Of samples. */
export interface Sums extends Weights {
  /** By node. */
  samples: Float64Array;
  nSamples: number;
  /** Of samples that met the profiler's own callbacks, which are outside all shares. */
  own: number;
  /** By leaf of the profile, for lines. */
  leaves: Float64Array;
}

const STATES: Record<Gil, number> = { any: -1, held: HELD, waiting: WAITING, neither: NEITHER };

/** First index from `low` on whose time is not before `at`. */
export function firstFrom(time: Float64Array, at: number, low: number, high: number): number {
  while (low < high) {
    const middle = (low + high) >> 1;
    if (time[middle]! < at) low = middle + 1;
    else high = middle;
  }
  return low;
}

export class Chooser {
  private readonly trees = new Map<string, Tree>();

  constructor(private readonly profile: Profile) {}

  tree({ frames, imports }: Choice): Tree {
    const key = `${frames} ${imports === "all"}`;
    let tree = this.trees.get(key);
    if (!tree) this.trees.set(key, (tree = treeOf(this.profile, frames, imports === "all")));
    return tree;
  }

  sums(choice: Choice): Sums {
    const { profile } = this;
    const tree = this.tree(choice);
    const leaves = new Float64Array(profile.leafNode.length);
    const counts = new Float64Array(profile.leafNode.length);
    const { time, leaf, periods, state } = profile;
    const wanted = STATES[choice.gil];
    for (const thread of this.threads(choice)) {
      const begin = choice.from === null ? thread.begin : firstFrom(time, choice.from, thread.begin, thread.end);
      for (let i = begin; i < thread.end && (choice.to === null || time[i]! <= choice.to); i++) {
        if (wanted >= 0 && (state[i]! & ~OFF_CPU) % 3 !== wanted) continue;
        leaves[leaf[i]!]! += periods[i]!;
        counts[leaf[i]!]!++;
      }
    }
    const self = new Float64Array(tree.size);
    const samples = new Float64Array(tree.size);
    const ownFrame = this.ownFrame();
    let [own, nSamples, all] = [0, 0, 0];
    for (let i = 0; i < leaves.length; i++) {
      if (!counts[i]) continue;
      const weight = leaves[i]! * profile.period;
      leaves[i] = weight;
      const known = profile.leafNode[i]!;
      if (choice.imports === "out" && profile.imports[known]) {
        leaves[i] = 0;
        continue;
      }
      const node = tree.ofLeaf ? tree.ofLeaf[i]! : tree.ofNode ? tree.ofNode[known]! : known;
      if (!node && (choice.frames === "python" || choice.frames === "native")) {
        leaves[i] = 0; // no frame of it is shown
        continue;
      }
      nSamples += counts[i]!;
      if (tree.frame[node] === ownFrame) {
        own += weight;
        leaves[i] = 0;
        continue;
      }
      all += weight;
      self[node]! += weight;
      samples[node]! += counts[i]!;
    }
    return { tree, self, total: tree.inclusive(self), all, samples, nSamples, own, leaves, exact: this.exactOf(choice, tree), gpu: this.gpuOf(choice, tree) };
  }

  threads(choice: Choice): Profile["threads"] {
    const chosen = chosenThreads(this.profile, choice);
    return this.profile.threads.filter((_, i) => !chosen || chosen[i]);
  }

  /** The same as `sums`, with each process at the root of its own paths. */
  byProcess(choice: Choice): Weights {
    const { profile } = this;
    const chosen = chosenThreads(profile, choice);
    const parts = profile.meta.processes.flatMap(({ frame }, process) => {
      const threads = profile.threadsOf[process]!.filter((i) => !chosen || chosen[i]);
      return threads.length ? [{ frame, sums: this.sums({ ...choice, threads, processes: [] }) }] : [];
    });
    const [parent, frame] = [[0], [0]];
    const whence = parts.map(({ frame: root, sums: { tree, total, exact } }) => {
      const here = new Uint8Array(tree.size);
      for (let node = tree.size - 1; node > 0; node--) {
        if (total[node] || (exact && (exact.self[node] || exact.calls[node]))) here[node] = 1;
        if (here[node]) here[tree.parent[node]!] = 1;
      }
      here[0] = 1;
      const first = parent.length;
      const place = new Uint32Array(tree.size);
      const nodes: number[] = [];
      for (let node = 0; node < tree.size; node++) {
        if (!here[node]) continue;
        place[node] = parent.length;
        parent.push(node ? place[tree.parent[node]!]! : 0);
        frame.push(node ? tree.frame[node]! : root);
        nodes.push(node);
      }
      return { first, nodes };
    });
    const tree = new Tree(Uint32Array.from(parent), Uint32Array.from(frame), null, profile);
    const gathered = (of: (sums: Sums) => Float64Array): Float64Array => {
      const values = new Float64Array(tree.size);
      parts.forEach(({ sums }, i) => {
        const { first, nodes } = whence[i]!;
        const known = of(sums);
        for (let at = 0; at < nodes.length; at++) values[first + at] = known[nodes[at]!]!;
      });
      return values;
    };
    const self = gathered((sums) => sums.self);
    const exact = parts.every(({ sums }) => sums.exact) && {
      calls: gathered((sums) => sums.exact!.calls),
      total: gathered((sums) => sums.exact!.total),
      self: gathered((sums) => sums.exact!.self),
    };
    return { tree, self, total: tree.inclusive(self), all: parts.reduce((all, { sums }) => all + sums.all, 0), exact: exact || null, gpu: null };
  }

  private ownFrame(): number {
    for (let frame = 1; frame < this.profile.nFrames; frame++) if (this.profile.isOwn(frame)) return frame;
    return -1;
  }

  private gpuOf(choice: Choice, tree: Tree): Sums["gpu"] {
    const self = this.profile.gpu?.own(choice, tree);
    return self ? { self, total: tree.inclusive(self) } : null;
  }

  private exactOf(choice: Choice, tree: Tree): Sums["exact"] {
    if (!hasExact(this.profile, choice) || choice.frames === "plumbing") return null;
    const { exact } = this.profile;
    const [calls, total, self] = [new Float64Array(tree.size), new Float64Array(tree.size), new Float64Array(tree.size)];
    for (const thread of this.threads(choice)) {
      for (let row = thread.firstExact; row < thread.endExact; row++) {
        const of = exact.node[row]!;
        if (choice.imports === "out" && this.profile.imports[of]) continue;
        const node = tree.ofNode ? tree.ofNode[of]! : of;
        self[node]! += exact.self[row]!;
        if (tree.frame[node] !== this.profile.frame[of]) continue; // it is left out
        calls[node]! += exact.calls[row]!;
        total[node]! += exact.total[row]!;
      }
    }
    return { calls, total, self };
  }
}

/** 1 for each that is chosen, by itself or with its process; null: all are. */
export function chosenThreads(profile: Profile, { threads, processes }: Pick<Choice, "threads" | "processes">): Uint8Array | null {
  if (!threads.length && !processes.length) return null;
  const [these, those] = [new Set(threads), new Set(processes)];
  return Uint8Array.from(profile.threads, ({ process }, i) => Number(these.has(i) || those.has(process)));
}

/** The same with exact self time in the place of samples. */
export function byExactTime<W extends Weights>(sums: W): W {
  if (!sums.exact) return sums;
  const { self } = sums.exact;
  const total = sums.tree.inclusive(self);
  return { ...sums, self, total, all: total[0]! };
}

/** The same with time on the GPU. */
export function byGpuTime<W extends Weights>(sums: W): W {
  return sums.gpu ? { ...sums, ...sums.gpu, all: sums.gpu.total[0]! } : sums;
}

const NARROW = 1 / 8; // of the width, for all imports
const NEARLY_ALL = 0.95;

/** The same with a function that no other one is below drawn narrow, but where it is nearly all. */
export function narrowed<W extends Weights>(sums: W, frame: number): W {
  if (!frame) return sums;
  const { tree, self, all } = sums;
  const own = self.reduce((sum, weight, node) => (tree.frame[node] === frame ? sum + weight : sum), 0);
  const scale = (NARROW * (all - own)) / ((1 - NARROW) * own);
  if (!(scale < 1) || own > NEARLY_ALL * all) return sums;
  const drawn = self.map((weight, node) => (tree.frame[node] === frame ? weight * scale : weight));
  return { ...sums, narrow: { frame, scale, total: tree.inclusive(drawn) } };
}

/** Exact figures are of the whole run, by thread. */
export function hasExact(profile: Profile, choice: Choice): boolean {
  return profile.hasExact && choice.from === null && choice.to === null && choice.gil === "any" && choice.frames !== "native";
}
