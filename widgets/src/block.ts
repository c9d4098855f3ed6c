// A block of a frame: values stored as they are, or coded, with one byte for one or several values. The mirror image of rfnb/viz/code.py.

export type Numbers = Float64Array | Float32Array | Int32Array | Uint8Array;

/** The code of the bytes; `pool`: by axis, the number of values that share a byte. */
export interface Code {
  kind: "sqrt" | "linear";
  low: number;
  high: number;
}

/**
 * `shape` is that of the values in the kernel. `exact`: whether the values here equal those; otherwise they are approximate, and a number shown as text comes
 * from `ctx.exact`, or is marked "about".
 */
export interface Block {
  readonly shape: number[];
  readonly exact: boolean;
  /** The stored array, of `storedShape`: the values, or bytes as indices into `table`. */
  readonly data: Numbers;
  readonly storedShape: number[];
  readonly pool: number[];
  readonly table: Float32Array | null;
  readonly code: Code | null;
  /** The value at a flat index over `shape`. */
  value(index: number): number;
  /** The value of a block of three axes. Fast: for loops over all cells. */
  at(first: number, second: number, third: number): number;
}

const LEVELS = 252,
  MINUS = 253,
  PLUS = 254,
  NONE = 255;

/** Uncoded values. */
export function exactBlock(data: Numbers, shape: number[]): Block {
  const [, rows = 1, cols = 1] = shape;
  return {
    shape,
    exact: true,
    data,
    storedShape: shape,
    pool: shape.map(() => 1),
    table: null,
    code: null,
    value: (index) => data[index]!,
    at: (first, second, third) => data[(first * rows + second) * cols + third]!,
  };
}

/** Coded bytes; throws a sentence if the code is unknown. */
export function codedBlock(data: Uint8Array, shape: number[], code: Code, pool = shape.map(() => 1)): Block {
  const { kind, low, high } = code;
  if ((kind !== "sqrt" && kind !== "linear") || !Number.isFinite(low) || !Number.isFinite(high))
    throw new Error("A block has a code that this version of rfnb cannot read.");
  const table = new Float32Array(256);
  for (let level = 0; level <= LEVELS; level++) {
    const share = level / LEVELS;
    table[level] = low + (high - low) * (kind === "sqrt" ? share * share : share);
  }
  [table[MINUS], table[PLUS], table[NONE]] = [-Infinity, Infinity, NaN];
  const storedShape = storedShapeOf(shape, pool);
  const [, rows = 1, cols = 1] = storedShape;
  const [one = 1, two = 1, three = 1] = pool;
  const pooled = pool.some((factor) => factor > 1);
  return {
    shape,
    exact: false,
    data,
    storedShape,
    pool,
    table,
    code,
    value: pooled
      ? (index) => {
          let at = 0,
            stride = 1,
            rest = index;
          for (let axis = shape.length - 1; axis >= 0; axis--) {
            const size = shape[axis]!;
            at += Math.floor((rest % size) / pool[axis]!) * stride;
            stride *= storedShape[axis]!;
            rest = Math.floor(rest / size);
          }
          return table[data[at]!]!;
        }
      : (index) => table[data[index]!]!,
    at: pooled
      ? (first, second, third) =>
          table[data[(((first / one) | 0) * rows + ((second / two) | 0)) * cols + ((third / three) | 0)]!]!
      : (first, second, third) => table[data[(first * rows + second) * cols + third]!]!,
  };
}

export const storedShapeOf = (shape: number[], pool: number[]): number[] =>
  shape.map((size, axis) => Math.ceil(size / (pool[axis] ?? 1)));
