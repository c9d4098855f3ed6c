// The ops that a page supports, by the names of rfnb's ops. Each gets its arguments by parameter name, and introduces no dims: new dims of results
// are part of the program.

import type { Axis, Named } from "./array";
import {
  combined,
  each,
  lengthOf,
  like,
  named,
  ordered,
  picked,
  shapeOf,
  sizeOf,
  strideOf,
  turnOf,
  union,
  whole,
} from "./array";
import { prefixSearch } from "./ctc";
import type { Kernel } from "./kernel";
import type { Kind } from "./program";

export interface Call {
  /** Arrays, axes, and lists or maps of them, by parameter name. */
  given: Record<string, unknown>;
  as: Kind[];
  /** The current length of an axis. */
  size(axis: Axis): number;
  /** The product with a weight, or of two arrays. */
  kernel: Kernel;
  /** Records a value computed inside an op, by its name in a recording; returns the value to continue with. */
  offer(name: string, value: Named): Named;
}
export type Run = (call: Call) => Named[];
type Product = (a: Named, b: Named, over: Axis[]) => Named;

const sigmoid = (x: number): number => 1 / (1 + Math.exp(-x));
/** By one exponential: Math.tanh takes three times as long. */
const tanh = (x: number): number => 2 * sigmoid(2 * x) - 1;
const softplus = (x: number): number => Math.max(x, 0) + Math.log1p(Math.exp(-Math.abs(x)));
// Abramowitz and Stegun 1964, 7.1.26 is too coarse; this uses the series and the continued fraction of erf.
function erf(x: number): number {
  const far = Math.abs(x);
  if (far > 6) return Math.sign(x);
  if (far < 2.5) {
    let term = far,
      sum = far;
    for (let n = 1; Math.abs(term) > 1e-17 * Math.abs(sum); n++) {
      term *= (-far * far) / n;
      sum += term / (2 * n + 1);
    }
    return (Math.sign(x) * 2 * sum) / Math.sqrt(Math.PI);
  }
  let fraction = 0;
  for (let n = 60; n > 0; n--) fraction = n / 2 / (far + fraction);
  return Math.sign(x) * (1 - Math.exp(-far * far) / (Math.sqrt(Math.PI) * (far + fraction)));
}
/** Rounds to the nearest integer, ties to even. */
function rounded(x: number): number {
  const down = Math.floor(x),
    far = x - down;
  return far < 0.5 || (far === 0.5 && down % 2 === 0) ? down : down + 1;
}

const ONE: Record<string, (x: number) => number> = {
  abs: Math.abs,
  ceil: Math.ceil,
  cos: Math.cos,
  exp: Math.exp,
  expm1: Math.expm1,
  floor: Math.floor,
  gelu: (x) => 0.5 * x * (1 + erf(x / Math.SQRT2)),
  log: Math.log,
  log1p: Math.log1p,
  log_sigmoid: (x) => -softplus(-x),
  logical_not: (x) => Number(!x),
  neg: (x) => -x,
  reciprocal: (x) => 1 / x,
  relu: (x) => (x < 0 ? 0 : x),
  relu_square: (x) => (x < 0 ? 0 : x * x),
  round: rounded,
  rsqrt: (x) => 1 / Math.sqrt(x),
  selu: (x) => 1.0507009873554805 * (x > 0 ? x : 1.6732632423543772 * Math.expm1(x)),
  sigmoid,
  silu: (x) => x * sigmoid(x),
  sin: Math.sin,
  sqrt: Math.sqrt,
  square: (x) => x * x,
  tanh: Math.tanh,
};
const TWO: Record<string, (a: number, b: number) => number> = {
  add: (a, b) => a + b,
  sub: (a, b) => a - b,
  mul: (a, b) => a * b,
  truediv: (a, b) => a / b,
  floordiv: (a, b) => Math.floor(a / b),
  mod: (a, b) => a - Math.floor(a / b) * b,
  pow: (a, b) => a ** b,
  maximum: (a, b) => (Number.isNaN(a) || Number.isNaN(b) ? NaN : Math.max(a, b)),
  minimum: (a, b) => (Number.isNaN(a) || Number.isNaN(b) ? NaN : Math.min(a, b)),
  squared_difference: (a, b) => (a - b) ** 2,
  log_add_exp: (a, b) => {
    const top = Math.max(a, b);
    return Number.isFinite(top) ? top + Math.log1p(Math.exp(Math.min(a, b) - top)) : top;
  },
};
const WHETHER: Record<string, (a: number, b: number) => boolean> = {
  equal: (a, b) => a === b,
  not_equal: (a, b) => a !== b,
  less: (a, b) => a < b,
  less_equal: (a, b) => a <= b,
  greater: (a, b) => a > b,
  greater_equal: (a, b) => a >= b,
  logical_and: (a, b) => Boolean(a && b),
  logical_or: (a, b) => Boolean(a || b),
};

