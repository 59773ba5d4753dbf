// Made by scripts/page_types.py of what Python declares; not to be edited.

/** Hold what the page knows beside its columns. */
export interface Meta {
  format: number;
  /** without LEFT_OUT */
  summary: Summary;
  start_unix_ns: string;
  host: string;
  cpu: string;
  is_part: boolean;
  tick_ns: number;
  exact_unit_ns: number;
  threads: ThreadMeta[];
  /** the first one first, then by begin */
  processes: ProcessMeta[];
  /** of `summary.processes`: what each is called */
  groups: string[];
  sources: SourceFile[];
  /** of its own Python files: the numbers of their names */
  program_files: number[];
  n_calls: number;
  steps: StepsMeta | null;
  memory: MemoryMeta | null;
  plumbing: boolean;
  import_frame: number;
  /** null: nothing is known of one */
  gpu: GpuMeta | null;
  /** from here on costs need care: shares of the CPU time */
  most_counting: number;
  most_sampling: number;
  /** a line of which more waits for other threads comes last */
  most_waiting: number;
}

/** Hold what the page knows beside its columns. */
export interface ComparisonMeta {
  format: number;
  comparison: ComparisonFacts;
}

/** Hold the keys of `pyhybrid report --json`, in this order; null where it is not known. */
export interface Summary {
  file: string;
  run: Run;
  clock: Clock;
  samples: Samples;
  /** null: nothing was traced */
  calls: Calls | null;
  cost: Cost;
  /** of threads that ran Python, by exact times; null: hardly, or not known */
  waited: Waits | null;
  /** counting is subtracted from exact times (--compensate) */
  compensated: boolean;
  /** most CPU time first; empty: it is one process */
  processes: ProcessGroup[];
  /** what stands out, at most five */
  findings: Finding[];
  /** what both are of; null: of the whole run */
  in_steps: StepsPart | null;
  /** of chosen functions and regions, most time first */
  durations: CallDurations[];
  /** what compilers call is counted, too */
  compiler_calls: boolean;
  /** by torch.compile; null: none */
  compiles: Compiles | null;
  /** of a training; null: none */
  steps: StepSummary | null;
  /** its work, below what launched it; null: nothing is known of it */
  gpu: GpuSummary | null;
  /** of native code, by name */
  counters: Counter[];
  /** that native code gave */
  metadata: Record<string, string>;
  notes: string[];
}

/** Describe a thread: how much the columns have of it. */
export interface ThreadMeta {
  /** its place in `processes` */
  process: number;
  name: string;
  tid: number;
  samples: number;
  exact: number;
  cpu_ns: number | null;
  lost: number;
}

/** Describe a process of the profile; `began` and `end` are ns after the first one's begin. */
export interface ProcessMeta {
  /** its place in `groups` */
  group: number;
  /** it stands at the root of its own paths, where they are shown apart */
  frame: number;
  pid: number;
  command: string;
  /** its pid; null: not known */
  parent: number | null;
  /** it began: root, fork, start, exec (of one that is here, too) */
  how: string;
  began: number;
  /** null: not known */
  end: number | null;
  cut_off: boolean;
}

/** Hold what the page knows of a file. */
export interface SourceFile {
  file: string;
  note: string;
  /** is it no file of the program itself? */
  library: boolean;
  /** (first, last) of the lines that its text has */
  runs: [number, number][];
}

/** Hold what the page knows of all steps beside the columns. */
export interface StepsMeta {
  phases: string[];
  median_ns: number;
  slowest: WhySlow[];
}

/** Hold what PyTorch's allocator gave out: `steps` are the most and what lived at the end. */
export interface MemoryMeta {
  texts: string[];
  /** those that grow first, then most at the peak */
  calls: PageMemoryCall[];
  steps: [number, number][];
}

/** Hold what is beside the columns: streams are (device, stream), windows (begin, end). */
export interface GpuMeta {
  tick_ns: number;
  streams: [number, number][];
  windows: [number, number][];
  n_left_out: number;
}

/** Hold what the runs are, and what differs. */
export interface ComparisonFacts {
  version: string;
  /** name, text, and whether it needs care */
  facts: [string, string, boolean][];
  n_before: number;
  periods_ns: number[];
  by_runs: boolean;
  run_to_run: number;
  functions: ComparedFunction[];
  n_left_out: number;
  /** of each run */
  n_steps: [number[], number[]] | null;
  steps: ComparedStep[];
}

