// The steps of a training on the time line of the lanes below: of each what its phases took, one above the
// other, and which were slow.  A click zooms everything to one.  Keys do the same, a line of text says of a
// step what its box shows, and the slowest are a list.
import { useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { prepare, type Palette } from "./colors";
import { beside } from "./FlameGraph";
import { percent, plural, time } from "./format";
import { LANE, laneWidths } from "./Lanes";
import type { Profile, Step } from "./profile";

const MARK = 6; // pixels above the boxes, for the marks of slow ones
const ROOMY = 180; // pixels of a lane's name
const APART = 4; // pixels of a step: from there on a gap separates it from the next one

export interface StepsProps {
  profile: Profile;
  colors: Palette;
  width: number;
  from: number | null;
  to: number | null;
  onTime: (from: number | null, to: number | null) => void;
}

export function Steps({ profile, colors, from, to, onTime, ...props }: StepsProps) {
  const { steps, end } = profile;
  const { phases, median_ns } = profile.meta.steps!;
  const canvas = useRef<HTMLCanvasElement>(null);
  const [cursor, setCursor] = useState<Step | null>(null);
  const [hover, setHover] = useState<{ step: Step; x: number; y: number } | null>(null);
  const [labels, width] = laneWidths(props.width, profile);
  const rows = useMemo(() => rowsOf(steps), [steps]);
  const slow = useMemo(() => steps.filter((step) => step.why).sort((a, b) => b.duration - a.duration), [steps]);
  const ran = phases.flatMap((_, phase) => (steps.some((step) => step.phases[phase]) ? [phase] : []));
  const chosen = steps.find((step) => step.begin === from && step.begin + step.duration === to) ?? null;
  const height = rows.length * LANE;
  const xOf = (ns: number) => (ns / end) * width;

  useLayoutEffect(() => setCursor(null), [chosen]); // before the next key
  useLayoutEffect(() => {
    const context = prepare(canvas.current!, width, height);
    rows.forEach((row, at) => drawRow(context, row, at * LANE, width, end, colors));
    context.fillStyle = colors.veil;
    context.fillRect(0, 0, xOf(from ?? 0), height);
    context.fillRect(xOf(to ?? end), 0, width - xOf(to ?? end), height);
    const marked = cursor ?? hover?.step ?? chosen;
    if (marked) {
      context.strokeStyle = colors.outline;
      context.lineWidth = cursor ? 2 : 1;
      const y = rows.findIndex((row) => row.includes(marked)) * LANE;
      context.strokeRect(xOf(marked.begin) + 0.5, y + MARK, Math.max(xOf(marked.duration) - 1, 1), LANE - MARK - 1);
    }
  }, [rows, colors, width, from, to, cursor, hover?.step]);

  const zoom = (step: Step) => {
    if (!profile.nSamples) setCursor(step); // there is nothing by time to zoom to
    else if (step === chosen) onTime(null, null);
    else onTime(step.begin, step.begin + step.duration);
  };
  const at = (event: MouseEvent): Step | null => {
    const place = canvas.current!.getBoundingClientRect();
    const row = rows[Math.floor((event.clientY - place.top) / LANE)] ?? [];
    return nearest(row, ((event.clientX - place.left) / width) * end, (2 / width) * end);
  };
  const onKey = (event: KeyboardEvent) => {
    const now = cursor ?? chosen;
    const to = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (to !== undefined) {
      event.preventDefault();
      const among = event.key === "ArrowRight" || event.key === "ArrowLeft" ? steps : slow;
      const next = now ? (among.includes(now) ? among[among.indexOf(now) + to] : among[0]) : among[0];
      if (next) setCursor(next);
    } else if (event.key === "Enter" && now) {
      zoom(now);
    } else if (event.key === "Backspace") {
      onTime(null, null);
    }
  };
  const tell = (step: Step) => [`step ${step.number}: ${time(step.duration)}`, ...ran.flatMap((phase) => (step.phases[phase] ? `${phases[phase]} ${time(step.phases[phase]!)}` : []))].join(", ");
  const told = cursor ?? chosen;
  return (
    <section class="lanes steps" aria-label="Steps of the training">
      <div class="names" style={{ width: `${labels}px` }}>
        <span class="lane" title={`median ${time(median_ns)}, by wall-clock time`}>
          <span class="name">{plural(steps.length, "step")}</span>
          <span class="muted">
            {labels < ROOMY ? "med." : "median"} {time(median_ns)}
          </span>
        </span>
      </div>
      <canvas
        ref={canvas}
        tabIndex={0}
        role="application"
        aria-label={`${plural(steps.length, "step")} of a training: right and left move, down and up among the slowest, Enter zooms, Backspace zooms out. The list below has the slowest.`}
        onMouseMove={(event) => {
          const step = at(event);
          setHover(step && { step, x: event.clientX, y: event.clientY });
        }}
        onMouseLeave={() => setHover(null)}
        onClick={(event) => {
          const step = at(event);
          if (step) zoom(step);
          else onTime(null, null);
        }}
        onKeyDown={onKey}
      />
      {hover && (
        <div class="tip" role="tooltip" style={beside(hover.x, hover.y)}>
          <b>step {hover.step.number}</b>: {time(hover.step.duration)}
          {ran.map((phase) =>
            hover.step.phases[phase] ? (
              <div key={phase}>
                <i style={{ background: colors.phases[phase] }} />
                {phases[phase]} {time(hover.step.phases[phase]!)}, {percent(hover.step.phases[phase]!, hover.step.duration)}
              </div>
            ) : null,
          )}
          {hover.step.why && <div>slow: {hover.step.why}</div>}
        </div>
      )}
      <p class="told">
        <span aria-live="polite">{told && `${tell(told)}${told.why && `; slow: ${told.why}`}`}</span>
        <span class="legend">
          {ran.map((phase) => (
            <span key={phase}>
              <i style={{ background: colors.phases[phase] }} />
              {phases[phase]}
            </span>
          ))}
        </span>
      </p>
      <details>
        <summary>slowest steps, and why</summary>
        <ol>
          {slow.map((step) => (
            <li key={step.number}>
              <button aria-pressed={step === chosen} onClick={() => zoom(step)}>
                step {step.number}
              </button>{" "}
              {step.why}
            </li>
          ))}
        </ol>
      </details>
    </section>
  );
}

/** Steps of threads that train at the same time are in rows of their own. */
function rowsOf(steps: Step[]): Step[][] {
  const threads = new Map<number, Step[]>();
  for (const step of steps) {
    const known = threads.get(step.thread);
    if (known) known.push(step);
    else threads.set(step.thread, [step]);
  }
  const rows: Step[][] = [];
  for (const of of threads.values()) {
    const free = rows.find((row) => row.at(-1)!.begin + row.at(-1)!.duration <= of[0]!.begin);
    if (free) free.push(...of);
    else rows.push(of);
  }
  return rows;
}

/** The step at this time, or the first slow one, else the nearest, that is not further off than `room`. */
function nearest(row: Step[], at: number, room: number): Step | null {
  const off = (step: Step) => Math.max(step.begin - at, at - step.begin - step.duration, 0);
  const near = row.filter((step) => off(step) <= room);
  return near.find((step) => step.why) ?? near.sort((a, b) => off(a) - off(b))[0] ?? null;
}

/** In each pixel as much of each phase as the steps there have; whole where a step is all the time. */
function drawRow(context: CanvasRenderingContext2D, row: Step[], y: number, width: number, end: number, colors: Palette): void {
  const columns = Math.max(1, Math.floor(width));
  const perColumn = end / columns;
  const sums = colors.phases.map(() => new Float64Array(columns));
  for (const step of row) {
    const until = step.begin + step.duration;
    for (let at = Math.floor(step.begin / perColumn); at < columns && at * perColumn < until; at++) {
      const part = (Math.min(until, (at + 1) * perColumn) - Math.max(step.begin, at * perColumn)) / perColumn;
      step.phases.forEach((ns, phase) => (sums[phase]![at]! += (part * ns) / (step.duration || 1)));
    }
  }
  const tall = LANE - MARK - 2;
  for (let column = 0; column < columns; column++) {
    let bottom = y + LANE - 2;
    sums.forEach((sum, phase) => {
      const high = Math.min(sum[column]! * tall, bottom - y - MARK);
      if (high <= 0) return;
      context.fillStyle = colors.phases[phase]!;
      context.fillRect(column, bottom - high, 1, high);
      bottom -= high;
    });
  }
  for (const step of row) {
    const [x, wide] = [(step.begin / end) * width, (step.duration / end) * width];
    if (wide >= APART) context.clearRect(x, y + MARK, 1, LANE - MARK);
    if (!step.why) continue;
    context.fillStyle = colors.waiting;
    context.beginPath();
    context.moveTo(x + wide / 2 - 4, y);
    context.lineTo(x + wide / 2 + 4, y);
    context.lineTo(x + wide / 2, y + MARK - 1);
    context.fill();
  }
}

export function stepsAsRecords({ steps, meta }: Profile) {
  return steps.map(({ number, thread, begin, duration, phases }) => ({
    number,
    thread,
    begin_ns: begin,
    end_ns: begin + duration,
    phases: Object.fromEntries(phases.flatMap((ns, i) => (ns ? [[meta.steps!.phases[i]!, ns]] : []))),
  }));
}
