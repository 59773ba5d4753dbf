// Columns of whole numbers, as pyhybrid/exporters/page/__init__.py writes them.

export type Column = Uint8Array | Uint16Array | Uint32Array | Float64Array;
export type Index = Record<string, [offset: number, n: number, width: number]>;

export class Columns {
  constructor(
    private readonly bytes: Uint8Array,
    private readonly index: Index,
  ) {}

  /** The numbers; empty where there is no such column. */
  numbers(name: string): Column {
    const [offset, n, width] = this.index[name] ?? [0, 0, 1];
    const column = empty(n, width);
    let scale = 1;
    for (let plane = 0; plane < width; plane++, scale *= 256) {
      const from = offset + plane * n;
      for (let i = 0; i < n; i++) column[i] = column[i]! + this.bytes[from + i]! * scale;
    }
    return column;
  }

  has(name: string): boolean {
    return name in this.index;
  }

  texts(name: string): string[] {
    const [offset, n] = this.index[name] ?? [0, 0];
    return n ? new TextDecoder().decode(this.bytes.subarray(offset, offset + n)).split("\0") : [""];
  }
}

function empty(n: number, width: number): Column {
  if (width === 1) return new Uint8Array(n);
  if (width === 2) return new Uint16Array(n);
  return width <= 4 ? new Uint32Array(n) : new Float64Array(n);
}

export async function unpack(text: string): Promise<Uint8Array> {
  const decode = (Uint8Array as { fromBase64?: (text: string) => Uint8Array<ArrayBuffer> }).fromBase64;
  const packed = decode ? decode(text) : Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}
