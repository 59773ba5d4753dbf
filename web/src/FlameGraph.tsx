// A flame graph on a canvas: the root above, each function below what called it.  Keys and a line of text
// tell the same to those who do not see it.  It is as high as it is deep, and the page scrolls over it: the
// canvas is as high as the window, stays in it, and has the rows that are there.
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { exactOf, gpuOf, layout, pathText, REST, selfOf, type Box } from "./boxes";
import { OF_KINDS, patternsOf, prepare, type Palette } from "./colors";
import { useHeight, useListener, usePaper } from "./environment";
import { percent, plural, time } from "./format";
import { KINDS, type Paths } from "./paths";
import type { Weights } from "./selection";

export const ROW = 18;
const PAPER_ROWS = 75; // as many are printed: one page
const FINE = 1.5; // times as small is print
const USUAL = "module_call_impl::forward"; // is as wide as most names, character by character

export interface FlameProps {
  label: string;
  profile: Paths;
  sums: Weights;
  roots: Box[];
  focus: readonly number[];
  onFocus: (path: number[]) => void;
  selected: number;
  onSelect: (frame: number) => void;
  matches: Uint8Array | null;
  colors: Palette;
  /** The way leads up: its top is the bottom row. */
  flip?: boolean;
  /** Its colour; else that of the function's kind. */
  paint?: (box: Box) => string;
  /** What else there is to say of one. */
  tell?: (box: Box) => string;
  /** CSS pixels, at most: it has a scroller of its own. */
  height?: number;
  width: number;
  /** Do kinds of functions have patterns? */
  patterns?: boolean;
}

export function FlameGraph(props: FlameProps) {
  const { profile, sums, roots, colors, matches, selected, focus, flip = false, paint, tell, patterns = false } = props;
  const canvas = useRef<HTMLCanvasElement>(null);
  const scroller = useRef<HTMLDivElement>(null);
  const extent = useRef<HTMLDivElement>(null);
  const windowHeight = useHeight();
  const isPaper = usePaper();
  const width = isPaper ? FINE * props.width : props.width;
  const [hover, setHover] = useState<{ box: Box; x: number; y: number } | null>(null);
  const [cursor, setCursor] = useState<Box | null>(null);
  const [top, setTop] = useState(0);

  const all = roots.reduce((sum, each) => sum + each.weight, 0);
  const boxes = useMemo(() => layout(roots, width, focus, sums), [roots, width, focus, sums]);
  const depth = boxes.reduce((most, each) => Math.max(most, each.depth + 1), 1);
  const wanted = depth * ROW;
  const isOwn = props.height !== undefined && !isPaper;
  const height = Math.min(wanted, isPaper ? PAPER_ROWS * ROW : isOwn ? Math.floor(props.height! / ROW) * ROW : windowHeight);
  const yOf = (each: Box) => (flip ? wanted - (each.depth + 1) * ROW : each.depth * ROW);
  /** How much of it is above the canvas. */
  const above = () => (isPaper ? Number(flip) * (wanted - height) : Math.round(canvas.current!.getBoundingClientRect().top - extent.current!.getBoundingClientRect().top));

  useEffect(() => {
    setCursor(null);
    setHover(null);
  }, [boxes]);
  useLayoutEffect(() => {
    if (flip && scroller.current) scroller.current.scrollTop = wanted;
  }, [boxes, flip]);
  useLayoutEffect(() => setTop(above())); // also where what stands before it has become higher
  useListener(window, "scroll", () => setTop(above()));

  useLayoutEffect(() => {
    const context = prepare(canvas.current!, width, height);
    const scroll = above();
    context.translate(0, -scroll);
    const textures = patterns && !paint ? patternsOf(context, colors.pattern, OF_KINDS) : [];
    context.font = "11px system-ui, sans-serif";
    context.textBaseline = "middle";
    const character = context.measureText(USUAL).width / USUAL.length;
    for (const each of boxes) {
      const y = yOf(each);
      if (y < scroll - ROW || y > scroll + height) continue;
      draw(context, each, y, profile, colors, matches, selected, character, sums.narrow?.frame === each.frame, textures, paint);
    }
    const marked = cursor ?? hover?.box;
    if (marked) {
      context.strokeStyle = colors.outline;
      context.lineWidth = cursor ? 2 : 1;
      context.strokeRect(marked.x + 0.5, yOf(marked) + 0.5, Math.max(marked.width - 1.5, 1), ROW - 2);
    }
  }, [boxes, colors, matches, selected, hover?.box, cursor, top, height, width, paint, patterns, isPaper]);

  const at = (event: MouseEvent): Box | null => {
    const place = canvas.current!.getBoundingClientRect();
    const y = event.clientY - extent.current!.getBoundingClientRect().top;
    const x = event.clientX - place.left;
    const row = flip ? depth - 1 - Math.floor(y / ROW) : Math.floor(y / ROW);
    return boxes.find((each) => each.depth === row && each.frame !== REST && x >= each.x && x < each.x + each.width) ?? null;
  };
  const pathOf = (each: Box): number[] => {
    const path: number[] = [];
    const middle = each.x + each.width / 2;
    for (let row = 0; row <= each.depth; row++) {
      const found = boxes.find((one) => one.depth === row && one.x <= middle && middle < one.x + one.width);
      if (found) path.push(found.frame);
    }
    return path;
  };
  const zoom = (each: Box) => {
    const path = pathOf(each);
    props.onFocus(path.length === focus.length && !each.isContext ? path.slice(0, -1) : path);
    if (each.frame) props.onSelect(each.frame);
  };
  const onKey = (event: KeyboardEvent) => {
    const now = cursor ?? boxes.find((each) => !each.isContext) ?? boxes[0];
    if (!now) return;
    const step = { ArrowDown: flip ? -1 : 1, ArrowUp: flip ? 1 : -1, ArrowRight: 0, ArrowLeft: 0 }[event.key];
    if (step !== undefined) {
      event.preventDefault();
      const next = cursor ? neighbour(boxes, now, event.key, step) : now;
      if (!next) return;
      setCursor(next);
      const room = isOwn ? scroller.current!.getBoundingClientRect() : { top: document.querySelector(".toolbar")!.getBoundingClientRect().bottom, bottom: windowHeight };
      const y = extent.current!.getBoundingClientRect().top + yOf(next);
      const off = Math.min(0, y - Math.max(0, room.top)) + Math.max(0, y + ROW - room.bottom);
      if (off) (isOwn ? scroller.current! : window).scrollBy(0, off);
    } else if (event.key === "Enter" && cursor) {
      zoom(cursor);
    } else if (event.key === "Backspace" && focus.length) {
      props.onFocus(focus.slice(0, -1));
    }
  };

  const told = cursor ?? hover?.box ?? null;
  return (
    <div class="flame">
      <div ref={scroller} class={isOwn ? "scroller" : ""} onScroll={() => setTop(above())} style={isOwn ? { height: `${height}px` } : {}}>
        <div ref={extent} style={isPaper ? {} : { height: `${wanted}px` }}>
          <canvas
            ref={canvas}
            tabIndex={0}
            role="application"
            aria-label={`${props.label}: arrow keys move, Enter zooms, Backspace zooms out.${sums.narrow ? " Imports are one box, drawn narrower than their time." : ""} The table below has the same figures.`}
            onMouseMove={(event) => {
              const box = at(event);
              setHover(box && { box, x: event.clientX, y: event.clientY });
            }}
            onMouseLeave={() => setHover(null)}
            onClick={(event) => {
              const box = at(event);
              if (box) zoom(box);
            }}
            onKeyDown={onKey}
            onBlur={() => setCursor(null)}
          />
        </div>
      </div>
      {isPaper && height < wanted && <p class="muted note">{plural((wanted - height) / ROW, "more row")}</p>}
      {hover && <Tip box={hover.box} x={hover.x} y={hover.y} profile={profile} sums={sums} all={all} more={tell?.(hover.box) ?? ""} />}
      <p class="spoken" aria-live="polite">
        {told && cursor ? spoken(told, profile, sums, pathOf(told), tell?.(told) ?? "") : ""}
      </p>
    </div>
  );
}

