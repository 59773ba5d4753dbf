// A lane for each stream of a GPU: its kernels and copies over the time that is chosen, or else over all that was
// recorded.  Dragging zooms everything to that time.
import { useLayoutEffect, useState } from "preact/hooks";
import { prepare, type Palette } from "./colors";
import { useDrag } from "./drag";
import { percent, plural, time } from "./format";
import { beside } from "./FlameGraph";
import type { Activity, Gpu } from "./gpu";
import { drawAxis, LANE, laneWidths } from "./Lanes";
import type { Profile } from "./profile";

const AXIS = 18;
const FIRST = 6; // lanes that are shown at once
const BOX = 2; // pixels: what is narrower is part of a bar, as high as the stream was busy
const LEAST_STEP = 60; // pixels of a step that has its number
const CHARACTER = 5.6;
const LONGEST = 240; // characters of a kernel's name

export interface GpuLanesProps {
  profile: Profile;
  gpu: Gpu;
  colors: Palette;
  width: number;
  from: number | null;
  to: number | null;
  selected: number;
  onTime: (from: number | null, to: number | null) => void;
  onSelect: (frame: number) => void;
}

export function GpuLanes(props: GpuLanesProps) {
  const { profile, gpu, colors, selected } = props;
  const [all, setAll] = useState(false);
  const [hover, setHover] = useState<{ activity: Activity; x: number; y: number } | null>(null);
  const busy = gpu.activities.map((each) => each.reduce((sum, one) => sum + one.end - one.begin, 0));
  const order = busy.map((_, i) => i).sort((a, b) => busy[b]! - busy[a]! || a - b);
  const shown = all ? order : order.slice(0, FIRST);
  const [labels, width] = laneWidths(props.width, profile);
  const height = shown.length * LANE + AXIS;
  const from = props.from ?? gpu.begin;
  const to = Math.max(from + 1, props.to ?? gpu.end);
  const recorded = gpu.meta.windows.reduce((sum, [begin, end]) => sum + Math.max(0, Math.min(end, to) - Math.max(begin, from)), 0);
  const frameOf = (each: Activity) => profile.frame[gpu.node[each.work]!]!;
  const nsAt = (x: number) => from + (x / width) * (to - from);
  const { canvas, x, chosen, listeners } = useDrag(
    width,
    (low, high) => props.onTime(Math.round(nsAt(low)), Math.round(nsAt(high))),
    (event) => {
      const clicked = at(event);
      if (clicked && frameOf(clicked)) props.onSelect(frameOf(clicked));
      else props.onTime(null, null);
    },
  );

  useLayoutEffect(() => {
    const context = prepare(canvas.current!, width, height);
    context.font = "10px system-ui, sans-serif";
    context.fillStyle = colors.veil; // of these times nothing is known
    for (const [begin, end] of unrecorded(gpu, from, to)) {
      const x = ((begin - from) / (to - from)) * width;
      context.fillRect(x, 0, ((end - begin) / (to - from)) * width, height - AXIS);
    }
    shown.forEach((stream, row) => {
      const y = row * LANE;
      drawStream(context, gpu, stream, from, to, y, width, colors, (each) => selected > 0 && frameOf(each) === selected);
      context.fillStyle = colors.axis;
      context.fillRect(0, y + LANE - 1.5, width, 0.5);
    });
    drawAxis(context, from, to, width, shown.length * LANE, colors);
    drawSteps(context, profile, from, to, width, height - AXIS, colors);
    if (chosen) {
      context.fillStyle = colors.veil;
      context.fillRect(0, 0, chosen[0], height - AXIS);
      context.fillRect(chosen[1], 0, width - chosen[1], height - AXIS);
    }
  }, [gpu, colors, width, height, all, from, to, chosen?.[0], chosen?.[1], selected]);

  const at = (event: MouseEvent): Activity | null => {
    const row = Math.floor((event.clientY - canvas.current!.getBoundingClientRect().top) / LANE);
    const stream = shown[row];
    if (stream === undefined) return null;
    const near = nsAt(x(event) + 1);
    const each = gpu.activities[stream]![gpu.lastBefore(stream, near)];
    return each && each.end >= nsAt(x(event) - 1) ? each : null;
  };
  return (
    <section class="lanes gpu" aria-label="GPU over time">
      <div class="names" style={{ width: `${labels}px` }}>
        {shown.map((stream) => (
          <span class="lane" key={stream} title={`${gpu.streamName(stream)}: ${plural(gpu.activities[stream]!.length, "kernel or copy", "kernels and copies")}`}>
            <span class="name">{gpu.streamName(stream)}</span>
            <span class="muted">{percent(busyWithin(gpu, stream, from, to), recorded)}</span>
          </span>
        ))}
      </div>
      <canvas
        ref={canvas}
        {...listeners}
        onPointerMove={(event) => {
          listeners.onPointerMove(event);
          const activity = chosen ? null : at(event);
          setHover(activity && { activity, x: event.clientX, y: event.clientY });
        }}
        onPointerLeave={() => setHover(null)}
      />
      {order.length > FIRST && (
        <button class="more" onClick={() => setAll(!all)}>
          {all ? "fewer streams" : plural(order.length - FIRST, "more stream")}
        </button>
      )}
      {gpu.meta.n_left_out > 0 && <p class="muted note">{plural(gpu.meta.n_left_out, "short kernel or copy", "short kernels and copies")} not shown in time: the table has all.</p>}
      {hover && <Tip {...hover} profile={profile} gpu={gpu} frame={frameOf(hover.activity)} />}
    </section>
  );
}