/** Describe the process that was profiled; null where it is not known. */
export interface Run {
  /** of the pyhybrid that recorded */
  version: string;
  python: string;
  argv: string[];
  pid: number;
  /** when it began */
  start_unix_ns: number | null;
  /** false: the process was killed, or the file's end is missing */
  complete: boolean;
  /** why the profile was made while the process ran; null: it was not */
  snapshot: string | null;
  /** sample, trace, hybrid */
  mode: string;
  wall_ns: number | null;
  /** of the process, while profiling ran */
  cpu_ns: number | null;
  /** for so long the main thread was ready, but had no processor */
  main_delay_ns: number | null;
  /** of the interpreter's end, which comes after that and is not sampled */
  end_cpu_ns: number | null;
  n_threads: number;
  n_busy_threads: number;
  /** that are in the profile */
  n_processes: number;
  /** child processes, in it or not */
  n_forked: number | null;
  n_spawned: number | null;
  /** of those that have ended; null: not known, or none */
  children_cpu_ns: number | null;
  /** names of multiprocessing's, as far as they are known */
  children: string[];
  /** child processes that ran when the profile was made */
  still_running: number[];
  /** child processes that are not in it; null: none */
  unprofiled: Unprofiled | null;
}

/** Describe what gave the samples' signals. */
export interface Clock {
  /** cpu, wall */
  kind: string;
  /** patterns of the names of those sampled by wall-clock time; empty: all */
  wall_threads: string[];
  /** sigtrap, perf_event, timer, monotonic; none: no samples */
  engine: string;
  /** why this one */
  engine_reason: string;
  hz_asked: number | null;
  /** what the engine was set to */
  hz: number | null;
  /** samples per second of the clock, over busy threads */
  hz_reached: number | null;
  /** what one sample stands for */
  period_ns: number;
}

/** Describe how many there are, how good, and what is in none. */
export interface Samples {
  /** == recorded + the sum of losses */
  signals: number;
  recorded: number;
  /** samples, by reason */
  losses: Record<string, number>;
  recorded_weight_ns: number;
  /** CPU time (or wall-clock time) that no signal stood for */
  missed_weight_ns: number;
  /** CPU time that no thread's samples stand for; 0: none, or not known */
  unaccounted_ns: number;
  /** of what ran only because of the profiler: outside all shares */
  own_weight_ns: number;
  /** complete, re_anchored, gapped, truncated: shares of the weight */
  stacks: Record<string, number>;
  /** held, waiting, neither: shares of the weight */
  gil: Record<string, number>;
  /** share of the weight in threads that waited; null: a CPU clock */
  off_cpu: number | null;
  /** the names of threads that block signals, and have rows of their own */
  blocked: string[];
}

/** Hold what events counted, of all functions together. */
export interface Calls {
  /** of Python functions */
  calls: number;
  /** functions that were called */
  n_traced: number;
  /** of Python functions that are not distinguished */
  unknown_calls: number;
  /** of C functions, by Python functions; null: not counted */
  c_calls: number | null;
  n_c_traced: number | null;
  /** calls, and generators' goings on */
  turns: number;
  /** self time of all traced functions together */
  traced_ns: number;
}

/** Hold what profiling took. */
export interface Cost {
  /** what the signal handler took */
  handler_median_ns: number | null;
  handler_p99_ns: number | null;
  /** of one sample, interrupt and all, measured at start */
  sample_ns: number | null;
  /** share of the CPU time that sampling took, by that */
  overhead: number | null;
  /** what counting one turn costs, measured at start */
  call_ns: number | null;
  /** what counting took: an estimate by that; own_weight_ns if it is more */
  counting_ns: number | null;
}

/** Hold the sums of all threads that ran Python: their exact time, what they waited, and what of the rest they were idle. `functions`: those of the program with most of the waiting first. `unknown_threads`: so many others did not run for as long, but may have had no processor; `unknown_ns`: for so long together. */
export interface Waits {
  total_ns: number;
  waited_ns: number;
  idle_ns: number;
  functions: FunctionWait[];
  unknown_threads: number;
  unknown_ns: number;
}

/** Describe processes that are alike: their sums, `names` of the first and of the last one. */
export interface ProcessGroup {
  /** a role, a name without its number, `rank 3` */
  what: string;
  /** "": not known, or they are no group by what they are for */
  role: string;
  n: number;
  pids: number[];
  names: string[];
  /** of all, one after another */
  wall_ns: number;
  cpu_ns: number;
  /** of the CPU time of all processes */
  share: number;
  samples: number;
  calls: number;
  cut_off: number;
}

