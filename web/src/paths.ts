// Functions and call paths, as pyhybrid/exporters/page/tree.py writes them.
import type { Column, Columns } from "./columns";

export const KINDS = ["python", "native", "interpreter", "kernel", "region", "pseudo", "process"] as const;
export type Kind = (typeof KINDS)[number];
export const [PYTHON, NATIVE, INTERPRETER, KERNEL, REGION, PSEUDO] = [0, 1, 2, 3, 4, 5];
export const [INLINED, RUN, NOT_FIRST, OWN] = [1, 2, 4, 8];

/** Functions, and call paths of them. */
export class Paths {
  readonly strings: string[];
  readonly frames: { name: Column; short: Column; kind: Column; flags: Column; place: Column; file: Column; line: Column; declared: Column };
  readonly nFrames: number;
  readonly parent: Uint32Array;
  readonly frame: Column;

  constructor(protected readonly columns: Columns) {
    const of = (name: string) => columns.numbers(name);
    this.strings = columns.texts("strings");
    this.frames = {
      name: of("frame.name"),
      short: of("frame.short"),
      kind: of("frame.kind"),
      flags: of("frame.flags"),
      place: of("frame.place"),
      file: of("frame.file"),
      line: of("frame.line"),
      declared: of("frame.declared"),
    };
    this.nFrames = this.frames.name.length;
    this.parent = back(of("node.up"));
    this.frame = of("node.frame");
  }

  kind(frame: number): Kind {
    return KINDS[this.frames.kind[frame]!]!;
  }

  name(frame: number): string {
    return this.strings[this.frames.name[frame]!]!;
  }

  /** Without parameters and generic arguments, and without marks at its end, which are shown in other ways. */
  short(frame: number): string {
    return this.strings[this.frames.short[frame]!]!.replace(/_\[[ik]\]$/, "");
  }

  /** `linear.py:130`, or the library and where it is declared; empty where it is not known. */
  place(frame: number): string {
    const place = this.strings[this.frames.place[frame]!]!;
    const line = this.frames.line[frame];
    if (this.frames.kind[frame] === PYTHON) return line ? `${place}:${line}` : place;
    const declared = this.strings[this.frames.declared[frame]!]!;
    return declared ? `${declared}, ${place}` : place;
  }

  /** The file or library, whole. */
  file(frame: number): string {
    return this.strings[this.frames.file[frame]!]!;
  }

  /** As `report` writes it. */
  label(frame: number): string {
    const name = this.name(frame);
    return this.frames.kind[frame] === PYTHON && this.place(frame) ? `${name} (${this.place(frame)})` : name;
  }

  /** In a box: all modules have one name. */
  inBox(frame: number): string {
    const name = this.short(frame);
    return name === "<module>" ? `${name} ${this.place(frame)}` : name;
  }

  isInlined(frame: number): boolean {
    return (this.frames.flags[frame]! & INLINED) !== 0;
  }

  isOwn(frame: number): boolean {
    return (this.frames.flags[frame]! & OWN) !== 0;
  }

  /** Which functions a search finds, or null: there is none; and whether it is no regular expression. */
  search(text: string): [Uint8Array | null, boolean] {
    if (!text) return [null, false];
    let pattern: RegExp;
    try {
      pattern = new RegExp(text, "i");
    } catch {
      return [null, true];
    }
    const matches = new Uint8Array(this.nFrames);
    for (let frame = 1; frame < matches.length; frame++) if (pattern.test(this.label(frame))) matches[frame] = 1;
    return [matches, false];
  }
}

/** Of each row its parent's, from how far back that is. */
export function back(steps: Column): Uint32Array {
  return Uint32Array.from(steps, (step, row) => row - step);
}
