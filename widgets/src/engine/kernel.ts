// Matrix products, which take nearly all of the time: in wasm (kernel.wat), or in plain JavaScript where a page forbids wasm.

import type { Axis, Named, Values } from "./array";
import { combined, named, ordered, shapeOf, sizeOf } from "./array";

/** kernel.wat, as wabt makes it. */
export const WASM =
  "AGFzbQEAAAABCQFgBX9/f39/AAMCAQAFAwEAAQcUAgZtZW1vcnkCAAdwcm9kdWN0AAAKwwEBwAECAnsCfyABIARBAnRqIQgDQP0MAAAAAAAAAAAAAAAAAAAAACEF/QwAAAAAAAAAAAAAAAAAAAAAIQYgASEHA0AgBSAA/QAEACAH/QAEAP3mAf3kASEFIAYgAP0ABBAgB/0ABBD95gH95AEhBiAAQSBqIQAgB0EgaiEHIAcgCEkNAAsgBSAG/eQBIQUgAiACKgIAIAX9HwAgBf0fAZIgBf0fAiAF/R8DkpKSOAIAIAJBBGohAiADQQFrIQMgAw0ACws=";
const PAGE = 65536; // bytes

interface Exports {
  memory: WebAssembly.Memory;
  product(weights: number, x: number, y: number, rows: number, cols: number): void;
}
/** Weights in rows, ready for multiplication; `at`: their offset in the memory of wasm. */
interface Rows {
  values: Values;
  at: number | null;
}

export class Kernel {
  private readonly wasm: Exports | null;
  private top = 0; // end of the used memory
  private readonly rows = new WeakMap<Values, Map<string, Rows>>();

  /** `plain`: do not use wasm. */
  constructor(plain = false) {
    this.wasm = plain ? null : begun();
  }

  get isPlain(): boolean {
    return !this.wasm;
  }

  /** x W + b over axes of the weights. */
  linear(x: Named, weights: Named, over: Axis[], bias?: Named | null): Named {
    const isRow = bias && weights.dims.filter((axis) => !over.includes(axis)).join() === bias.dims.join(),
      made = this.product(x, weights, over, true, isRow ? bias : null);
    return bias && !isRow ? combined(made, bias, (a, b) => a + b, false) : made;
  }

  /** Sums of products over axes, {shared, only in a, only in b}. `fixed`: b is one of the weights; `bias` is added to each row. */
  product(a: Named, b: Named, over: Axis[], fixed = false, bias: Named | null = null): Named {
    const arrays = [a, b],
      inBoth = a.dims.filter((axis) => b.dims.includes(axis) && !over.includes(axis)),
      left = a.dims.filter((axis) => !b.dims.includes(axis) && !over.includes(axis)),
      right = b.dims.filter((axis) => !a.dims.includes(axis) && !over.includes(axis)),
      inner = over.filter((axis) => a.dims.includes(axis) || b.dims.includes(axis)),
      depth = sizeOf(shapeOf(inner, arrays)),
      dims = [...inBoth, ...left, ...right],
      shape = shapeOf(dims, arrays);
    const one = ordered(a, [...inBoth, ...left, ...inner], shapeOf([...inBoth, ...left, ...inner], arrays)).values,
      order = [...inBoth, ...right, ...inner],
      two = fixed
        ? this.rowsOf(b, order, depth)
        : { values: ordered(b, order, shapeOf(order, arrays)).values, at: null };
    const outer = sizeOf(shapeOf(inBoth, arrays)),
      count = sizeOf(shapeOf(left, arrays)),
      width = sizeOf(shapeOf(right, arrays)),
      values = new Float32Array(outer * count * width);
    if (bias) for (let row = 0; row < count; row++) values.set(bias.values, row * width);
    if (two.at !== null && outer === 1) this.fast(one, two.at, values, [count, width, depth]);
    else
      for (let batch = 0; batch < outer; batch++)
        multiply(
          one.subarray(batch * count * depth),
          two.values.subarray(batch * width * depth),
          values.subarray(batch * count * width),
          [count, width, depth],
        );
    return named(dims, shape, values, Math.max(a.turn, b.turn));
  }

  /** Weights with reordered axes, cached. */
  private rowsOf(weights: Named, order: Axis[], depth: number): Rows {
    const made = this.rows.get(weights.values) ?? new Map<string, Rows>(),
      key = order.join();
    let found = made.get(key);
    if (!found) {
      const { values } = ordered(weights, order);
      found = { values, at: this.wasm && depth % 8 === 0 && depth > 0 ? this.put(values) : null };
      made.set(key, found);
      this.rows.set(weights.values, made);
    }
    return found;
  }

  private take(count: number): number {
    const at = this.top,
      { memory } = this.wasm!;
    this.top += (4 * count + 31) & ~31;
    const lacks = this.top - memory.buffer.byteLength;
    if (lacks > 0) memory.grow(Math.ceil(lacks / PAGE));
    return at;
  }

  private put(values: Values): number {
    const at = this.take(values.length);
    new Float32Array(this.wasm!.memory.buffer, at, values.length).set(values);
    return at;
  }

  private fast(x: Values, weights: number, out: Float32Array, [rows, cols, depth]: [number, number, number]): void {
    const { memory, product } = this.wasm!,
      before = this.top,
      from = this.take(depth),
      to = this.take(cols),
      given = new Float32Array(memory.buffer, from, depth),
      made = new Float32Array(memory.buffer, to, cols);
    this.top = before; // both belong to this call
    for (let row = 0; row < rows; row++) {
      const result = out.subarray(row * cols, (row + 1) * cols);
      given.set(x.subarray(row * depth, (row + 1) * depth));
      made.set(result);
      product(weights, from, to, cols, depth);
      result.set(made);
    }
  }
}

function begun(): Exports | null {
  try {
    const bytes = Uint8Array.from(atob(WASM), (letter) => letter.charCodeAt(0));
    return new WebAssembly.Instance(new WebAssembly.Module(bytes)).exports as unknown as Exports;
  } catch {
    return null; // forbidden, or too old
  }
}

/** Accumulates rows of a times rows of b, in four independent sums. */
function multiply(a: Values, b: Values, out: Float32Array, [rows, cols, depth]: [number, number, number]): void {
  const fours = depth - (depth % 4);
  for (let row = 0; row < rows; row++) {
    const begin = row * depth;
    for (let col = 0; col < cols; col++) {
      const ahead = col * depth - begin;
      let one = out[row * cols + col]!,
        two = 0,
        three = 0,
        four = 0,
        x = begin;
      for (const end = begin + fours; x < end; x += 4) {
        const y = x + ahead;
        one += a[x]! * b[y]!;
        two += a[x + 1]! * b[y + 1]!;
        three += a[x + 2]! * b[y + 2]!;
        four += a[x + 3]! * b[y + 3]!;
      }
      for (const end = begin + depth; x < end; x++) one += a[x]! * b[x + ahead]!;
      out[row * cols + col] = one + two + (three + four);
    }
  }
}