/** A finding is a sentence, the command that shows more, and the numbers behind it. */
export interface Finding {
  rule: string;
  text: string;
  command: string;
  share: number;
  evidence: Record<string, unknown>;
}

/** Hold the part of the run that `program_lines` and `tree` are of: a training's steps. */
export interface StepsPart {
  n_steps: number;
  weight_ns: number;
}

/** Hold how long single calls of a function (-t) or region took; quantiles to 12 %. */
export interface CallDurations {
  name: string;
  /** python, region */
  kind: string;
  calls: number;
  mean_ns: number;
  p50_ns: number;
  p99_ns: number;
  max_ns: number;
  /** (from_ns, calls) */
  histogram: [number, number][];
}

/** Hold all of them, in order of time, and by function; null where it is not known. */
export interface Compiles {
  compiles: Compile[];
  by_function: CompiledFunction[];
  functions: number;
  /** compiles of functions that had one */
  again: number;
  took_ns: number;
  wall_ns: number | null;
  run_ns: number | null;
  calls: number | null;
  share: number | null;
  is_cut: boolean;
  breaks: [string, number][];
  cuda_graphs_skipped: number;
  cuda_graphs_again: number;
}

/** Hold the summary's part: `shares` of all steps' time by phase, the largest first; as StepReport's `trains` and `tokens`. */
export interface StepSummary {
  n_steps: number;
  trains: boolean;
  tokens: number;
  total_ns: number;
  median_ns: number;
  shares: Record<string, number>;
}

/** Hold the GPU's part of `report --json`. */
export interface GpuSummary {
  devices: number;
  launches: number;
  total_ns: number;
  below_no_call_ns: number;
  recorded_ns: number;
  busy: number;
  functions: GpuShare[];
  kernels: GpuShare[];
}

/** Hold values that native code sampled (pyhybrid.h, PerfStubs). */
export interface Counter {
  name: string;
  n: number;
  sum: number;
  min: number;
  max: number;
  sum_of_squares: number;
}

/** Describe why a step was slow. */
export interface WhySlow {
  number: number;
  why: string;
}

/** Hold a call that had memory: as `report memory` has it, in bytes. */
export interface PageMemoryCall {
  text: string;
  at_peak: number;
  per_step: number;
  holders: string[];
}

/** Hold what is known of a function: runs.FunctionChange has what each is. */
export interface ComparedFunction {
  frame: number;
  total: ShownChange | null;
  /** of its time over the rest's of the run */
  share: ShownChange | null;
  /** how its own time changed, with native code */
  own: number;
  /** null: not compared */
  differs: boolean | null;
  /** means of the runs */
  calls: [number, number] | null;
  calls_differ: boolean;
  per_call: [number, number] | null;
}

/** Hold a training's steps: step_changes.StepChange has what each is. */
export interface ComparedStep {
  name: string;
  median: ShownChange;
  median_differs: boolean | null;
  mean: ShownChange;
  mean_differs: boolean | null;
}

/** Count child processes of which the profile has nothing. */
export interface Unprofiled {
  n: number;
  /** of those that have ended, about; 0: next to nothing */
  cpu_ns: number;
  /** how many of what is left out on purpose, or for want of room */
  kinds: Record<string, number>;
  /** they are all of these kinds */
  known: boolean;
  /** they took more than what libraries start as they are imported, or had no room */
  much: boolean;
}

/** Hold what threads waited in a function (`by_function`), at least. */
export interface FunctionWait {
  name: string;
  waited_ns: number;
}

/** Hold one compile; `number`, from 1, `of` so many of its function. */
export interface Compile {
  name: string;
  file: string;
  line: number;
  backward: boolean;
  number: number;
  of: number;
  begin_ns: number;
  took_ns: number;
  reason: string | null;
  failure: string | null;
  dynamo_ns: number | null;
  aot_ns: number | null;
  inductor_ns: number | null;
  operators: number | null;
  guards: number | null;
  graph_breaks: number | null;
  cached: boolean | null;
}

/** Hold a function that was compiled: how often, what that took, and its calls with their exact time, those that compiled it among them; null: they were not counted. */
export interface CompiledFunction {
  name: string;
  compiles: number;
  took_ns: number;
  calls: number | null;
  run_ns: number | null;
}

/** Hold what a function launched, itself and with what it called; or a kernel name's time. */
export interface GpuShare {
  name: string;
  launches: number;
  self_ns: number;
  total_ns: number;
}

/** Hold nanoseconds, or ratios, and the relative change's 95 % interval; null: not known. */
export interface ShownChange {
  before: number;
  after: number;
  low: number | null;
  high: number | null;
  visible: number | null;
}