function draw(
  context: CanvasRenderingContext2D,
  each: Box,
  y: number,
  profile: Paths,
  colors: Palette,
  matches: Uint8Array | null,
  selected: number,
  character: number,
  isNarrow: boolean,
  textures: readonly (CanvasPattern | null)[],
  paint?: (box: Box) => string,
): void {
  const { frame, x, width } = each;
  if (frame === REST) {
    context.fillStyle = colors.off;
    context.globalAlpha = 0.5;
    context.fillRect(x, y + ROW - 4, Math.max(width - 0.5, 0.4), 3);
    context.globalAlpha = 1;
    return;
  }
  const isRoot = frame === 0;
  const isMatch = matches !== null && matches[frame] === 1;
  context.globalAlpha = (each.isContext ? 0.5 : 1) * (matches && !isMatch && !isRoot ? 0.35 : 1);
  const color = isRoot ? colors.off : isMatch ? colors.match : isNarrow ? colors.narrow : paint ? paint(each) : colors.kinds[profile.frames.kind[frame]!]!;
  context.fillStyle = color;
  const wide = Math.max(width - (width > 3 ? 1 : 0.2), 0.4);
  context.fillRect(x, y, wide, ROW - 1);
  const texture = isRoot || isNarrow || isMatch ? null : textures[profile.frames.kind[frame]!];
  if (texture) {
    context.fillStyle = texture;
    context.fillRect(x, y, wide, ROW - 1);
  }
  if (isNarrow) drawStripes(context, x, y, wide, colors);
  if (profile.isInlined(frame) && width > 4) {
    // Inlined code has no call of its own: a broken edge.
    context.fillStyle = colors.gap;
    for (let at = y + 1; at < y + ROW - 2; at += 4) context.fillRect(x, at, 2, 2);
  }
  if (frame && frame === selected && width > 2) {
    context.strokeStyle = colors.outline;
    context.lineWidth = 1.5;
    context.strokeRect(x + 0.75, y + 0.75, wide - 1.5, ROW - 2.5);
  }
  const room = Math.floor((width - 8) / character);
  if (room >= 3) {
    context.globalAlpha = each.isContext ? 0.7 : 1;
    const name = cut(isRoot ? "all" : isNarrow ? narrowName(profile.inBox(frame), each.weight, room) : profile.inBox(frame), room);
    if (texture) {
      context.fillStyle = color;
      context.fillRect(x + 2, y + 2, Math.min(context.measureText(name).width, width - 6) + 4, ROW - 5);
    }
    context.fillStyle = isMatch ? colors.onMatch : colors.text;
    context.fillText(name, x + 4, y + ROW / 2, width - 6);
  }
  context.globalAlpha = 1;
}

