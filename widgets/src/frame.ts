// The frame: one snapshot of a view as bytes. The mirror image of rfnb/viz/spec.py.

import { unzlibSync } from "fflate";
import type { Block, Code } from "./block";
import { codedBlock, exactBlock, storedShapeOf } from "./block";
import { line, safe } from "./visible_text";

export type { Block } from "./block";
export { exactBlock };

/** Fields of any head: views with the same `link` share their selection, those with the same `axis` their step. */
export interface AnyHead {
  title?: string;
  live?: boolean;
  link?: string;
  axis?: string;
  batch?: string; // identifies the sequences: only views with the same ones share the chosen one
  remark?: string; // remarks on the whole view, in sentences
  thinned?: string; // data that only the kernel has, in a sentence
  version?: number; // of the frame's spec
}
/** `H`: the head that Python writes for a view of this kind. */
export interface Frame<H = AnyHead> {
  kind: string;
  head: H;
  blocks: Record<string, Block>;
}

const VERSION = 2;
const TOP = 16; // bytes before the head
const MOST = 2 ** 28; // bytes that a frame may hold when inflated
const RATIO = 1100; // the best deflate ratio is 1032
const ARRAYS = { f64: Float64Array, f32: Float32Array, i32: Int32Array, u8: Uint8Array } as const;
type DType = keyof typeof ARRAYS;
interface Entry {
  offset: number;
  size: number;
  dtype: DType;
  shape: number[];
  deflated?: boolean;
  code?: Code;
  pool?: number[];
}

/** Reads a frame; throws a sentence if the bytes are not one. */
export function unpack(view: DataView | ArrayBuffer | Uint8Array): Frame {
  const bytes =
    view instanceof ArrayBuffer ? new Uint8Array(view) : new Uint8Array(view.buffer, view.byteOffset, view.byteLength);
  if (bytes.byteLength < TOP) throw new Error("There is no data yet.");
  const top = new DataView(bytes.buffer, bytes.byteOffset, TOP);
  const stored = top.getUint32(0, true),
    size = top.getUint32(8, true);
  if (top.getUint32(4, true) !== VERSION || TOP + stored > bytes.byteLength)
    throw new Error("This data is from another version of rfnb.");
  const text = new TextDecoder().decode(part(bytes, TOP, stored, size, size !== stored, "The head"));
  // Characters outside ASCII are escaped; the usual frame has none.
  const json = headOf(text);
  const start = TOP + stored + ((8 - (stored % 8)) % 8);
  let left = MOST - size;
  const blocks: Record<string, Block> = {};
  for (const [name, { offset, size, dtype, shape, deflated, code, pool }] of Object.entries(json.blocks)) {
    const ArrayType = code ? Uint8Array : Object.hasOwn(ARRAYS, dtype) ? ARRAYS[dtype] : undefined;
    if (!ArrayType) throw new Error(`Block ${name} has the unknown type ${line(dtype)}.`);
    if (![...shape, ...(pool ?? []).map((factor) => factor - 1)].every((n) => Number.isInteger(n) && n >= 0))
      throw new Error(`Block ${name} has no shape.`);
    const count = (code ? storedShapeOf(shape, pool ?? []) : shape).reduce((product, n) => product * n, 1);
    const length = count * ArrayType.BYTES_PER_ELEMENT;
    left -= length;
    if (!(left >= 0)) throw new Error(`Block ${name} is too large for a page.`);
    const data = part(bytes, start + offset, size, length, !!deflated, `Block ${name}`);
    // A copy of its own: where the host's buffer is not aligned there is no other way, and the message is free.
    const own = new ArrayType(data.buffer.byteLength === length ? data.buffer : data.slice().buffer) as Block["data"];
    blocks[name] = code ? codedBlock(own as Uint8Array, shape, code, pool) : exactBlock(own, shape);
  }
  return { kind: json.kind, head: json.head, blocks };
}

/** Parses the head; throws a sentence if it is damaged. */
function headOf(text: string): { kind: string; head: AnyHead; blocks: Record<string, Entry> } {
  const lacks = (what: string) => new Error(`${what}: this data is damaged. Save the view again, or run its cell.`);
  let json;
  try {
    json = JSON.parse(
      text,
      text.includes("\\u") ? (_, value: unknown) => (typeof value === "string" ? safe(value) : value) : undefined,
    ) as { kind: string; head: AnyHead; blocks: Record<string, Entry> };
  } catch {
    throw lacks("The head is no JSON");
  }
  const isObject = (value: unknown) => !!value && typeof value === "object" && !Array.isArray(value);
  if (!isObject(json) || typeof json.kind !== "string" || !isObject(json.head) || !isObject(json.blocks))
    throw lacks("The head has no kind, head and blocks");
  for (const [name, entry] of Object.entries(json.blocks))
    if (!isObject(entry) || !Array.isArray(entry.shape) || !(entry.pool === undefined || Array.isArray(entry.pool)))
      throw lacks(`Block ${name} has no shape`);
  return json;
}

/** A part of a frame, of its stated length; inflation stops at that length. */
function part(
  bytes: Uint8Array,
  start: number,
  stored: number,
  size: number,
  deflated: boolean,
  what: string,
): Uint8Array<ArrayBuffer> {
  const data = bytes.subarray(start, start + stored);
  if (!(start >= TOP) || data.length !== stored) throw new Error(`${what} is cut off.`);
  if (!deflated) {
    if (stored !== size) throw new Error(`${what} is cut off.`);
    return data.slice();
  }
  if (size > MOST || size > RATIO * stored) throw new Error(`${what} claims an impossible size.`);
  let made: Uint8Array<ArrayBuffer>;
  try {
    made = unzlibSync(data, { out: new Uint8Array(size + 1) }) as Uint8Array<ArrayBuffer>; // one more byte reveals excess length
  } catch {
    throw new Error(`${what} cannot be inflated.`);
  }
  if (made.length !== size) throw new Error(`${what} is not as long as it says.`);
  return made;
}

interface Stored {
  dtype: string;
  shape: number[];
  data: (number | string | null)[];
  code?: Code;
  pool?: number[];
}

/** The frame of the readable form that the test fixtures have (`to_json` in rfnb/viz/spec.py). */
export function fromJson<H = AnyHead>(data: unknown): Frame<H> {
  const json = data as { kind: string; head: H; blocks?: Record<string, Stored> };
  const blocks: Record<string, Block> = {};
  for (const [name, { dtype, shape, data, code, pool }] of Object.entries(json.blocks ?? {})) {
    const numbers = data.map((value) =>
      value === null ? NaN : value === "inf" ? Infinity : value === "-inf" ? -Infinity : Number(value),
    );
    blocks[name] = code
      ? codedBlock(Uint8Array.from(numbers), shape, code, pool)
      : exactBlock(new ARRAYS[dtype as DType](numbers), shape);
  }
  return { kind: json.kind, head: json.head, blocks };
}
