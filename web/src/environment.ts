// What a page shares with its browser: its address, theme, size, paper and keys.  The theme and the address
// are what the page is, and it listens, before the next event comes.
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { palette, type Palette } from "./colors";
import type { Theme } from "./state";

const prefersDark = window.matchMedia("(prefers-color-scheme: dark)");

/**
 * The state, which the address has, too; and whether the page is at work on a change of it: where `isLong`, a change
 * is made after the browser had time to show that.
 */
export function useAddress<S>(
  initial: S,
  from: (hash: string, initial: S) => S,
  to: (state: S, initial: S) => string,
  isLong = false,
): [state: S, change: (patch: Partial<S>) => void, isAtWork: boolean] {
  const [state, setState] = useState<S>(() => from(location.hash, initial));
  const [isAtWork, setAtWork] = useState(false);
  const set = (next: (now: S) => S) => {
    if (!isLong) return setState(next);
    setAtWork(true);
    requestAnimationFrame(() =>
      setTimeout(() => {
        setState(next);
        setAtWork(false);
      }),
    );
  };
  useLayoutEffect(() => {
    const hash = to(state, initial);
    try {
      history.replaceState(null, "", hash ? `#${hash}` : location.pathname + location.search);
    } catch {
      // A page without an address of its own has none to keep.
    }
  }, [state]);
  useListener(window, "hashchange", () => set(() => from(location.hash, initial)));
  return [state, (patch) => set((now) => ({ ...now, ...patch })), isAtWork];
}

export function useTheme(theme: Theme, patterns = false): { dark: boolean; colors: Palette } {
  const [systemDark, setSystemDark] = useState(prefersDark.matches);
  useListener(prefersDark, "change", () => setSystemDark(prefersDark.matches));
  const isPaper = usePaper();
  const dark = !isPaper && (theme === "auto" ? systemDark : theme === "dark");
  useLayoutEffect(() => {
    document.documentElement.dataset.theme = dark ? "dark" : "light";
    document.documentElement.dataset.patterns = String(patterns);
  }, [dark, patterns]);
  return { dark, colors: palette(dark) };
}

// Before what is drawn for it: canvases are as sharp as printers (colors.ts).
window.addEventListener("beforeprint", () => (document.documentElement.dataset.paper = ""));
window.addEventListener("afterprint", () => delete document.documentElement.dataset.paper);

/** Is the page being printed?  What draws by size draws anew for it. */
export function usePaper(): boolean {
  const [isPaper, setPaper] = useState(false);
  useListener(window, "beforeprint", () => setPaper(true));
  useListener(window, "afterprint", () => setPaper(false));
  return isPaper;
}

const PAPER = 732; // CSS pixels: page.css leaves as much of A4 and of Letter, upright

/** CSS pixels. */
export function useWidth(): number {
  const [width, setWidth] = useState(document.documentElement.clientWidth);
  useListener(window, "resize", () => setWidth(document.documentElement.clientWidth));
  return usePaper() ? PAPER : width;
}

/** CSS pixels of the window. */
export function useHeight(): number {
  const [height, setHeight] = useState(window.innerHeight);
  useListener(window, "resize", () => setHeight(window.innerHeight));
  return height;
}

/** Digits choose a view, Esc shows all again (`all`), / searches; what other keys do. */
export function useKeys<V extends string>(views: readonly V[], change: (patch: { view: V; focus: number[] }) => void, all: () => void, others: Record<string, () => void> = {}): void {
  useListener(window, "keydown", (event) => {
    if (!(event instanceof KeyboardEvent) || event.ctrlKey || event.metaKey || event.altKey) return;
    const field = document.activeElement;
    const isField = (field instanceof HTMLInputElement && field.type !== "checkbox") || field instanceof HTMLSelectElement;
    if (event.key === "Escape") {
      if (isField) field.blur();
      all();
      return;
    }
    if (isField) return;
    if (event.key === "/") {
      event.preventDefault();
      document.getElementById("search")?.focus();
    }
    others[event.key]?.();
    const view = views[Number(event.key) - 1];
    if (view) change({ view, focus: [] });
  });
}

export function useListener(target: EventTarget, type: string, heard: (event: Event) => void): void {
  // What is drawn anew between two listeners of one event must not take the second one away.
  const latest = useRef(heard);
  latest.current = heard;
  useLayoutEffect(() => {
    const listener = (event: Event) => latest.current(event);
    target.addEventListener(type, listener);
    return () => target.removeEventListener(type, listener);
  }, [target, type]);
}