/** With its time, which its width does not tell. */
function narrowName(name: string, weight: number, room: number): string {
  const whole = `${name} ${time(weight)}`;
  return whole.length <= room ? whole : `import ${time(weight)}`;
}

/** Its width is not its time. */
function drawStripes(context: CanvasRenderingContext2D, x: number, y: number, width: number, colors: Palette): void {
  context.save();
  context.beginPath();
  context.rect(x, y, width, ROW - 1);
  context.clip();
  context.strokeStyle = colors.stripes;
  context.lineWidth = 2;
  context.beginPath();
  for (let at = x - ROW; at < x + width; at += 7) {
    context.moveTo(at, y + ROW);
    context.lineTo(at + ROW, y);
  }
  context.stroke();
  context.restore();
}

function cut(text: string, room: number): string {
  return text.length <= room ? text : `${text.slice(0, room - 1)}…`;
}

function neighbour(boxes: Box[], now: Box, key: string, step: number): Box | null {
  const middle = now.x + now.width / 2;
  if (step) {
    const row = boxes.filter((each) => each.depth === now.depth + step && each.frame !== REST);
    const inside = row.filter((each) => (step > 0 ? each.x >= now.x - 0.01 && each.x < now.x + now.width : each.x <= middle && middle < each.x + each.width));
    return inside.sort((a, b) => b.width - a.width)[0] ?? null;
  }
  const row = boxes.filter((each) => each.depth === now.depth && each.isContext === now.isContext && each.frame !== REST).sort((a, b) => a.x - b.x);
  return row[row.indexOf(now) + (key === "ArrowRight" ? 1 : -1)] ?? null;
}

function spoken(each: Box, profile: Paths, sums: Weights, path: number[], more: string): string {
  if (!each.frame) return [`all: ${time(each.weight)}`, more].filter(Boolean).join(", ");
  const exact = exactOf(each, sums);
  const calls = exact ? `, ${plural(exact.calls, "call")}` : more && `, ${more}`;
  const narrow = sums.narrow?.frame === each.frame ? ", drawn narrower" : "";
  return `${profile.label(each.frame)}: ${time(each.weight)}, ${percent(each.weight, sums.all)}${narrow}${calls}; ${pathText(path.filter(Boolean).slice(0, -1), profile)}`;
}

function Tip({ box, x, y, profile, sums, all, more }: { box: Box; x: number; y: number; profile: Paths; sums: Weights; all: number; more: string }) {
  const { frame } = box;
  const self = box.weights ? null : selfOf(box, sums);
  const exact = exactOf(box, sums);
  const gpu = gpuOf(box, sums);
  if (!frame) return null;
  return (
    <div class="tip" role="tooltip" style={beside(x, y)}>
      <b>{profile.name(frame)}</b>
      <div class="muted">
        {KIND_NAMES[KINDS[profile.frames.kind[frame]!]!]}
        {profile.isInlined(frame) && ", inlined"} {profile.place(frame) && `· ${profile.place(frame)}`}
      </div>
      <div>
        {time(box.weight)}, {percent(box.weight, sums.all)}
        {all < sums.all * 0.999 && ` (${percent(box.weight, all)} of this view)`}
        {self !== null && (
          <span class="muted">
            {" "}
            · itself {time(self)}
            {self > 0 && `, ${percent(self, sums.all)}`}
          </span>
        )}
      </div>
      {sums.narrow?.frame === frame && <div class="muted">drawn narrower than its time, for the rest to be seen</div>}
      {more && <div>{more}</div>}
      {gpu > 0 && <div>{time(gpu)} on the GPU</div>}
      {exact && (
        <div>
          {plural(exact.calls, "call")}, {time(exact.total)} <span class="muted">exact, {exact.calls ? `${time(exact.total / exact.calls)} a call` : ""}</span>
        </div>
      )}
    </div>
  );
}

/** Where a tip is of what the pointer is on. */
export function beside(x: number, y: number): Record<string, string> {
  const left = `${Math.max(4, Math.min(x + 14, window.innerWidth - 460))}px`;
  return y > window.innerHeight - 160 ? { left, bottom: `${window.innerHeight - y + 14}px` } : { left, top: `${y + 16}px` };
}

export const KIND_NAMES: Record<(typeof KINDS)[number], string> = {
  python: "Python",
  native: "C, C++, Rust",
  interpreter: "interpreter's C",
  kernel: "kernel",
  region: "region",
  pseudo: "profiler's mark",
  process: "process",
};
