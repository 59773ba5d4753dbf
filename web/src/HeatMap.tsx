// A subsecond heat map: a column for each second (or more), time within it upwards, samples as colour.
// What comes at intervals, or now and then, is seen here.  Dragging zooms everything to that time.
import { useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { prepare, type Palette } from "./colors";
import { plural, time } from "./format";
import type { Profile } from "./profile";
import { chosenThreads, type Choice } from "./selection";

const ROWS = 50;
const HEIGHT = 150;
const SPANS = [1e8, 2e8, 5e8, 1e9, 2e9, 5e9, 1e10, 3e10, 6e10, 3e11, 6e11, 3.6e12]; // ns of a column

export interface HeatProps {
  profile: Profile;
  colors: Palette;
  width: number;
  choice: Choice;
  onTime: (from: number | null, to: number | null) => void;
}

export function HeatMap({ profile, colors, width, choice, onTime }: HeatProps) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const [drag, setDrag] = useState<[number, number] | null>(null);
  const span = SPANS.find((each) => profile.end / each <= width / 6) ?? SPANS.at(-1)!;
  const columns = Math.ceil(profile.end / span);
  const { threads, processes } = choice;
  const cells = useMemo(() => {
    const sums = new Float64Array(columns * ROWS);
    const chosen = chosenThreads(profile, choice);
    profile.threads.forEach((thread, number) => {
      if (chosen && !chosen[number]) return;
      for (let i = thread.begin; i < thread.end; i++) sums[cellOf(profile.time[i]!, span)]! += profile.periods[i]!;
    });
    return sums;
  }, [profile, threads, processes, span]);
  const wide = Math.min(width / columns, 40);
  const tall = HEIGHT / ROWS;

  useLayoutEffect(() => {
    const context = prepare(canvas.current!, wide * columns, HEIGHT);
    const most = cells.reduce((a, b) => Math.max(a, b), 1);
    const [from, to] = drag ? [Math.min(...drag), Math.max(...drag)] : [choice.from ?? 0, choice.to ?? profile.end];
    const [first, last] = [cellOf(from, span), cellOf(to, span)];
    cells.forEach((weight, cell) => {
      const x = Math.floor(cell / ROWS) * wide;
      const y = HEIGHT - ((cell % ROWS) + 1) * tall;
      const [red, green, blue] = colors.heat;
      const shown = cell >= first && cell <= last ? 1 : 0.3;
      context.fillStyle = weight ? `rgba(${red}, ${green}, ${blue}, ${shown * (0.12 + (0.88 * weight) / most)})` : colors.veil;
      context.globalAlpha = weight ? 1 : 0.2;
      context.fillRect(x, y, wide - (wide > 3 ? 0.5 : 0), tall - 0.4);
    });
  }, [cells, colors, wide, drag, choice.from, choice.to]);

  const at = (event: PointerEvent): number => {
    const box = canvas.current!.getBoundingClientRect();
    const column = Math.max(0, Math.min(columns - 1, Math.floor((event.clientX - box.left) / wide)));
    const row = Math.max(0, Math.min(ROWS - 1, Math.floor((box.bottom - event.clientY) / tall)));
    return Math.min(profile.end, (column + row / ROWS) * span);
  };
  const release = () => {
    if (!drag) return;
    const [low, high] = [Math.min(...drag), Math.max(...drag)];
    setDrag(null);
    if (low === high) onTime(null, null);
    else onTime(Math.round(low), Math.round(high + span / ROWS));
  };
  return (
    <section class="heat" aria-label="Heat map">
      <canvas
        ref={canvas}
        role="img"
        aria-label={`Samples by time: ${plural(columns, "column")} of ${time(span)}; the lanes above have the same samples`}
        title={`each column ${time(span)}, time goes upwards; drag: only this time; click: all`}
        onPointerDown={(event) => {
          canvas.current!.setPointerCapture(event.pointerId);
          setDrag([at(event), at(event)]);
        }}
        onPointerMove={(event) => drag && setDrag([drag[0], at(event)])}
        onPointerUp={release}
        onPointerCancel={() => setDrag(null)}
      />
    </section>
  );
}

function cellOf(ns: number, span: number): number {
  const column = Math.floor(ns / span);
  return column * ROWS + Math.min(ROWS - 1, Math.floor((ns / span - column) * ROWS));
}
