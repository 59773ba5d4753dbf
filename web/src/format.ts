// Numbers as text.

const UNITS: [string, number][] = [
  ["s", 1e9],
  ["ms", 1e6],
  ["µs", 1e3],
  ["ns", 1],
];

/** Nanoseconds in the largest unit that they fill, three digits: `1.5 ms`. */
export function time(ns: number): string {
  if (!ns) return "0";
  const [unit, size] = UNITS.find(([, each]) => Math.abs(ns) >= each * 0.9995) ?? UNITS[3]!;
  const value = ns / size;
  if (unit === "s" && value >= 1000) return `${count(Math.round(value))} s`;
  return `${value >= 99.95 ? value.toFixed(0) : Number(value.toPrecision(3))} ${unit}`;
}

/** Seconds on an axis whose steps are `step` ns. */
export function axisTime(ns: number, step: number): string {
  const digits = Math.max(0, Math.ceil(-Math.log10(step / 1e9) - 1e-9));
  return `${(ns / 1e9).toFixed(Math.min(digits, 6))} s`;
}

export function count(n: number): string {
  return n.toLocaleString("en-US");
}

/** At most eight characters. */
export function shortCount(n: number): string {
  return n < 1e7 ? count(n) : n < 1e9 ? `${(n / 1e6).toPrecision(4)} M` : `${(n / 1e9).toPrecision(4)} G`;
}

export function percent(part: number, all: number): string {
  return all ? `${((100 * part) / all).toFixed(1)} %` : "";
}

export function when(unixNs: string): string {
  if (!unixNs) return "";
  const date = new Date(Number(BigInt(unixNs) / 1000000n));
  return `${date.toISOString().slice(0, 16).replace("T", " ")} UTC`;
}

export function plural(n: number, one: string, more = `${one}s`): string {
  return `${count(n)} ${n === 1 ? one : more}`;
}

/** A relative change: `+5.0 %`, `new`, `gone`, or from ten times as much on `× 12`. */
export function change(relative: number): string {
  if (!Number.isFinite(relative)) return "new";
  if (relative === -1) return "gone";
  return relative >= 9 ? `× ${Number((relative + 1).toPrecision(3))}` : `${relative < 0 ? "−" : "+"}${Math.abs(100 * relative).toFixed(1)} %`;
}

/** As a regular expression that matches the text itself. */
export function escaped(text: string): string {
  return text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
}
