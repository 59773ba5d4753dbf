// What a page shares with its browser: its address, theme, size and keys.  The theme and the address are
// what the page is, and it listens, before the next event comes.
import { useLayoutEffect, useState } from "preact/hooks";
import { palette, type Palette } from "./colors";
import type { Theme } from "./state";

const prefersDark = window.matchMedia("(prefers-color-scheme: dark)");

/** The state, which the address has, too. */
export function useAddress<S>(initial: S, from: (hash: string, initial: S) => S, to: (state: S, initial: S) => string): [S, (patch: Partial<S>) => void] {
  const [state, setState] = useState<S>(() => from(location.hash, initial));
  useLayoutEffect(() => {
    const hash = to(state, initial);
    try {
      history.replaceState(null, "", hash ? `#${hash}` : location.pathname + location.search);
    } catch {
      // A page without an address of its own has none to keep.
    }
  }, [state]);
  useListener(window, "hashchange", () => setState(from(location.hash, initial)));
  return [state, (patch) => setState((now) => ({ ...now, ...patch }))];
}

export function useTheme(theme: Theme): { dark: boolean; colors: Palette } {
  const [systemDark, setSystemDark] = useState(prefersDark.matches);
  useListener(prefersDark, "change", () => setSystemDark(prefersDark.matches));
  const dark = theme === "auto" ? systemDark : theme === "dark";
  useLayoutEffect(() => {
    document.documentElement.dataset.theme = dark ? "dark" : "light";
  }, [dark]);
  return { dark, colors: palette(dark) };
}

/** CSS pixels. */
export function useWidth(): number {
  const [width, setWidth] = useState(document.documentElement.clientWidth);
  useListener(window, "resize", () => setWidth(document.documentElement.clientWidth));
  return width;
}

/** Digits choose a view, Esc shows all again (`all`), / searches. */
export function useKeys<V extends string>(views: readonly V[], change: (patch: { view: V; focus: number[] }) => void, all: () => void): void {
  useListener(window, "keydown", (event) => {
    if (!(event instanceof KeyboardEvent) || event.ctrlKey || event.metaKey || event.altKey) return;
    const field = document.activeElement;
    const isField = field instanceof HTMLInputElement || field instanceof HTMLSelectElement;
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
    const view = views[Number(event.key) - 1];
    if (view) change({ view, focus: [] });
  });
}

function useListener(target: EventTarget, type: string, heard: (event: Event) => void): void {
  useLayoutEffect(() => {
    target.addEventListener(type, heard);
    return () => target.removeEventListener(type, heard);
  });
}
