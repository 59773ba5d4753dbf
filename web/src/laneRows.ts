// The lanes' rows: threads, below their processes, below groups of processes that are alike, and what each row did in
// each pixel of the time line.
import { HELD, OFF_CPU, WAITING, type Profile } from "./profile";
import { describe, membersOf } from "./Processes";

export const FIRST = 8; // threads that are shown at once
const WINDOW = 8; // pixels over which a peak lasts: samples of one may be of a time beside it
const ROUGH = 0.1; // of a CPU
const ROOM = 12; // lanes of several processes: what fits is open from the start

export interface Row {
  key: string;
  name: string;
  /** Beside the name: a pid. */
  more: string;
  help: string;
  depth: number;
  /** What it is the sum of. */
  threads: number[];
  /** What a click chooses; null: its thread. */
  processes: number[] | null;
  cut_off: boolean;
  /** Are rows below it shown?  null: it has none. */
  isOpen: boolean | null;
}

/** `turned`: rows that were opened or folded by hand, and whether each is open. */
export function laneRows(profile: Profile, turned: ReadonlyMap<string, boolean>, all: boolean): { rows: Row[]; nMore: number } {
  const byWeight = (threads: readonly number[]) => [...threads].sort((a, b) => profile.threads[b]!.weight - profile.threads[a]!.weight || a - b);
  if (!profile.isSeveral) {
    const order = byWeight(profile.threads.map((_, i) => i));
    return { rows: order.slice(0, all ? undefined : FIRST).map((i) => threadRow(profile, i, 0)), nMore: Math.max(0, order.length - FIRST) };
  }
  const groups = profile.meta.groups.map((_, group) => membersOf(profile, group));
  const shown = all ? groups : groups.slice(0, ROOM);
  let room = ROOM - Math.min(groups.length, ROOM);
  const open = new Map<string, boolean>();
  const fit = (key: string, n: number) => {
    open.set(key, turned.get(key) ?? n <= room);
    if (n <= room) room -= n;
  };
  shown.forEach((members, group) => members.length > 1 && fit(`group ${group}`, members.length));
  shown.forEach(([process, ...others]) => !others.length && profile.threadsOf[process!]!.length > 1 && fit(`process ${process}`, profile.threadsOf[process!]!.length));
  const rows: Row[] = [];
  const add = (process: number, depth: number) => {
    const threads = profile.threadsOf[process]!;
    const { pid, cut_off } = profile.meta.processes[process]!;
    const key = `process ${process}`;
    const isOpen = threads.length > 1 ? (open.get(key) ?? turned.get(key) ?? false) : null;
    rows.push({ key, name: profile.processName(process), more: `${pid}`, help: describe(profile, process), depth, threads, processes: [process], cut_off, isOpen });
    if (isOpen) rows.push(...byWeight(threads).map((i) => threadRow(profile, i, depth + 1)));
  };
  shown.forEach((members, group) => {
    if (members.length === 1) return add(members[0]!, 0);
    const key = `group ${group}`;
    const cut_off = profile.summary.processes[group]!.cut_off;
    const help = `${profile.meta.groups[group]}, added up${cut_off ? `; ${cut_off} cut off` : ""}`;
    rows.push({ key, name: profile.meta.groups[group]!.replace(/ \(.*\)$/, ""), more: "", help, depth: 0, threads: members.flatMap((each) => profile.threadsOf[each]!), processes: members, cut_off: cut_off > 0, isOpen: open.get(key)! });
    if (open.get(key)) for (const each of members) add(each, 1);
  });
  return { rows, nMore: Math.max(0, groups.length - ROOM) };
}

function threadRow(profile: Profile, thread: number, depth: number): Row {
  const { name, tid } = profile.threads[thread]!;
  return { key: `thread ${thread}`, name, more: "", help: `${profile.threadName(thread)}, tid ${tid}`, depth, threads: [thread], processes: null, cut_off: false, isOpen: null };
}

export interface Bins {
  /** By state (held the GIL, neither, waited for it, off the CPU) and pixel: ns. */
  sums: Float64Array[];
  /** So many threads at once are a whole lane. */
  whole: number;
}

/** What a row's threads did in each pixel. */
export function binsOf({ threads }: Row, profile: Profile, columns: number): Bins {
  const sums = [0, 1, 2, 3].map(() => new Float64Array(columns));
  const perColumn = profile.end / columns;
  for (const each of threads) {
    const { begin, end } = profile.threads[each]!;
    for (let i = begin; i < end; i++) {
      const state = profile.state[i]!;
      const gil = (state & ~OFF_CPU) % 3;
      const sum = sums[gil === WAITING ? 2 : state & OFF_CPU ? 3 : gil === HELD ? 0 : 1]!;
      // A sample stands for the time before it.
      let left = profile.periods[i]! * profile.period;
      for (let at = Math.min(columns - 1, Math.floor(profile.time[i]! / perColumn)); left > 0 && at >= 0; at--) {
        const part = Math.min(left, perColumn);
        sum[at]! += part;
        left -= part;
      }
    }
  }
  let most = 0;
  for (let from = 0; threads.length > 1 && from < columns; from += WINDOW) {
    const all = sums.reduce((total, sum) => sum.subarray(from, from + WINDOW).reduce((one, ns) => one + ns, total), 0);
    most = Math.max(most, all / WINDOW);
  }
  return { sums, whole: Math.max(1, Math.ceil(most / perColumn - ROUGH)) };
}