const isNamed = (value: unknown): value is Named => typeof value === "object" && value !== null && "values" in value;
const scalar = (value: number): Named =>
  named([], [], Number.isInteger(value) && Math.abs(value) < 2 ** 31 ? Int32Array.of(value) : Float32Array.of(value));
const arrayOf = (value: unknown): Named => (isNamed(value) ? value : scalar(Number(value)));

function elementwise(fn: (x: number) => number): Run {
  return ({ given, as }) => {
    const source = arrayOf(given["a"] ?? given["x"] ?? given["source"]),
      { length } = source.values,
      isWhole = as[0]!.whole,
      values = isWhole ? new Int32Array(length) : new Float32Array(length);
    for (let at = 0; at < values.length; at++)
      values[at] = isWhole ? whole(fn(source.values[at]!)) : fn(source.values[at]!);
    return [{ ...source, values, sparse: null }];
  };
}

/** Maps lines along an axis: `make` gets the values of each line and returns their replacement. */
function along(source: Named, axis: Axis, make: (line: Float64Array) => ArrayLike<number>): Named {
  const length = lengthOf(source, axis),
    stride = strideOf(source, axis),
    values = like(source.values, source.values.length),
    line = new Float64Array(length);
  for (const begin of begins(source, axis)) {
    for (let at = 0; at < length; at++) line[at] = source.values[begin + at * stride]!;
    const made = make(line);
    const isWhole = values instanceof Int32Array;
    for (let at = 0; at < length; at++) values[begin + at * stride] = isWhole ? whole(made[at]!) : made[at]!;
  }
  return { ...source, values };
}

/** The offsets of the lines along an axis. */
function begins(source: Named, axis: Axis): number[] {
  const at = source.dims.indexOf(axis),
    inner = sizeOf(source.shape.slice(at + 1)),
    step = inner * source.shape[at]!,
    found = [];
  for (let one = 0; one < source.values.length; one += step)
    for (let two = 0; two < inner; two++) found.push(one + two);
  return found;
}

/** Reduces each line along axes to one value. */
function reduced(source: Named, axes: Axis[], make: (line: Float64Array) => number, isWhole: boolean): Named {
  let found = source;
  const rest = source.dims.filter((axis) => !axes.includes(axis)),
    inner = source.dims.filter((axis) => axes.includes(axis)); // in their order
  found = ordered(source, [...rest, ...inner]);
  const shape = shapeOf(rest, [source]),
    length = source.values.length / Math.max(1, sizeOf(shape)),
    values = isWhole ? new Int32Array(sizeOf(shape)) : new Float32Array(sizeOf(shape)),
    line = new Float64Array(length);
  for (let at = 0; at < values.length; at++) {
    for (let entry = 0; entry < length; entry++) line[entry] = found.values[at * length + entry]!;
    values[at] = isWhole ? whole(make(line)) : make(line);
  }
  return named(rest, shape, values, source.turn);
}

const sum = (line: Float64Array): number => line.reduce((total, value) => total + value, 0);
const most = (line: Float64Array): number =>
  line.reduce((top, value) => (Number.isNaN(value) || value > top ? value : top), -Infinity);
