// A profile, as the page's data have it: pyhybrid/exporters/html.py.
// Times are nanoseconds since the start, weights nanoseconds of the sampling clock.
import type { Column, Columns } from "./columns";
import { Gpu } from "./gpu";
import { back, Paths } from "./paths";
import type { Meta, SourceFile, Summary } from "./records";

export * from "./paths";
export type { CallDurations, Finding, Meta, SourceFile, Summary } from "./records";

export const [IMPORT, IN_IMPORT] = [1, 2];

export const NEITHER = 0;
export const HELD = 1;
export const WAITING = 2;
export const OFF_CPU = 4; // beside one of these

export const STATES = ["returned", "raised", "partial"];

export interface Call {
  thread: number;
  frame: number;
  begin: number;
  duration: number;
  busy: number;
  state: number;
  attributes: string;
}

/** Of a training. */
export interface Step {
  /** Its place among all, from 0. */
  number: number;
  thread: number;
  begin: number;
  duration: number;
  /** What each phase took, in the order of `meta.steps.phases`. */
  phases: number[];
  /** Of the slowest: why. */
  why: string;
}

export interface Thread {
  /** Its place in `meta.processes`. */
  process: number;
  name: string;
  tid: number;
  cpu_ns: number | null;
  lost: number;
  weight: number;
  /** Its samples: begin to end. */
  begin: number;
  end: number;
  /** Its rows of exact figures. */
  firstExact: number;
  endExact: number;
}

export class Profile extends Paths {
  readonly summary: Summary;
  /** Of paths: IMPORT is an import statement's, IN_IMPORT is below one. */
  readonly imports: Column;
  /** The paths that were sampled, with all their frames. */
  readonly plumbing: { parent: Uint32Array; frame: Column; ofLeaf: Column };
  readonly leaf: Column;
  readonly time: Float64Array;
  readonly state: Column;
  readonly periods: Float64Array;
  readonly leafNode: Column;
  readonly leafPlace: Column;
  /** 1: it is below a call that waits for other threads, as wall-clock time shows. */
  readonly leafWaits: Column;
  readonly placeParent: Uint32Array;
  readonly placeFile: Column;
  readonly placeLine: Column;
  readonly exact: { node: Uint32Array; calls: Column; total: Float64Array; self: Float64Array };
  readonly functions: { thread: Column; frame: Column; calls: Column; turns: Column; raised: Column; self: Column; total: Column; pythonSelf: Column | null };
  readonly threads: Thread[] = [];
  /** By process. */
  readonly threadsOf: number[][];
  /** The slowest of those that were kept, by time. */
  readonly calls: Call[];
  /** By begin. */
  readonly steps: Step[];
  /** Of lines that were counted: hits and time, by number of the file's name and line. */
  readonly counted = new Map<number, Map<number, { hits: number; total: number }>>();
  /** From the start to the last thing that is known. */
  readonly end: number;
  readonly hasExact: boolean;
  readonly gpu: Gpu | null;

