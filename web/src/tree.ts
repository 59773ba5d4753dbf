// The call tree, whole or with the frames of one kind: views/selection/sample_selection.py does the same.
import { IN_IMPORT, IMPORT, INTERPRETER, KERNEL, NATIVE, NOT_FIRST, PSEUDO, PYTHON, REGION, RUN, type Paths, type Profile } from "./profile";
import type { Column } from "./columns";

export type Frames = "all" | "plumbing" | "python" | "native";

export const KEPT = {
  python: [PYTHON, REGION, PSEUDO],
  native: [NATIVE, INTERPRETER, KERNEL, PSEUDO],
};

export class Tree {
  readonly firstChild: Uint32Array;
  readonly nextSibling: Uint32Array;
  private outer: Uint8Array | null = null;

  /** `ofNode`: the node of this tree that stands for one of the profile's; `ofLeaf`: for a leaf. */
  constructor(
    readonly parent: Uint32Array,
    readonly frame: Column,
    readonly ofNode: Uint32Array | null,
    private readonly paths: Paths,
    readonly ofLeaf: Column | null = null,
  ) {
    this.firstChild = new Uint32Array(parent.length);
    this.nextSibling = new Uint32Array(parent.length);
    for (let node = parent.length - 1; node > 0; node--) {
      const above = parent[node]!;
      this.nextSibling[node] = this.firstChild[above]!;
      this.firstChild[above] = node;
    }
  }

  get size(): number {
    return this.parent.length;
  }

  /** 1 where no node above has the same frame: the outermost of a recursion. */
  get isOuter(): Uint8Array {
    if (this.outer) return this.outer;
    const outer = new Uint8Array(this.size);
    const depth = new Uint32Array(this.paths.nFrames);
    const { firstChild, nextSibling, parent, frame } = this;
    let node = firstChild[0]!;
    while (node) {
      if (depth[frame[node]!]!++ === 0) outer[node] = 1;
      if (firstChild[node]) {
        node = firstChild[node]!;
        continue;
      }
      while (node) {
        depth[frame[node]!]!--;
        if (nextSibling[node]) {
          node = nextSibling[node]!;
          break;
        }
        node = parent[node]!;
      }
    }
    return (this.outer = outer);
  }

  inclusive(self: Float64Array): Float64Array {
    const total = self.slice();
    for (let node = this.size - 1; node > 0; node--) total[this.parent[node]!]! += total[node]!;
    return total;
  }

  /** Of each node itself, or the nearest one above, that is Python's; else 0. */
  nearestPython(): Uint32Array {
    const nearest = new Uint32Array(this.size);
    const kinds = this.paths.frames.kind;
    for (let node = 1; node < this.size; node++) {
      nearest[node] = kinds[this.frame[node]!] === PYTHON ? node : nearest[this.parent[node]!]!;
    }
    return nearest;
  }
}

/** Without `imports` all that an import statement runs is one frame. */
export function treeOf(profile: Profile, frames: Frames, imports: boolean): Tree {
  const importFrame = imports ? 0 : profile.meta.import_frame;
  if ((frames === "all" && !importFrame) || (frames === "plumbing" && !profile.meta.plumbing)) return new Tree(profile.parent, profile.frame, null, profile);
  if (frames === "plumbing") return new Tree(profile.plumbing.parent, profile.plumbing.frame, null, profile, profile.plumbing.ofLeaf);
  const kept: readonly number[] | null = frames === "python" || frames === "native" ? KEPT[frames] : null;
  const { kind, flags } = profile.frames;
  // Where native frames may be missing no Python one is, so that is no matter among these.
  const isKept = Uint8Array.from(kind, (each, frame) =>
    Number(!kept || (kept.includes(each) && !(frames === "python" && /^\[unwind gap\]$/.test(profile.name(frame))))),
  );
  const ofNode = new Uint32Array(profile.parent.length);
  const parents = [0];
  const labels = [0];
  const known = new Map<number, number>();
  for (let node = 1; node < ofNode.length; node++) {
    const above = ofNode[profile.parent[node]!]!;
    const within = importFrame ? profile.imports[node]! : 0;
    const frame = within === IMPORT ? importFrame : profile.frame[node]!;
    const how = flags[frame]!;
    if (within === IN_IMPORT || !isKept[frame] || (how & NOT_FIRST && !above) || (how & RUN && labels[above] === frame)) {
      ofNode[node] = above;
      continue;
    }
    const key = above * profile.nFrames + frame;
    let found = known.get(key);
    if (found === undefined) {
      known.set(key, (found = parents.length));
      parents.push(above);
      labels.push(frame);
    }
    ofNode[node] = found;
  }
  return new Tree(Uint32Array.from(parents), Uint32Array.from(labels), ofNode, profile);
}
