// How much of the samples each line of a file had.
import { PYTHON, type Profile } from "./profile";

export interface LineWeights {
  /** By line: in the line itself (of Python with the native code that it called), and with all that it called. */
  own: Map<number, number>;
  total: Map<number, number>;
}

/** By number of the file's name; `leaves` is the weight of each leaf. */
export function linesByFile(profile: Profile, leaves: Float64Array): Map<number, LineWeights> {
  const { placeParent, placeFile, placeLine } = profile;
  const own = new Float64Array(placeParent.length);
  const total = own.slice();
  const isPython = new Uint8Array(profile.strings.length);
  for (let frame = 1; frame < profile.nFrames; frame++) if (profile.frames.kind[frame] === PYTHON) isPython[profile.frames.file[frame]!] = 1;
  leaves.forEach((weight, leaf) => {
    let place = profile.leafPlace[leaf]!;
    total[place]! += weight;
    own[place]! += weight;
    if (isPython[placeFile[place]!]) return;
    while (place && !isPython[placeFile[place]!]) place = placeParent[place]!;
    own[place]! += weight;
  });
  for (let place = total.length - 1; place > 0; place--) total[placeParent[place]!]! += total[place]!;
  const files = new Map<number, LineWeights>();
  for (let place = 1; place < total.length; place++) {
    if (!total[place]) continue;
    const [file, line] = [placeFile[place]!, placeLine[place]!];
    let of = files.get(file);
    if (!of) files.set(file, (of = { own: new Map(), total: new Map() }));
    if (own[place]) of.own.set(line, (of.own.get(line) ?? 0) + own[place]!);
    // A line that calls itself counts once.
    let above = placeParent[place]!;
    while (above && !(placeFile[above] === file && placeLine[above] === line)) above = placeParent[above]!;
    if (!above) of.total.set(line, (of.total.get(line) ?? 0) + total[place]!);
  }
  return files;
}

export interface ProgramLine {
  file: string;
  line: number;
  weight: number;
  /** By wall-clock time: is most of it for other threads, whose own lines show why? */
  waits: boolean;
}

/** Of each line of the program's own files: what is in it, and in what it called in libraries; the heaviest first of those that do not wait. */
export function programLines(profile: Profile, leaves: Float64Array): ProgramLine[] {
  const { placeParent, placeFile, placeLine } = profile;
  const isOwn = new Set(profile.meta.program_files);
  const below = new Float64Array(placeParent.length);
  const waited = new Float64Array(placeParent.length);
  leaves.forEach((weight, leaf) => {
    if (profile.imports[profile.leafNode[leaf]!]) return;
    below[profile.leafPlace[leaf]!]! += weight;
    if (profile.leafWaits[leaf]) waited[profile.leafPlace[leaf]!]! += weight;
  });
  const found = new Map<string, ProgramLine & { waited: number }>();
  for (let place = below.length - 1; place > 0; place--) {
    if (!below[place]) continue;
    if (!isOwn.has(placeFile[place]!)) {
      below[placeParent[place]!]! += below[place]!;
      waited[placeParent[place]!]! += waited[place]!;
      continue;
    }
    const [file, line] = [profile.strings[placeFile[place]!]!, placeLine[place]!];
    const key = `${line} ${file}`;
    const known = found.get(key) ?? { file, line, weight: 0, waited: 0, waits: false };
    known.weight += below[place]!;
    known.waited += waited[place]!;
    found.set(key, known);
  }
  const lines = [...found.values()].map(({ waited, ...line }) => ({ ...line, waits: waited > profile.meta.most_waiting * line.weight }));
  return lines.sort((a, b) => Number(a.waits) - Number(b.waits) || b.weight - a.weight || a.line - b.line);
}
