// A lane for each thread: how much of a CPU it used, and what it had to do with the GIL.  Of several processes each has a
// lane, the sum of its threads' that stand below it, and so has each group of processes that are alike.  Dragging, or
// arrow keys, zoom everything to that time.
import { useLayoutEffect, useMemo, useState } from "preact/hooks";
import { OF_STATES, patternsOf, prepare, type Palette } from "./colors";
import { byKey, useDrag } from "./drag";
import { axisTime, percent, time } from "./format";
import { binsOf, laneRows, type Bins, type Row } from "./laneRows";
import { addsTo, picked } from "./Processes";
import type { Profile } from "./profile";
import { chosenThreads } from "./selection";

export const LANE = 26;
const AXIS = 18;
const TURN = 18; // pixels of what opens a row
const STEP = 8; // pixels that a row stands further in than the one it is below

/** CSS pixels of the names, and of the lanes beside them. */
export function laneWidths(all: number, { isSeveral }: Profile): [names: number, lanes: number] {
  const names = isSeveral ? Math.min(270, Math.max(185, all * 0.28)) : Math.min(190, Math.max(150, all * 0.28));
  return [names, Math.max(50, all - names)];
}

export interface LanesProps {
  profile: Profile;
  colors: Palette;
  width: number;
  from: number | null;
  to: number | null;
  threads: readonly number[];
  processes: readonly number[];
  /** Does what threads do have patterns? */
  patterns: boolean;
  onTime: (from: number | null, to: number | null) => void;
  onChoose: (chosen: { threads: number[]; processes: number[] }) => void;
}

export function Lanes(props: LanesProps) {
  const { profile, colors, threads, processes, patterns } = props;
  const [all, setAll] = useState(false);
  const [turned, setTurned] = useState<ReadonlyMap<string, boolean>>(new Map());
  const { rows, nMore } = useMemo(() => laneRows(profile, turned, all), [profile, turned, all]);
  const [labels, width] = laneWidths(props.width, profile);
  const height = rows.length * LANE + AXIS;
  const end = profile.end;
  const toX = (ns: number) => (ns / end) * width;
  const toNs = (x: number) => Math.round((x / width) * end);
  const { canvas, chosen, listeners } = useDrag(
    width,
    (low, high) => props.onTime(toNs(low), toNs(high)),
    () => props.onTime(null, null),
  );
  const onKey = (event: KeyboardEvent) => {
    const stretch = event.altKey || event.ctrlKey || event.metaKey ? undefined : byKey(event.key, props.from ?? 0, props.to ?? end, end);
    if (stretch === undefined) return;
    event.preventDefault();
    props.onTime(stretch?.[0] ?? null, stretch?.[1] ?? null);
  };
  const unit = profile.summary.clock.kind === "wall" ? "threads" : "CPUs";
  const columns = Math.max(1, Math.floor(width));
  const known = useMemo(() => new Map<string, Bins>(), [profile, columns]);
  const bins = rows.map((row) => {
    const found = known.get(row.key) ?? binsOf(row, profile, columns);
    known.set(row.key, found);
    return found;
  });
  const weightOf = (of: readonly number[]) => of.reduce((sum, i) => sum + profile.threads[i]!.weight, 0);
  const weight = profile.threads.reduce((sum, each) => sum + each.weight, 0);

  useLayoutEffect(() => {
    const context = prepare(canvas.current!, width, height);
    context.font = "10px system-ui, sans-serif";
    const textures = patterns ? patternsOf(context, colors.lanePattern, OF_STATES) : [];
    const wanted = chosenThreads(profile, props);
    rows.forEach((row, at) => {
      const y = at * LANE;
      context.globalAlpha = !wanted || row.threads.some((thread) => wanted[thread]) ? 1 : 0.3;
      drawLane(context, bins[at]!, columns, end / columns, y, colors, textures);
      context.fillStyle = colors.axis;
      context.fillRect(0, y + LANE - 1.5, width, 0.5);
      if (row.processes) drawLives(context, row.processes, profile, y, width, colors);
      drawCalls(context, row, profile, y, width, colors);
      if (bins[at]!.whole > 1) drawScale(context, `${bins[at]!.whole} ${unit}`, y, colors);
    });
    context.globalAlpha = 1;
    drawAxis(context, 0, end, width, rows.length * LANE, colors);
    const [from, to] = chosen ?? [toX(props.from ?? 0), toX(props.to ?? end)];
    context.fillStyle = colors.veil;
    context.fillRect(0, 0, from, height - AXIS);
    context.fillRect(to, 0, width - to, height - AXIS);
  }, [profile, colors, width, height, rows, threads, processes, patterns, props.from, props.to, chosen?.[0], chosen?.[1]]);

  return (
    <section class="lanes" aria-label="Threads over time">
      <div class="names" style={{ width: `${labels}px` }}>
        {rows.map((row, at) => {
          const [thread] = row.threads;
          const pressed = row.processes ? row.processes.every((each) => processes.includes(each)) : threads.includes(thread!);
          const lost = row.threads.reduce((sum, i) => sum + profile.threads[i]!.lost, 0);
          const { whole } = bins[at]!;
          return (
            <div class={row.depth || !row.processes ? "of" : "of top"} key={row.key} style={{ paddingLeft: `${row.depth * STEP + (profile.isSeveral && row.isOpen === null ? TURN : 0)}px` }}>
              {row.isOpen !== null && (
                <button class="turn" style={{ width: `${TURN}px` }} aria-expanded={row.isOpen} aria-label={`what ${row.name} consists of`} onClick={() => setTurned(new Map([...turned, [row.key, !row.isOpen]]))}>
                  {row.isOpen ? "▾" : "▸"}
                </button>
              )}
              <button
                class="lane"
                aria-pressed={pressed}
                title={`${row.help}: ${time(weightOf(row.threads))}${lost ? `, ${lost} samples lost` : ""}${whole > 1 ? `; as high as ${whole} ${unit}` : ""}; click: ${row.processes ? (row.processes.length > 1 ? "these processes" : "this process") : "this thread"} alone`}
                onClick={(event) => {
                  const more = addsTo(event);
                  const others = { threads: more ? [...threads] : [], processes: more ? [...processes] : [] };
                  props.onChoose(row.processes ? { ...others, processes: picked(processes, row.processes, pressed, more) } : { ...others, threads: picked(threads, row.threads, pressed, more) });
                }}
              >
                <span class="name">
                  <span>{row.name}</span>
                  {row.cut_off && <b class="amber" title="cut off"> ✕</b>}
                  {row.more && <small> {row.more}</small>}
                </span>
                <span class="muted">{percent(weightOf(row.threads), weight)}</span>
              </button>
            </div>
          );
        })}
      </div>
      <canvas
        ref={canvas}
        {...listeners}
        tabIndex={0}
        role="application"
        aria-label="Threads over time: down is half of the time that is shown, up twice as much, left and right move it, Home and End go to its ends"
        onKeyDown={onKey}
        title="drag: only this time; click: all; arrow keys: less, more, earlier, later"
      />
      {nMore > 0 && (
        <button class="more" onClick={() => setAll(!all)}>
          {profile.isSeveral ? (all ? "fewer processes" : `${nMore} more groups of processes`) : all ? "fewer threads" : `${nMore} more threads`}
        </button>
      )}
    </section>
  );
}

