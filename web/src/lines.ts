// How much of the samples each line of a file had.
import type { Profile } from "./profile";

export interface LineWeights {
  /** By line: in the line itself with the native code that it called, and with all that it called. */
  own: Map<number, number>;
  total: Map<number, number>;
}

/** By number of the file's name; `leaves` is the weight of each leaf. */
export function linesByFile(profile: Profile, leaves: Float64Array): Map<number, LineWeights> {
  const { placeParent, placeFile, placeLine } = profile;
  const own = new Float64Array(placeParent.length);
  leaves.forEach((weight, leaf) => (own[profile.leafPlace[leaf]!]! += weight));
  const total = own.slice();
  for (let place = total.length - 1; place > 0; place--) total[placeParent[place]!]! += total[place]!;
  const files = new Map<number, LineWeights>();
  for (let place = 1; place < total.length; place++) {
    if (!total[place]) continue;
    const [file, line] = [placeFile[place]!, placeLine[place]!];
    let of = files.get(file);
    if (!of) files.set(file, (of = { own: new Map(), total: new Map() }));
    of.own.set(line, (of.own.get(line) ?? 0) + own[place]!);
    // A line that calls itself counts once.
    let above = placeParent[place]!;
    while (above && !(placeFile[above] === file && placeLine[above] === line)) above = placeParent[above]!;
    if (!above) of.total.set(line, (of.total.get(line) ?? 0) + total[place]!);
  }
  return files;
}
