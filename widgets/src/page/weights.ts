// The weights of a page, as coded by rfnb/viz/runnable/weights.py: in 32 or 16 bits, or in 8 bits with a scale for each row.

import type { Frame } from "../frame";

export interface WeightSpec {
  as: "float32" | "int32" | "float16" | "int8";
  row: number; // values that have a scale together
}

export function weightsOf({ blocks }: Frame, specs: readonly WeightSpec[]): (Float32Array | Int32Array)[] {
  let halves: Float32Array | null = null;
  return specs.map(({ as, row }, number) => {
    const data = blocks[`w${number}`]?.data;
    if (!data) throw new Error("Weights are missing in this page: save it again.");
    if (as === "int32") return data as Int32Array;
    if (as === "float32") return new Float32Array(together(data, 4));
    if (as === "float16") {
      const table = (halves ??= halfValues());
      return Float32Array.from(new Uint16Array(together(data, 2)), (code) => table[code]!);
    }
    const scales = blocks[`w${number}/scale`]!.data;
    return Float32Array.from(data, (code, at) => (code - 128) * scales[Math.floor(at / row)]!);
  });
}

/** Numbers stored as byte planes: all first bytes, then all second bytes, ... */
function together(planes: ArrayLike<number>, width: number): ArrayBuffer {
  const bytes = new Uint8Array(planes.length),
    count = planes.length / width;
  for (let plane = 0; plane < width; plane++)
    for (let at = 0, from = plane * count; at < count; at++) bytes[at * width + plane] = planes[from + at]!;
  return bytes.buffer;
}

/** The value of each 16-bit number (IEEE 754, binary16). */
function halfValues(): Float32Array {
  return Float32Array.from({ length: 65536 }, (_, code) => {
    const sign = code & 0x8000 ? -1 : 1,
      exponent = (code >> 10) & 31,
      rest = code & 1023;
    if (exponent === 31) return rest ? NaN : sign * Infinity;
    return sign * (exponent ? 2 ** (exponent - 15) * (1 + rest / 1024) : (2 ** -14 * rest) / 1024);
  });
}