/** What its threads did in each pixel: held the GIL, neither, waited for it, were off the CPU. */
function drawLane(context: CanvasRenderingContext2D, { sums, whole }: Bins, columns: number, perColumn: number, y: number, colors: Palette, textures: readonly (CanvasPattern | null)[]): void {
  const shades = [colors.held, colors.neither, colors.waiting, colors.off];
  const tall = (LANE - 4) / whole;
  for (let column = 0; column < columns; column++) {
    let bottom = y + LANE - 2;
    for (let row = 0; row < 4; row++) {
      const high = Math.min((sums[row]![column]! / perColumn) * tall, bottom - y - 2);
      if (high <= 0) continue;
      for (const fill of [shades[row]!, textures[row]]) {
        if (!fill) continue;
        context.fillStyle = fill;
        context.fillRect(column, bottom - high, 1, high);
      }
      bottom -= high;
    }
  }
}

/** How much its whole height is. */
function drawScale(context: CanvasRenderingContext2D, text: string, y: number, colors: Palette): void {
  context.textBaseline = "top";
  context.fillStyle = colors.gap;
  context.fillRect(0, y + 1, context.measureText(text).width + 5, 12);
  context.fillStyle = colors.axis;
  context.fillText(text, 2, y + 2);
}

/** When they lived; red: where one was cut off. */
function drawLives(context: CanvasRenderingContext2D, processes: readonly number[], profile: Profile, y: number, width: number, colors: Palette): void {
  for (const each of processes) {
    const { began, end, cut_off } = profile.meta.processes[each]!;
    const [from, to] = [began, Math.min(end ?? profile.end, profile.end)].map((ns) => (ns / profile.end) * width) as [number, number];
    context.fillStyle = colors.axis;
    context.fillRect(from, y + LANE - 2, Math.max(1, to - from), 1);
    context.fillStyle = colors.waiting;
    if (cut_off) context.fillRect(to - 1, y + 2, 2, LANE - 3);
  }
}

/** Where single calls were that were kept. */
function drawCalls(context: CanvasRenderingContext2D, { threads }: Row, profile: Profile, y: number, width: number, colors: Palette): void {
  if (!profile.calls.length) return;
  const these = new Set(threads);
  context.fillStyle = colors.call;
  for (const call of profile.calls) {
    if (!these.has(call.thread)) continue;
    const x = (call.begin / profile.end) * width;
    context.fillRect(x, y + 1, Math.max(1, (call.duration / profile.end) * width - 0.5), 3);
  }
}

export function drawAxis(context: CanvasRenderingContext2D, begin: number, end: number, width: number, y: number, colors: Palette): void {
  const least = ((end - begin) / width) * 80;
  const power = 10 ** Math.floor(Math.log10(least));
  const step = [1, 2, 5, 10].map((each) => each * power).find((each) => each >= least)!;
  context.fillStyle = colors.axis;
  context.textBaseline = "top";
  for (let at = Math.ceil(begin / step) * step; at <= end; at += step) {
    const x = ((at - begin) / (end - begin)) * width;
    context.fillRect(x, y, 1, 4);
    context.fillText(axisTime(at, step), x + 3, y + 3);
  }
}
