import { describe, expect, it } from "vitest";
import { named } from "../src/engine/array";
import { Kernel } from "../src/engine/kernel";
import type { Decided } from "../src/engine/search";
import { bestOf, choose, wayOf } from "../src/engine/search";

describe("the engine of a page", () => {
  it("multiplies in wasm as it does without, for any sizes", () => {
    const fast = new Kernel(),
      plain = new Kernel(true);
    expect([fast.isPlain, plain.isPlain]).toEqual([false, true]);
    for (const [rows, width, depth] of [
      [1, 1, 8],
      [3, 5, 16],
      [40, 33, 24],
      [2, 7, 5],
      [0, 4, 8],
      [600, 64, 8],
    ] as const) {
      const values = (count: number) => Float32Array.from({ length: count }, (_, at) => Math.sin(at * 1.7)),
        x = named([0, 1], [rows, depth], values(rows * depth)),
        weights = named([2, 1], [width, depth], values(width * depth)),
        bias = named([2], [width], values(width));
      const [one, two] = [fast, plain].map((kernel) => kernel.linear(x, weights, [1], bias));
      expect(one!.shape).toEqual([rows, width]);
      one!.values.forEach((value, at) => expect(value).toBeCloseTo(two!.values[at]!, 4));
    }
  });

  it("takes the best continuations, of equal ones the first, and lets what has ended stay", () => {
    expect([...bestOf([1, 3, 2, 3, -Infinity], 3)]).toEqual([1, 3, 2]);
    const scores = named(["beam", 7], [2, 3], Float32Array.of(-1, -2, -3, -0.5, -9, -9)),
      beams = { scores: Float32Array.of(-1, -1.2), ended: [true, false], lengths: [1, 1], counts: [1, 1] };
    const { parents, labels, scores: after } = choose(scores, 7, beams, { beam_size: 3 }, [{} as Decided]);
    expect([[...parents], [...labels]]).toEqual([[0, 1, 1], [0, 0, 1]]); // prettier-ignore
    expect([...after].map((score) => score.toFixed(2))).toEqual(["-1.00", "-1.70", "-10.20"]);
  });

  it("reads a hypothesis back along its parents", () => {
    const step = (parents: number[], labels: number[]) => ({
      parents: Int32Array.from(parents),
      labels: Int32Array.from(labels),
      scores: new Float32Array(2),
      total: new Float32Array(0),
      logs: new Float32Array(0),
      ended: [],
      width: 0,
      dims: [],
    });
    const steps = [step([0, 0], [5, 6]), step([1, 0], [7, 8]), step([1, 1], [1, 2])];
    expect(wayOf(steps, 0)).toEqual([[5, 8, 1], [0, 1, 0]]); // prettier-ignore
    expect(wayOf(steps, 1, 1)).toEqual([[5, 8], [0, 1]]); // prettier-ignore
  });
});
