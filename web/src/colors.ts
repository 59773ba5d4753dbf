// What is drawn on canvases; page.css has the same colours as variables.

export interface Palette {
  kinds: readonly string[]; // in the order of KINDS
  text: string;
  match: string;
  onMatch: string;
  gap: string;
  outline: string;
  held: string;
  neither: string;
  waiting: string;
  off: string;
  narrow: string;
  stripes: string;
  call: string;
  axis: string;
  veil: string;
  /** Of patterns: on boxes, which have names, and on lanes. */
  pattern: string;
  lanePattern: string;
  heat: readonly [number, number, number];
  /** Of a step, in the order in which pyhybrid/frameworks/torch.toml has them, then `compile` and `other`. */
  phases: readonly string[];
}

const LIGHT: Palette = {
  kinds: ["#8ab6e6", "#f2ad72", "#efd778", "#e08a80", "#94cf9c", "#c3b2da", "#c9ced6"],
  text: "#16181d",
  match: "#b5179e",
  onMatch: "#ffffff",
  gap: "#ffffff",
  outline: "#16181d",
  held: "#3f7fc4",
  neither: "#e8964a",
  waiting: "#cf3636",
  off: "#c9ced6",
  narrow: "#dfe3e9",
  stripes: "#cdd3dc",
  call: "#2e8b41",
  axis: "#5a6472",
  veil: "rgba(120, 128, 140, 0.32)",
  pattern: "rgba(22, 24, 29, 0.3)",
  lanePattern: "rgba(22, 24, 29, 0.6)",
  heat: [190, 40, 40],
  phases: ["#d1495b", "#6fa3dd", "#8467c1", "#3d9a57", "#9bd0a8", "#d58fb8", "#e0a030", "#8a6d4b", "#3fa7a3", "#c9ced6"],
};

const DARK: Palette = {
  kinds: ["#3d6fa8", "#a8652a", "#8a7727", "#9a443b", "#3e7d4c", "#6c5a91", "#474d57"],
  text: "#f4f5f7",
  match: "#e056c6",
  onMatch: "#14161a",
  gap: "#15171b",
  outline: "#ffffff",
  held: "#4d8ed6",
  neither: "#d08037",
  waiting: "#e05252",
  off: "#474d57",
  narrow: "#3a404a",
  stripes: "#474e5a",
  call: "#63c277",
  axis: "#9aa4b2",
  veil: "rgba(0, 0, 0, 0.5)",
  pattern: "rgba(255, 255, 255, 0.3)",
  lanePattern: "rgba(255, 255, 255, 0.6)",
  heat: [255, 110, 80],
  phases: ["#c24455", "#4680bd", "#7d62b8", "#38894f", "#6c9c78", "#a25a86", "#b5822a", "#7d6546", "#2f8d89", "#474d57"],
};

export function palette(dark: boolean): Palette {
  return dark ? DARK : LIGHT;
}

type Rgb = readonly [number, number, number];

const CHANGES: Record<"light" | "dark", { within: Rgb; more: Rgb; less: Rgb }> = {
  light: { within: [213, 217, 224], more: [226, 96, 79], less: [91, 155, 224] },
  dark: { within: [66, 72, 82], more: [168, 54, 43], less: [47, 107, 179] },
};
const NOISE = 2; // standard errors
const FULL = 8; // where a colour is at its strongest

/** Of time that grew by so many standard errors: red is more, blue less, grey within noise. */
export function changeColor(errors: number, dark: boolean): string {
  const { within, more, less } = CHANGES[dark ? "dark" : "light"];
  const size = Math.abs(errors);
  const part = size < NOISE ? 0 : Math.min(1, 0.3 + (0.7 * (size - NOISE)) / (FULL - NOISE));
  const end = errors > 0 ? more : less;
  return `rgb(${within.map((value, i) => Math.round(value + (end[i]! - value) * part)).join(" ")})`;
}

const TILE = 6; // pixels

// Rectangles of a tile.
type Tile = readonly (readonly [x: number, y: number, width: number, height: number])[];
const PLAIN: Tile = [];
const FALLING: Tile = [0, 1, 2, 3, 4, 5].map((at) => [at, at, 1, 1]); // lines, to the right
const DOTS: Tile = [[1, 1, 2, 2]];
const GRID: Tile = [[0, 0, 6, 1], [0, 0, 1, 6]];
const UPRIGHT: Tile = [[0, 0, 2, 6]];
const LYING: Tile = [[0, 0, 6, 2]];

// page.css has the same for what is no canvas: of KINDS, and of what threads do (Lanes.tsx).
export const OF_KINDS = [PLAIN, FALLING, DOTS, GRID, UPRIGHT, LYING, PLAIN];
export const OF_STATES = [PLAIN, FALLING, LYING, DOTS];

/** What is told apart by patterns, and not by colours alone, in this order; null: it has none. */
export function patternsOf(context: CanvasRenderingContext2D, color: string, tiles: readonly Tile[]): (CanvasPattern | null)[] {
  return tiles.map((rectangles) => {
    if (!rectangles.length) return null;
    const tile = new OffscreenCanvas(TILE, TILE);
    const within = tile.getContext("2d")!;
    within.fillStyle = color;
    for (const each of rectangles) within.fillRect(...each);
    return context.createPattern(tile, "repeat");
  });
}

const PAPER_RATIO = 3; // dots a CSS pixel, of a printer

/** A canvas of this many CSS pixels, cleared. */
export function prepare(canvas: HTMLCanvasElement, width: number, height: number): CanvasRenderingContext2D {
  const ratio = "paper" in document.documentElement.dataset ? PAPER_RATIO : window.devicePixelRatio || 1;
  canvas.width = Math.max(1, Math.round(width * ratio));
  canvas.height = Math.max(1, Math.round(height * ratio));
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d")!;
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
}