function logSumExp(line: Float64Array): number {
  const top = most(line);
  return Number.isFinite(top) ? top + Math.log(line.reduce((total, value) => total + Math.exp(value - top), 0)) : top;
}
function argmax(line: Float64Array): number {
  let best = 0;
  for (let at = 1; at < line.length; at++) if (line[at]! > line[best]!) best = at;
  return best;
}
const REDUCE: Record<string, (line: Float64Array) => number> = {
  reduce_sum: sum,
  reduce_mean: (line) => sum(line) / Math.max(1, line.length), // of nothing 0
  reduce_max: most,
  reduce_min: (line) => -most(line.map((value) => -value)),
  reduce_logsumexp: logSumExp,
  reduce_any: (line) => Number(line.some(Boolean)),
  reduce_all: (line) => Number(line.every(Boolean)),
  reduce_argmax: argmax,
};

/** The positions of entries in descending order, NaN first. */
function sorted(line: Float64Array): number[] {
  const rank = (at: number) => (Number.isNaN(line[at]!) ? Infinity : line[at]!);
  return Array.from(line, (_, at) => at).sort((a, b) => (rank(a) === rank(b) ? a - b : rank(b) - rank(a)));
}

function softmax(source: Named, axis: Axis, log: boolean): Named {
  return along(source, axis, (line) => {
    const top = most(line);
    let total = 0;
    for (let at = 0; at < line.length; at++) total += Math.exp((line[at]! -= top));
    const less = Math.log(total); // of the rest only: a large maximum would absorb it
    for (let at = 0; at < line.length; at++) line[at] = log ? line[at]! - less : Math.exp(line[at]!) / total;
    return line;
  });
}

/** Queries, keys, values, their weights: Vaswani et al. 2017, equation (1). */
function attended(
  product: Product,
  [query, keys, values]: [Named, Named, Named],
  key: Axis,
  axis: Axis,
  scale: number,
  offer: Call["offer"],
): [Named, Named] {
  const energy = product(query, keys, [key]);
  const weights = offer(
    "weights",
    softmax({ ...energy, values: energy.values.map((value) => value * scale) }, axis, false),
  );
  return [product(weights, values, [axis]), weights];
}

const GATES = ["input_gate", "forget_gate", "cell_input", "output_gate"];

/** One step of an LSTM: h, c and the gates; `ahead`: the input's contribution to the gates. */
function lstmStep(kernel: Kernel, ahead: Named, h: Named, c: Named, recurrent: Named): Named[] {
  const [gates, unit] = recurrent.dims as [Axis, Axis],
    back = kernel.product(h, recurrent, [unit], true),
    arrays = [ahead, back, c],
    rest = union(arrays.map((array) => without(without(array, gates), unit))),
    outer = shapeOf(rest, arrays),
    size = sizeOf(outer),
    units = lengthOf(h, unit),
    [one, two] = [ahead, back].map((array) => ordered(array, [...rest, gates], [...outer, 4 * units]).values),
    before = ordered(c, [...rest, unit], [...outer, units]).values,
    made = Array.from({ length: 2 + GATES.length }, () => new Float32Array(size * units)),
    [out, cell, input, forget, into, open] = made as [Values32, Values32, Values32, Values32, Values32, Values32];
  for (let row = 0; row < size; row++)
    for (let at = row * units, end = at + units, gate = 4 * at; at < end; at++, gate++) {
      input[at] = sigmoid(one![gate]! + two![gate]!);
      forget[at] = sigmoid(one![gate + units]! + two![gate + units]!);
      into[at] = tanh(one![gate + 2 * units]! + two![gate + 2 * units]!);
      open[at] = sigmoid(one![gate + 3 * units]! + two![gate + 3 * units]!);
      cell[at] = forget[at]! * before[at]! + input[at]! * into[at]!;
      out[at] = open[at]! * tanh(cell[at]!);
    }
  return made.map((values) => named([...rest, unit], [...outer, units], values, turnOf(arrays)));
}
type Values32 = Float32Array;