function unrecorded(gpu: Gpu, from: number, to: number): [number, number][] {
  const ends = [from, ...gpu.meta.windows.map(([, end]) => end)];
  const begins = [...gpu.meta.windows.map(([begin]) => begin), to];
  return ends.map((end, i): [number, number] => [Math.max(end, from), Math.min(begins[i]!, to)]).filter(([begin, end]) => end > begin);
}

/** In which a stream did anything: what a graph replays on it may run at once. */
function busyWithin(gpu: Gpu, stream: number, from: number, to: number): number {
  let [busy, until] = [0, from];
  for (const each of gpu.activities[stream]!) {
    const begin = Math.max(each.begin, until);
    until = Math.max(until, Math.min(each.end, to));
    busy += Math.max(0, until - begin);
  }
  return busy;
}

function drawStream(
  context: CanvasRenderingContext2D,
  gpu: Gpu,
  stream: number,
  from: number,
  to: number,
  y: number,
  width: number,
  colors: Palette,
  isChosen: (each: Activity) => boolean,
): void {
  const all = gpu.activities[stream]!;
  const columns = Math.max(1, Math.floor(width));
  const busy = new Float64Array(columns);
  const perPixel = (to - from) / columns;
  const tall = LANE - 5;
  const first = Math.max(0, gpu.lastBefore(stream, from));
  for (let i = first; i < all.length && all[i]!.begin <= to; i++) {
    const each = all[i]!;
    const [begin, end] = [Math.max(each.begin, from), Math.min(each.end, to)];
    if (end < begin) continue;
    const left = (begin - from) / perPixel;
    const wide = (end - begin) / perPixel;
    if (wide < BOX && !isChosen(each)) {
      for (let column = Math.min(columns - 1, Math.floor(left)); column < columns; column++) {
        const until = from + (column + 1) * perPixel;
        busy[column]! += Math.min(end, until) - Math.max(begin, until - perPixel);
        if (end <= until) break;
      }
      continue;
    }
    context.fillStyle = isChosen(each) ? colors.match : isCopy(gpu.nameOf(each.work)) ? colors.call : colors.kinds[1 + 2 * Number(gpu.backward[each.work] === 1)]!;
    context.fillRect(left, y + 2, Math.max(wide - (wide > 4 ? 1 : 0.3), 1), tall);
    const room = Math.floor((wide - 6) / CHARACTER);
    if (room >= 4) {
      const name = shortKernel(gpu.nameOf(each.work));
      context.fillStyle = isChosen(each) ? colors.onMatch : colors.text;
      context.textBaseline = "middle";
      context.fillText(name.length > room ? `${name.slice(0, room - 1)}…` : name, left + 3, y + 2 + tall / 2, wide - 5);
    }
  }
  context.fillStyle = colors.kinds[1]!;
  for (let column = 0; column < columns; column++) {
    const high = Math.min(1, busy[column]! / perPixel) * tall;
    if (high > 0) context.fillRect(column, y + 2 + tall - Math.max(high, 1), 1, Math.max(high, 1));
  }
}

/** Where steps of a training begin. */
function drawSteps(context: CanvasRenderingContext2D, profile: Profile, from: number, to: number, width: number, height: number, colors: Palette): void {
  context.fillStyle = colors.axis;
  context.textBaseline = "top";
  for (const { begin, duration, number } of profile.steps) {
    if (begin < from || begin > to) continue;
    const x = ((begin - from) / (to - from)) * width;
    for (let y = 0; y < height; y += 4) context.fillRect(x, y, 1, 2);
    if ((duration / (to - from)) * width >= LEAST_STEP) context.fillText(`step ${number}`, x + 3, 0);
  }
}

function isCopy(name: string): boolean {
  return /^(\[graph\] )?Mem(cpy|set)/.test(name);
}

/** What is most telling of a C++ name: no return type, namespace or arguments. */
export function shortKernel(name: string): string {
  const plain = name.replace(/^void /, "").replace(/\((?:anonymous namespace)\)::/g, "");
  const end = plain.search(/[<(]/);
  if (end <= 0 || plain.startsWith("Mem")) return plain;
  return plain.slice(0, end).split("::").at(-1) + plain.slice(end);
}

function Tip({ activity, x, y, profile, gpu, frame }: { activity: Activity; x: number; y: number; profile: Profile; gpu: Gpu; frame: number }) {
  const name = gpu.nameOf(activity.work);
  return (
    <div class="tip" role="tooltip" style={beside(x, y)}>
      <b>{name.length > LONGEST ? `${name.slice(0, LONGEST)}…` : name}</b>
      <div>
        {time(activity.end - activity.begin)}
        {activity.lag > 0 && <span class="muted"> · launched {time(activity.lag)} before</span>}
      </div>
      <div class="muted">
        {frame ? (
          <>
            {gpu.backward[activity.work] === 1 ? "backward of " : "by "}
            {profile.short(frame)} {profile.place(frame)}
          </>
        ) : (
          "below no call that is known"
        )}
      </div>
    </div>
  );
}
