// An array with named axes: the numbers of dims of a program, or "beam" for the hypotheses of a search.

export type Axis = number | "beam" | "single";
export type Values = Float32Array | Int32Array;

export interface Named {
  dims: Axis[];
  shape: number[];
  values: Values;
  sparse: Axis | null; // the axis that its values index
  turn: number; // the number of choices in the step before it, if it has hypotheses
}

/** An integer, unchanged; an error if it does not fit in 32 bits. */
export function whole(value: number): number {
  if (Math.abs(value) > MOST)
    throw new Error("For this text the model has integers of more than 32 bits, which a page does not have.");
  return value;
}
const MOST = 2 ** 31 - 1;

export const sizeOf = (shape: readonly number[]): number => shape.reduce((size, each) => size * each, 1);

export const named = (dims: Axis[], shape: number[], values: Values, turn = 0, sparse: Axis | null = null): Named => ({
  dims,
  shape,
  values,
  sparse,
  turn,
});

/** The length of an axis; 1 if an array lacks it. */
export function lengthOf({ dims, shape }: Named, axis: Axis): number {
  const at = dims.indexOf(axis);
  return at < 0 ? 1 : shape[at]!;
}

/** The stride along an axis; 0 if an array lacks it. */
export function strideOf({ dims, shape }: Named, axis: Axis): number {
  const at = dims.indexOf(axis);
  return at < 0 ? 0 : sizeOf(shape.slice(at + 1));
}

/** The union of the axes of arrays, in the order of the array with the most. */
export function union(arrays: readonly Named[]): Axis[] {
  const [first, ...others] = [...arrays].sort((a, b) => b.dims.length - a.dims.length);
  const dims = [...(first?.dims ?? [])];
  for (const { dims: more } of others) for (const axis of more) if (!dims.includes(axis)) dims.push(axis);
  return dims;
}

/** The shape of axes, with sizes from the first array that has each. */
export const shapeOf = (dims: readonly Axis[], arrays: readonly Named[]): number[] =>
  dims.map((axis) => {
    const of = arrays.find((array) => array.dims.includes(axis));
    return of ? lengthOf(of, axis) : 1;
  });

/** Calls `at` with the offsets of each entry of `dims` in all arrays. */
export function each(
  dims: readonly Axis[],
  shape: readonly number[],
  arrays: readonly Named[],
  at: (places: Int32Array, index: number) => void,
): void {
  const strides = arrays.map((array) => dims.map((axis) => strideOf(array, axis))),
    places = new Int32Array(arrays.length),
    index = new Int32Array(dims.length),
    size = sizeOf(shape);
  for (let entry = 0; entry < size; entry++) {
    at(places, entry);
    for (let axis = dims.length - 1; axis >= 0; axis--) {
      index[axis]!++;
      for (let one = 0; one < arrays.length; one++) places[one]! += strides[one]![axis]!;
      if (index[axis]! < shape[axis]!) break;
      for (let one = 0; one < arrays.length; one++) places[one]! -= strides[one]![axis]! * shape[axis]!;
      index[axis] = 0;
    }
  }
}

/** The same values with axes in this order; an axis that the array lacks is added with the given size. */
export function ordered(array: Named, dims: Axis[], shape = shapeOf(dims, [array])): Named {
  if (dims.length === array.dims.length && dims.every((axis, at) => axis === array.dims[at])) return array;
  const long = dims.filter((_, at) => shape[at] !== 1),
    own = array.dims.filter((_, at) => array.shape[at] !== 1);
  if (long.length === own.length && long.every((axis, at) => axis === own[at])) return { ...array, dims, shape };
  const values = like(array.values, sizeOf(shape));
  each(dims, shape, [array], (places, entry) => {
    values[entry] = array.values[places[0]!]!;
  });
  return named(dims, shape, values, array.turn, array.sparse);
}

export const like = (values: Values, size: number): Values =>
  values instanceof Int32Array ? new Int32Array(size) : new Float32Array(size);

/** Slices along an axis. */
export function picked(array: Named, axis: Axis, entries: ArrayLike<number>): Named {
  const at = array.dims.indexOf(axis);
  if (at < 0) return array;
  const inner = sizeOf(array.shape.slice(at + 1)),
    outer = sizeOf(array.shape.slice(0, at)),
    length = array.shape[at]!,
    values = like(array.values, outer * entries.length * inner);
  for (let one = 0; one < outer; one++)
    for (let entry = 0; entry < entries.length; entry++) {
      const from = (one * length + entries[entry]!) * inner;
      values.set(array.values.subarray(from, from + inner), (one * entries.length + entry) * inner);
    }
  const shape = [...array.shape];
  shape[at] = entries.length;
  return { ...array, shape, values };
}

/** The last turn of arrays. */
export const turnOf = (arrays: readonly Named[]): number =>
  arrays.reduce((turn, array) => Math.max(turn, array.turn), 0);

/** An elementwise function of two arrays; `isWhole`: its results are integers. */
export function combined(a: Named, b: Named, own: (a: number, b: number) => number, isWhole: boolean): Named {
  const arrays = [a, b],
    dims = union(arrays),
    shape = shapeOf(dims, arrays),
    values = isWhole ? new Int32Array(sizeOf(shape)) : new Float32Array(sizeOf(shape)),
    fn = isWhole ? (a: number, b: number) => whole(own(a, b)) : own,
    [one, two] = [a.values, b.values];
  if (one.length === two.length && one.length === values.length && isEnd(a.dims, dims) && isEnd(b.dims, dims))
    for (let at = 0; at < values.length; at++) values[at] = fn(one[at]!, two[at]!);
  else if (isEnd(a.dims, dims) && isEnd(b.dims, dims) && values.length)
    for (let at = 0; at < values.length; at++) values[at] = fn(one[at % one.length]!, two[at % two.length]!);
  else
    each(dims, shape, arrays, (places, entry) => {
      values[entry] = fn(one[places[0]!]!, two[places[1]!]!);
    });
  return named(dims, shape, values, turnOf(arrays));
}

/** Whether axes are the last ones of another list. */
const isEnd = (dims: readonly Axis[], of: readonly Axis[]): boolean =>
  dims.every((axis, at) => axis === of[of.length - dims.length + at]);