  constructor(
    readonly meta: Meta,
    columns: Columns,
  ) {
    super(columns);
    const of = (name: string) => columns.numbers(name);
    this.summary = meta.summary;
    this.threadsOf = meta.processes.map(() => []);
    this.imports = of("node.import");
    this.plumbing = { parent: back(of("plumbing.up")), frame: of("plumbing.frame"), ofLeaf: of("leaf.plumbing") };
    this.leaf = of("sample.leaf");
    this.state = of("sample.state");
    this.leafNode = of("leaf.node");
    this.leafPlace = of("leaf.place");
    this.leafWaits = of("leaf.waits");
    this.placeParent = back(of("place.up"));
    this.placeFile = of("place.file");
    this.placeLine = of("place.line");
    this.periods = new Float64Array(this.leaf.length).fill(1);
    const periods = of("weight.periods");
    let at = 0;
    of("weight.at").forEach((step, i) => {
      at += step;
      this.periods[at] = periods[i]!;
    });
    const ticks = of("sample.ticks");
    this.time = new Float64Array(ticks.length);
    const unit = meta.exact_unit_ns;
    const scaled = (name: string) => Float64Array.from(of(name), (value) => value * unit);
    const nodes = of("exact.node");
    this.exact = { node: new Uint32Array(nodes.length), calls: of("exact.calls"), total: scaled("exact.total"), self: scaled("exact.self") };
    this.functions = {
      thread: of("function.thread"),
      frame: of("function.frame"),
      calls: of("function.calls"),
      turns: of("function.turns"),
      raised: of("function.raised"),
      self: of("function.self_ns"),
      total: of("function.total_ns"),
      pythonSelf: columns.has("function.python_self_ns") ? of("function.python_self_ns") : null,
    };
    this.hasExact = this.functions.frame.length > 0;
    this.calls = this.readCalls(of);
    this.steps = this.readSteps(of);
    this.gpu = meta.gpu ? new Gpu(meta.gpu, columns, this.strings) : null;
    const [lines, hits, totals] = [of("line.line"), of("line.hits"), of("line.total")];
    of("line.file").forEach((file, i) => {
      let known = this.counted.get(file);
      if (!known) this.counted.set(file, (known = new Map()));
      known.set(lines[i]!, { hits: hits[i]!, total: totals[i]! });
    });
    let sample = 0;
    let row = 0;
    let last = 0;
    for (const each of meta.threads) {
      const [begin, end, firstExact, endExact] = [sample, sample + each.samples, row, row + each.exact];
      let now = 0;
      let weight = 0;
      for (; sample < end; sample++) {
        now += ticks[sample]!;
        this.time[sample] = now * meta.tick_ns;
        weight += this.periods[sample]!;
      }
      last = Math.max(last, now * meta.tick_ns);
      for (let node = 0; row < endExact; row++) this.exact.node[row] = node += nodes[row]!;
      const { process, name, tid, cpu_ns, lost } = each;
      this.threadsOf[process]!.push(this.threads.length);
      this.threads.push({ process, name, tid, cpu_ns, lost, weight: weight * this.period, begin, end, firstExact, endExact });
    }
    this.end = Math.max(last + meta.tick_ns, this.summary.run.wall_ns ?? 0);
  }

  private readCalls(of: (name: string) => Column): Call[] {
    const [thread, frame, duration, busy, state, attributes] = ["thread", "frame", "duration", "busy", "state", "attributes"].map((name) => of(`call.${name}`)) as [Column, Column, Column, Column, Column, Column];
    let now = 0;
    return Array.from(of("call.begin"), (step, i) => ({
      thread: thread[i]!,
      frame: frame[i]!,
      begin: (now += step),
      duration: duration[i]!,
      busy: busy[i]!,
      state: state[i]!,
      attributes: this.strings[attributes[i]!]!,
    }));
  }

  private readSteps(of: (name: string) => Column): Step[] {
    const { phases, slowest } = this.meta.steps ?? { phases: [], slowest: [] };
    const [thread, duration] = [of("step.thread"), of("step.duration")];
    const times = phases.map((_, i) => of(`step.phase.${i}`));
    const why = new Map(slowest.map((each) => [each.number, each.why]));
    let now = 0;
    return Array.from(of("step.begin"), (step, number) => ({
      number,
      thread: thread[number]!,
      begin: (now += step),
      duration: duration[number]!,
      phases: times.map((column) => column[number]!),
      why: why.get(number) ?? "",
    }));
  }

  get period(): number {
    return this.summary.clock.period_ns;
  }

  /** Are its processes several? */
  get isSeveral(): boolean {
    return this.meta.processes.length > 1;
  }

  /** `rank 1`, or its name. */
  processName(process: number): string {
    return this.short(this.meta.processes[process]!.frame);
  }

  /** With its process, where there are several. */
  threadName(thread: number): string {
    const { name, process } = this.threads[thread]!;
    return this.isSeveral ? `${name} of ${this.processName(process)} (${this.meta.processes[process]!.pid})` : name;
  }

  get nSamples(): number {
    return this.leaf.length;
  }

  /** Its text by line number. */
  source(file: SourceFile): Map<number, string> {
    const text = this.columns.texts("source")[this.meta.sources.indexOf(file)] ?? "";
    const lines = text.split("\n");
    const known = new Map<number, string>();
    let at = 0;
    for (const [first, last] of file.runs) for (let line = first; line <= last; line++) known.set(line, lines[at++] ?? "");
    return known;
  }
}
