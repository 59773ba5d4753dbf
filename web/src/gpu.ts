// A GPU's work: time by call path, and when the kernels and copies of each stream ran (pyhybrid/exporters/html.py).
import type { Columns } from "./columns";
import type { GpuMeta } from "./records";
import type { Choice } from "./selection";
import type { Tree } from "./tree";

/** One that ran; times are nanoseconds since the start. */
export interface Activity {
  work: number;
  begin: number;
  end: number;
  /** From its launch to its begin; 0: it is not known. */
  lag: number;
}

export class Gpu {
  /** Of each row of sums the node that launched it (0: it is not known), whether in its backward pass, the name. */
  readonly node: ArrayLike<number>;
  readonly backward: ArrayLike<number>;
  private readonly name: ArrayLike<number>;
  private readonly ns: ArrayLike<number>;
  /** By stream, by begin. */
  readonly activities: Activity[][];
  /** When it was recorded, from first to last. */
  readonly begin: number;
  readonly end: number;

  constructor(
    readonly meta: GpuMeta,
    columns: Columns,
    private readonly strings: readonly string[],
  ) {
    const of = (name: string) => columns.numbers(name);
    this.node = of("gpu.node");
    this.backward = of("gpu.backward");
    this.name = of("gpu.name");
    this.ns = of("gpu.ns");
    const stream = of("gpu.stream");
    const [work, ticks, lag] = [of("activity.work"), of("activity.ticks"), of("activity.lag")];
    this.activities = meta.streams.map(() => []);
    let now = 0;
    of("activity.begin").forEach((step, i) => {
      now += step;
      const begin = now * meta.tick_ns;
      const end = begin + ticks[i]! * meta.tick_ns;
      this.activities[stream[work[i]!]!]!.push({ work: work[i]!, begin, end, lag: lag[i]! * meta.tick_ns });
    });
    this.begin = Math.min(...meta.windows.map(([begin]) => begin), ...this.activities.map((each) => each[0]?.begin ?? Infinity));
    this.end = Math.max(this.begin + 1, ...meta.windows.map(([, end]) => end));
  }

  nameOf(work: number): string {
    return this.strings[this.name[work]!]!;
  }

  streamName(at: number): string {
    const [device, stream] = this.meta.streams[at]!;
    return `GPU ${device}, stream ${stream}`;
  }

  /** Time on the GPU that each node launched itself; null: by thread or state it is not known. */
  own(choice: Choice, tree: Tree): Float64Array | null {
    if (choice.threads.length || choice.processes.length || choice.gil !== "any" || choice.frames === "plumbing" || choice.frames === "native") return null;
    const own = new Float64Array(tree.size);
    const add = (work: number, ns: number) => {
      const node = this.node[work]!;
      own[tree.ofNode ? tree.ofNode[node]! : node]! += ns;
    };
    if (choice.from === null && choice.to === null) {
      for (let work = 0; work < this.node.length; work++) add(work, this.ns[work]!);
    } else {
      const [from, to] = [choice.from ?? 0, choice.to ?? Infinity];
      for (const stream of this.activities) for (const each of stream) if (each.begin >= from && each.begin <= to) add(each.work, each.end - each.begin);
    }
    return own;
  }

  /** The last activity of a stream that began by then; -1: none did. */
  lastBefore(stream: number, ns: number): number {
    const all = this.activities[stream]!;
    let [low, high] = [0, all.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (all[middle]!.begin <= ns) low = middle + 1;
      else high = middle;
    }
    return low - 1;
  }
}
