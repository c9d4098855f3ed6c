// The engine by itself: what tests and benches run in Node (tests/viz/runnable.mjs).

import type { Named } from "./array";
import { Engine, hypothesesOf } from "./engine";
import { OPS } from "./ops";
import type { ProgramSpec } from "./program";

export { WASM } from "./kernel";
export const names = Object.keys(OPS);

const plainly = ({ dims, shape, values }: Named) => ({ dims, shape, values: Array.from(values, String) });

/** What a program says for texts, as JSON has it. */
export function engine(spec: ProgramSpec, weights: (Float32Array | Int32Array)[], plain: boolean) {
  const made = new Engine(spec, weights, plain);
  return {
    missing: made.missing,
    plain: made.kernel.isPlain,
    answer(text: string) {
      try {
        const { loops, values } = made.run(text);
        return {
          values: values.map(plainly),
          nbest: loops.map((loop) => hypothesesOf(loop)),
          outputs: loops.map(({ outputs }) => outputs.map((steps) => steps.map(plainly))),
        };
      } catch (error) {
        return { error: String((error as Error).message) };
      }
    },
  };
}