const LSTM: Run = ({ given, kernel, offer }) => {
  const source = given["source"] as Named,
    { h, c } = given["state"] as { h: Named; c: Named },
    recurrent = given["rec_weight"] as Named,
    time = given["spatial_dim"] as Axis,
    into = given["ff_weight"] as Named,
    ahead = kernel.linear(source, into, [given["in_dim"] as Axis], given["bias"] as Named | undefined);
  if (time === "single") {
    const [out, cell, ...gates] = lstmStep(kernel, ahead, h, c, recurrent);
    gates.forEach((gate, at) => offer(GATES[at]!, gate));
    return [out!, out!, cell!];
  }
  let [out, cell] = [h, c];
  const steps: Named[][] = [];
  for (let at = 0; at < lengthOf(source, time); at++) {
    const made = lstmStep(kernel, without(picked(ahead, time, [at]), time), out, cell, recurrent);
    [out, cell] = made as [Named, Named];
    steps.push(made);
  }
  const over = ["h", "c", ...GATES].map((name, part) =>
    offer(
      name,
      stacked(
        steps.map((made) => made[part]!),
        time,
      ),
    ),
  );
  return [over[0]!, out, cell];
};

/** Drops an axis of length 1. */
export function without(array: Named, axis: Axis): Named {
  const at = array.dims.indexOf(axis);
  return at < 0
    ? array
    : {
        ...array,
        dims: array.dims.filter((_, index) => index !== at),
        shape: array.shape.filter((_, index) => index !== at),
      };
}

/** Stacks arrays with the same axes along a new one; `first`: a template. */
export function stacked(parts: Named[], axis: Axis, first = parts[0]!): Named {
  const size = first.values.length,
    values = like(first.values, size * parts.length);
  parts.forEach((part, at) => values.set(ordered(part, first.dims).values, at * size));
  return named([axis, ...first.dims], [parts.length, ...first.shape], values, first.turn, first.sparse);
}

/** Concatenates arrays, each along its own axis, to `out`. */
function joined(pairs: [Named, Axis][], out: Axis): Named {
  const sources = pairs.map(([source]) => source),
    rest = union(pairs.map(([source, axis]) => without(source, axis))),
    shape = shapeOf(rest, sources),
    rows = sizeOf(shape),
    lengths = pairs.map(([source, axis]) => lengthOf(source, axis)),
    width = lengths.reduce((total, length) => total + length, 0),
    values = like(sources[0]!.values, rows * width);
  let begin = 0;
  pairs.forEach(([source, axis], at) => {
    const length = lengths[at]!,
      own = ordered(source, [...rest, axis], [...shape, length]).values;
    for (let row = 0; row < rows; row++)
      values.set(own.subarray(row * length, (row + 1) * length), row * width + begin);
    begin += length;
  });
  return named([...rest, out], [...shape, width], values, turnOf(sources));
}

function filled(call: Call, value: number): Named[] {
  const [{ dims, sparse, whole }] = call.as as [Kind],
    shape = dims.map((axis) => call.size(axis)),
    values = whole ? new Int32Array(sizeOf(shape)) : new Float32Array(sizeOf(shape));
  return [named(dims, shape, values.fill(value), 0, sparse)];
}

/** The targets of indices; null if the source is empty. */
function placesIn({ values }: Named, length: number, given: Record<string, unknown>): ArrayLike<number> | null {
  if (given["clip_to_valid"]) return length ? values.map((index) => Math.min(Math.max(index, 0), length - 1)) : null;
  const found = typeof given["indices"] === "number" && values[0]! < 0 ? [values[0]! + length] : values,
    wrong = found.find((index) => !(index >= 0 && index < length));
  if (wrong !== undefined) throw new Error(`For this text there is no entry ${wrong}: there are ${length}.`);
  return found;
}

const axesOf = (axis: unknown): Axis[] => (Array.isArray(axis) ? axis : [axis]) as Axis[];
const renamed = (source: Named, from: Axis, to: Axis): Named => ({
  ...source,
  dims: source.dims.map((axis) => (axis === from ? to : axis)),
});

