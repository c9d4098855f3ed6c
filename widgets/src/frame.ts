// The frame: one snapshot of a view as bytes. The mirror image of rfnb/viz/spec.py.

import { safe } from "./visible";

export interface Block {
  data: Float32Array | Int32Array | Uint8Array;
  shape: number[];
}
/** What any head may have: views of one `link` point at the same, along one `axis` at the same step. */
export interface AnyHead {
  title?: string;
  live?: boolean;
  link?: string;
  axis?: string;
}
/** `H`: what Python writes for a view of this kind. */
export interface Frame<H = AnyHead> {
  kind: string;
  head: H;
  blocks: Record<string, Block>;
}

const VERSION = 1;
const ARRAYS = { f32: Float32Array, i32: Int32Array, u8: Uint8Array } as const;
type DType = keyof typeof ARRAYS;

/** Reads a frame; throws a sentence if the bytes are none. */
export function unpack(view: DataView | ArrayBuffer | Uint8Array): Frame {
  const bytes =
    view instanceof ArrayBuffer ? new Uint8Array(view) : new Uint8Array(view.buffer, view.byteOffset, view.byteLength);
  if (bytes.byteLength < 8) throw new Error("There is no data yet.");
  const top = new DataView(bytes.buffer, bytes.byteOffset, 8);
  const length = top.getUint32(0, true);
  if (top.getUint32(4, true) !== VERSION || 8 + length > bytes.byteLength)
    throw new Error("This data is from another version of rfnb.");
  const text = new TextDecoder().decode(bytes.subarray(8, 8 + length));
  // Escapes are what is not ASCII; the usual frame has none.
  const json = JSON.parse(
    text,
    text.includes("\\u") ? (_, value: unknown) => (typeof value === "string" ? safe(value) : value) : undefined,
  ) as { kind: string; head: AnyHead; blocks: Record<string, { offset: number; dtype: DType; shape: number[] }> };
  const blocks: Record<string, Block> = {};
  for (const [name, { offset, dtype, shape }] of Object.entries(json.blocks)) {
    const count = shape.reduce((product, size) => product * size, 1);
    const ArrayType = ARRAYS[dtype];
    if (!ArrayType) throw new Error(`Block ${name} has the unknown type ${dtype}.`);
    const start = 8 + length + offset;
    const stop = start + count * ArrayType.BYTES_PER_ELEMENT;
    if (stop > bytes.byteLength) throw new Error(`Block ${name} is cut off.`);
    // A copy where the host's buffer is not aligned; it also frees the message.
    blocks[name] = { data: new ArrayType(bytes.slice(start, stop).buffer), shape };
  }
  return { kind: json.kind, head: json.head, blocks };
}

interface Stored {
  dtype: string;
  shape: number[];
  data: (number | string | null)[];
}

/** The frame of the readable form that the test fixtures have (`to_json` in rfnb/viz/spec.py). */
export function fromJson<H = AnyHead>(data: unknown): Frame<H> {
  const json = data as { kind: string; head: H; blocks?: Record<string, Stored> };
  const blocks: Record<string, Block> = {};
  for (const [name, { dtype, shape, data }] of Object.entries(json.blocks ?? {})) {
    const numbers = data.map((value) =>
      value === null ? NaN : value === "inf" ? Infinity : value === "-inf" ? -Infinity : Number(value),
    );
    blocks[name] = { data: new ARRAYS[dtype as DType](numbers), shape };
  }
  return { kind: json.kind, head: json.head, blocks };
}
