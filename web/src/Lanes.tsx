// A lane for each thread: how much of a CPU it used, and what it had to do with the GIL.  Dragging, or arrow keys, zoom
// everything to that time.
import { useLayoutEffect, useState } from "preact/hooks";
import { OF_STATES, patternsOf, prepare, type Palette } from "./colors";
import { byKey, useDrag } from "./drag";
import { axisTime, percent, time } from "./format";
import { HELD, OFF_CPU, WAITING, type Profile, type Thread } from "./profile";

export const LANE = 26;
const AXIS = 18;
const FIRST = 8; // lanes that are shown at once

/** CSS pixels of the names, and of the lanes beside them. */
export function laneWidths(all: number): [names: number, lanes: number] {
  const names = Math.min(190, Math.max(150, all * 0.28));
  return [names, Math.max(50, all - names)];
}

export interface LanesProps {
  profile: Profile;
  colors: Palette;
  width: number;
  from: number | null;
  to: number | null;
  threads: readonly number[];
  /** Does what threads do have patterns? */
  patterns: boolean;
  onTime: (from: number | null, to: number | null) => void;
  onThreads: (threads: number[]) => void;
}

export function Lanes(props: LanesProps) {
  const { profile, colors, threads, patterns } = props;
  const [all, setAll] = useState(false);
  const order = profile.threads.map((_, i) => i).sort((a, b) => profile.threads[b]!.weight - profile.threads[a]!.weight || a - b);
  const shown = all ? order : order.slice(0, FIRST);
  const [labels, width] = laneWidths(props.width);
  const height = shown.length * LANE + AXIS;
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
  const weight = profile.threads.reduce((sum, each) => sum + each.weight, 0);

  useLayoutEffect(() => {
    const context = prepare(canvas.current!, width, height);
    context.font = "10px system-ui, sans-serif";
    const textures = patterns ? patternsOf(context, colors.lanePattern, OF_STATES) : [];
    shown.forEach((thread, row) => {
      context.globalAlpha = threads.length && !threads.includes(thread) ? 0.3 : 1;
      drawLane(context, profile.threads[thread]!, profile, row * LANE, width, colors, textures);
      drawCalls(context, thread, profile, row * LANE, width, colors);
    });
    context.globalAlpha = 1;
    drawAxis(context, 0, end, width, shown.length * LANE, colors);
    const [from, to] = chosen ?? [toX(props.from ?? 0), toX(props.to ?? end)];
    context.fillStyle = colors.veil;
    context.fillRect(0, 0, from, height - AXIS);
    context.fillRect(to, 0, width - to, height - AXIS);
  }, [profile, colors, width, height, all, threads, patterns, props.from, props.to, chosen?.[0], chosen?.[1]]);

  return (
    <section class="lanes" aria-label="Threads over time">
      <div class="names" style={{ width: `${labels}px` }}>
        {shown.map((thread) => {
          const each = profile.threads[thread]!;
          const pressed = threads.includes(thread);
          return (
            <button
              class="lane"
              key={thread}
              aria-pressed={pressed}
              title={`${each.name}, tid ${each.tid}: ${time(each.weight)}${each.lost ? `, ${each.lost} samples lost` : ""}; click: this thread alone`}
              onClick={(event) => {
                const more = event.shiftKey || event.ctrlKey || event.metaKey;
                const others = threads.filter((one) => one !== thread);
                props.onThreads(pressed ? (more ? others : []) : more ? [...others, thread] : [thread]);
              }}
            >
              <span class="name">{each.name}</span>
              <span class="muted">{percent(each.weight, weight)}</span>
            </button>
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
      {order.length > FIRST && (
        <button class="more" onClick={() => setAll(!all)}>
          {all ? "fewer threads" : `${order.length - FIRST} more threads`}
        </button>
      )}
    </section>
  );
}

/** What the thread did in each pixel: held the GIL, neither, waited for it, was off the CPU. */
function drawLane(context: CanvasRenderingContext2D, thread: Thread, profile: Profile, y: number, width: number, colors: Palette, textures: readonly (CanvasPattern | null)[]): void {
  const columns = Math.max(1, Math.floor(width));
  const sums = [0, 1, 2, 3].map(() => new Float64Array(columns));
  const perColumn = profile.end / columns;
  for (let i = thread.begin; i < thread.end; i++) {
    const state = profile.state[i]!;
    const gil = (state & ~OFF_CPU) % 3;
    const row = gil === WAITING ? 2 : state & OFF_CPU ? 3 : gil === HELD ? 0 : 1;
    // A sample stands for the time before it.
    let left = profile.periods[i]! * profile.period;
    for (let at = Math.min(columns - 1, Math.floor(profile.time[i]! / perColumn)); left > 0 && at >= 0; at--) {
      const part = Math.min(left, perColumn);
      sums[row]![at]! += part;
      left -= part;
    }
  }
  const shades = [colors.held, colors.neither, colors.waiting, colors.off];
  const tall = LANE - 4;
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
  context.fillStyle = colors.axis;
  context.fillRect(0, y + LANE - 1.5, width, 0.5);
}

/** Where single calls were that were kept. */
function drawCalls(context: CanvasRenderingContext2D, thread: number, profile: Profile, y: number, width: number, colors: Palette): void {
  context.fillStyle = colors.call;
  for (const call of profile.calls) {
    if (call.thread !== thread) continue;
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