export const OPS: Record<string, Run> = {
  ...Object.fromEntries(Object.entries(ONE).map(([name, fn]) => [name, elementwise(fn)])),
  ...Object.fromEntries(
    Object.entries(TWO).map(([name, fn]): [string, Run] => [
      name,
      ({ given, as }) => [combined(arrayOf(given["a"]), arrayOf(given["b"]), fn, as[0]!.whole)],
    ]),
  ),
  ...Object.fromEntries(
    Object.entries(WHETHER).map(([name, fn]): [string, Run] => [
      name,
      ({ given }) => [combined(arrayOf(given["a"]), arrayOf(given["b"]), (a, b) => Number(fn(a, b)), true)],
    ]),
  ),
  ...Object.fromEntries(
    Object.entries(REDUCE).map(([name, fn]): [string, Run] => [
      name,
      ({ given, as }) => [
        { ...reduced(given["source"] as Named, axesOf(given["axis"]), fn, as[0]!.whole), sparse: as[0]!.sparse },
      ],
    ]),
  ),
  cast: ({ given }) => {
    const source = given["tensor"] as Named,
      type = String(given["dtype"]);
    if (type.startsWith("float")) return [{ ...source, values: Float32Array.from(source.values) }];
    return [
      {
        ...source,
        values: Int32Array.from(source.values, (value) =>
          type === "bool" ? Number(value !== 0) : whole(Math.trunc(value)),
        ),
      },
    ];
  },
  identity: ({ given }) => [given["x"] as Named],
  softmax: ({ given }) => [softmax(given["a"] as Named, given["axis"] as Axis, false)],
  log_softmax: ({ given }) => [softmax(given["a"] as Named, given["axis"] as Axis, true)],
  cumsum: ({ given }) => [
    along(given["source"] as Named, given["spatial_dim"] as Axis, (line) => {
      for (let at = 1; at < line.length; at++) line[at]! += line[at - 1]!;
      return line;
    }),
  ],
  reverse_sequence: ({ given }) => [
    along(given["tensor"] as Named, given["axis"] as Axis, (line) => line.slice().reverse()),
  ],
  gather: ({ given }) => {
    const source = given["source"] as Named,
      indices = arrayOf(given["indices"]),
      axis = (given["axis"] ?? indices.sparse) as Axis,
      rest = source.dims.filter((one) => one !== axis),
      dims = [...indices.dims, ...rest.filter((one) => !indices.dims.includes(one))],
      shape = shapeOf(dims, [indices, source]),
      stride = strideOf(source, axis),
      values = like(source.values, sizeOf(shape)),
      at = placesIn(indices, lengthOf(source, axis), given);
    if (at)
      each(dims, shape, [indices, renamed(source, axis, "single")], (places, entry) => {
        values[entry] = source.values[places[1]! + at[places[0]!]! * stride]!;
      });
    return [named(dims, shape, values, turnOf([indices, source]))];
  },
  linear: ({ given, kernel }) => {
    const { source, weight, bias } = given as Record<string, Named>;
    return [kernel.linear(source!, weight!, axesOf(given["reduce"]), bias)];
  },
  matmul: ({ given, kernel }) => [kernel.product(given["a"] as Named, given["b"] as Named, axesOf(given["reduce"]))],
  dot_attention: ({ given, size, kernel, offer }) => {
    const key = given["key_dim"] as Axis,
      scale = (given["scale"] as number | undefined) ?? Math.max(size(key), 1) ** -0.5;
    const { query, keys, values } = given as Record<string, Named>;
    return attended(
      (a, b, over) => kernel.product(a, b, over),
      [query!, keys!, values!],
      key,
      given["axis"] as Axis,
      scale,
      offer,
    );
  },
  /** Attention weights, recorded and edited. */
  attended: ({ given, offer }) => [offer("weights", given["weights"] as Named)],
  LSTM,
  ctc_prefix_beam_search: ({ given, as, size }) => prefixSearch(given, as, size),
  concat: ({ given }) => [joined(given["sources"] as [Named, Axis][], given["out_dim"] as Axis)],
  split: ({ given, size }) => {
    const source = given["source"] as Named,
      axis = given["axis"] as Axis;
    let begin = 0;
    return (given["out_dims"] as Axis[]).map((out) => {
      const entries = Array.from({ length: size(out) }, (_, at) => begin + at);
      begin += entries.length;
      return renamed(picked(source, axis, entries), axis, out);
    });
  },
  slice: ({ given }) => {
    const { source, axis, out_dim: out } = given as { source: Named; axis: Axis; out_dim: Axis },
      length = lengthOf(source, axis),
      inside = (at: number) => Math.min(Math.max(at < 0 ? length + at : at, 0), length),
      [start, end, size, step] = ["start", "end", "size", "step"].map((name) => given[name] as number | undefined),
      begin = inside(start ?? 0),
      last = size === undefined ? inside(end ?? length) : Math.min(begin + size, length),
      count = Math.max(0, Math.ceil((last - begin) / (step ?? 1)));
    return [
      renamed(
        picked(
          source,
          axis,
          Array.from({ length: count }, (_, at) => begin + at * (step ?? 1)),
        ),
        axis,
        out,
      ),
    ];
  },
  top_k: ({ given, size }) => {
    const source = given["source"] as Named,
      axis = given["axis"] as Axis,
      out = given["out_dim"] as Axis,
      entries = Array.from({ length: size(out) }, (_, at) => at);
    const places = along(source, axis, sorted),
      best = along(source, axis, (line) => sorted(line).map((at) => line[at]!));
    return [best, { ...places, values: Int32Array.from(places.values) }].map((all) =>
      renamed(picked(all, axis, entries), axis, out),
    );
  },
  expand_dim: ({ given, size }) => {
    const source = given["source"] as Named,
      dim = given["dim"] as Axis;
    return [ordered(source, [...source.dims, dim], [...source.shape, size(dim)])];
  },
  split_dims: ({ given, size }) => {
    const source = given["source"] as Named,
      dims = given["dims"] as Axis[],
      split = (axis: Axis): Axis[] => (axis === given["axis"] ? dims : [axis]),
      made = source.dims.flatMap(split);
    return [
      { ...source, dims: made, shape: made.map((axis) => (dims.includes(axis) ? size(axis) : lengthOf(source, axis))) },
    ];
  },
  merge_dims: ({ given }) => {
    const { source, dims, out_dim: out } = given as { source: Named; dims: Axis[]; out_dim: Axis },
      rest = source.dims.filter((axis) => !dims.includes(axis)),
      made = ordered(source, [...rest, ...dims]);
    return [{ ...made, dims: [...rest, out], shape: [...shapeOf(rest, [source]), sizeOf(shapeOf(dims, [source]))] }];
  },
  /** The same array with other axis names. */
  named: ({ given }) => {
    const source = given["source"] as Named,
      [from, to] = [given["from"], given["to"]] as [Axis[], Axis[]];
    return [{ ...source, dims: source.dims.map((axis) => to[from.indexOf(axis)] ?? axis) }];
  },
  squeeze: ({ given }) => [without(given["source"] as Named, given["axis"] as Axis)],
  zeros: (call) => filled(call, 0),
  zeros_like: (call) => {
    const other = call.given["other"] as Named;
    return [{ ...other, values: like(other.values, other.values.length) }];
  },
  ones: (call) => filled(call, 1),
  ones_like: (call) => {
    const other = call.given["other"] as Named;
    return [{ ...other, values: like(other.values, other.values.length).fill(1) }];
  },
  full: (call) => filled(call, Number(call.given["fill_value"])),
  range_over_dim: ({ given, size }) => {
    const axis = given["dim"] as Axis;
    return [
      named(
        [axis],
        [size(axis)],
        Int32Array.from({ length: size(axis) }, (_, at) => at),
        0,
        axis,
      ),
    ];
  },
  copy_compatible_to_dims: ({ given }) => [given["self"] as Named],
  copy_transpose: ({ given }) => [given["self"] as Named],
  stop_gradient: ({ given }) => [(given["source"] ?? given["x"]) as Named],
  set_sparse_dim: ({ given, as }) => [{ ...(given["source"] as Named), sparse: as[0]!.sparse }],
  replace_dim: ({ given }) => [renamed(given["source"] as Named, given["in_dim"] as Axis, given["out_dim"] as Axis)],
  where: ({ given, as }) => {
    const arrays = [given["cond"] ?? given["condition"], given["true_"], given["false_"]].map(arrayOf),
      [cond, one, other] = arrays as [Named, Named, Named],
      dims = union(arrays),
      shape = shapeOf(dims, arrays),
      values = as[0]!.whole ? new Int32Array(sizeOf(shape)) : new Float32Array(sizeOf(shape));
    each(dims, shape, arrays, (places, entry) => {
      values[entry] = cond.values[places[0]!] ? one.values[places[1]!]! : other.values[places[2]!]!;
    });
    return [named(dims, shape, values, turnOf(arrays), as[0]!.sparse)];
  },
};
