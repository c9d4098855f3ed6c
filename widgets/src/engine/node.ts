// The engine without a page: tests and benches run it in Node (tests/viz/runnable.mjs).

import type { Named } from "./array";
import type { Inputs } from "./engine";
import { Engine, hypothesesOf } from "./engine";
import type { PageSpec, PlainFrame } from "./frames";
import { Frames } from "./frames";
import { unpack } from "../frame";
import type { Message } from "../page/host";
import { Host } from "../page/host";
import type { WeightSpec } from "../page/weights";
import { weightsOf } from "../page/weights";
import { OPS } from "./ops";
import type { LoopSpec, ProgramSpec } from "./program";
import { isLoop } from "./program";

export { WASM } from "./kernel";
export const names = Object.keys(OPS);

const plainly = ({ dims, shape, values }: Named) => ({ dims, shape, values: Array.from(values, String) });

const endOf = ({ ops }: LoopSpec) => (ops.find(({ op }) => op === "choice")?.given["end_label"] ?? 0) as number;

/** The results of a program for texts, as JSON. */
export function engine(spec: ProgramSpec, weights: (Float32Array | Int32Array)[], plain: boolean) {
  const made = new Engine(spec, weights, plain);
  return {
    missing: made.missing,
    plain: made.kernel.isPlain,
    run: (text: string, inputs: Inputs = {}) => void made.run(text, inputs),
    answer(text: string, inputs: Inputs = {}) {
      try {
        const { loops, values } = made.run(text, inputs);
        return {
          values: values.map(plainly),
          nbest: loops.map((loop, at) => hypothesesOf(loop, endOf(spec.blocks.filter(isLoop)[at]!))),
          outputs: loops.map(({ outputs }) => outputs.map((steps) => steps.map(plainly))),
        };
      } catch (error) {
        return { error: String((error as Error).message) };
      }
    },
  };
}

/** The views of a page for typed texts, as JSON. */
export function views(bytes: Uint8Array, asked: [text: string, inputs: Inputs][]) {
  const frame = unpack(bytes),
    page = frame.head as unknown as PageSpec & { weights: WeightSpec[] },
    made = new Engine(page.program, weightsOf(frame, page.weights)),
    frames = new Frames(page);
  return asked.map(([text, inputs]) => {
    const { head, blocks } = frames.of(text, made.run(text, inputs));
    return { parts: head["parts"] as object[], blocks: plain(blocks) };
  });
}
const plain = (blocks: PlainFrame["blocks"]) =>
  Object.fromEntries(
    Object.entries(blocks).map(([name, { shape, data }]) => [name, { shape, data: Array.from(data, String) }]),
  );

/** The replies of a page's host to messages, without its drawings. */
export const told = async (bytes: Uint8Array, messages: Message[]): Promise<Message[][]> =>
  (await drawn(bytes, messages)).map((all) => all.map((one) => (one.rfnb === "frame" ? { ...one, frame: null } : one)));

/** The same with it; `quiet`: nothing of it, as a page keeps nothing. */
export async function drawn(bytes: Uint8Array, messages: Message[], quiet = false): Promise<Message[][]> {
  let said: Message[] = [];
  const host = new Host((message) => said.push(message)),
    all: Message[][] = [];
  for (const message of [{ rfnb: "program", bytes }, ...messages]) {
    said = [];
    host.hear(message);
    await host.idle;
    if (quiet) continue;
    all.push(
      said.map((one) => {
        const frame = one["frame"] as PlainFrame | undefined;
        return frame ? { ...one, frame: { ...frame, blocks: plain(frame.blocks) } } : one;
      }),
    );
  }
  return all.slice(1);
}
