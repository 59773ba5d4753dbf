// A stretch of a canvas that is chosen by dragging across it or by arrow keys, as lanes over time have it.
import type { RefObject } from "preact";
import { useRef, useState } from "preact/hooks";

const LEAST = 3; // pixels: what is shorter is a click

/** Positions are CSS pixels from the canvas' left edge. */
export interface Drag {
  canvas: RefObject<HTMLCanvasElement | null>;
  x: (event: MouseEvent) => number;
  chosen: [low: number, high: number] | null; // while the pointer is held down
  listeners: {
    onPointerDown: (event: PointerEvent) => void;
    onPointerMove: (event: PointerEvent) => void;
    onPointerUp: (event: PointerEvent) => void;
    onPointerCancel: () => void;
  };
}

export function useDrag(width: number, onStretch: (low: number, high: number) => void, onClick: (event: PointerEvent) => void): Drag {
  const canvas = useRef<HTMLCanvasElement>(null);
  const [ends, setEnds] = useState<[number, number] | null>(null);
  const x = (event: MouseEvent) => Math.max(0, Math.min(width, event.clientX - canvas.current!.getBoundingClientRect().left));
  const chosen: Drag["chosen"] = ends && [Math.min(...ends), Math.max(...ends)];
  const listeners = {
    onPointerDown: (event: PointerEvent) => {
      canvas.current!.setPointerCapture(event.pointerId);
      setEnds([x(event), x(event)]);
    },
    onPointerMove: (event: PointerEvent) => ends && setEnds([ends[0], x(event)]),
    onPointerUp: (event: PointerEvent) => {
      if (!chosen) return;
      setEnds(null);
      if (chosen[1] - chosen[0] < LEAST) onClick(event);
      else onStretch(...chosen);
    },
    onPointerCancel: () => setEnds(null),
  };
  return { canvas, x, chosen, listeners };
}

/**
 * What a key makes of the stretch from `from` to `to` of all from 0 to `end`: down is half of it, up twice as much, left and
 * right move it by half its length, Home and End to the ends; null: all; undefined: the key means nothing here.
 */
export function byKey(key: string, from: number, to: number, end: number): [number, number] | null | undefined {
  const long = to - from;
  const at = (begin: number, length: number): [number, number] => {
    const low = Math.max(0, Math.min(end - length, begin));
    return [Math.round(low), Math.round(low + length)];
  };
  switch (key) {
    case "ArrowDown":
      return at(from + long / 4, long / 2);
    case "ArrowUp":
      return 2 * long > 0.999 * end ? null : at(from - long / 2, 2 * long);
    case "ArrowLeft":
      return at(from - long / 2, long);
    case "ArrowRight":
      return at(from + long / 2, long);
    case "Home":
      return at(0, long);
    case "End":
      return at(end - long, long);
    default:
      return undefined;
  }
}
