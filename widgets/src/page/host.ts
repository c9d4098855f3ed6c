// What a kernel is for a live view, in the page itself: it runs the program for what is typed and tells the views, by the same messages. It is in a
// worker where the browser allows one, else in the page; there it works in short pieces, so that the page never hangs.

import { Engine } from "../engine/engine";
import type { Inputs, Result } from "../engine/engine";
import type { PageSpec } from "../engine/frames";
import { Frames } from "../engine/frames";
import { hypothesesOf } from "../engine/engine";
import { unpack } from "../frame";
import type { WeightSpec } from "./weights";
import { weightsOf } from "./weights";

const PIECE = 12; // ms of work at once

/** What is typed into the fields of a page. */
export interface Typed {
  text: string;
  inputs: Inputs;
}
export type Message = { rfnb: string } & Record<string, unknown>;

export class Host {
  private engine: Engine | null = null;
  private frames: Frames | null = null;
  private newest = 0; // the number of what was typed last

  constructor(private readonly say: (message: Message, moved?: Transferable[]) => void) {}

  hear(message: Message): void {
    try {
      if (message.rfnb === "program") this.load(message["bytes"] as Uint8Array);
      if (message.rfnb === "typed") void this.run(message as unknown as Typed);
    } catch (error) {
      this.fail(error);
    }
  }

  private load(bytes: Uint8Array): void {
    const frame = unpack(bytes),
      page = frame.head as unknown as PageSpec & { weights: WeightSpec[] };
    this.engine = new Engine(page.program, weightsOf(frame, page.weights));
    this.frames = new Frames(page);
    if (this.engine.missing.length)
      throw new Error(`This page needs what its engine does not have: ${this.engine.missing.join(", ")}.`);
    this.say({ rfnb: "ready", wasm: !this.engine.kernel.isPlain });
  }

  private async run(typed: Typed): Promise<void> {
    const own = ++this.newest;
    if (!this.engine || !this.frames) return;
    try {
      const begin = performance.now(),
        result = await this.worked(typed, () => own !== this.newest);
      if (!result) return; // something newer was typed
      const frame = this.frames.of(typed.text, result);
      this.say({ rfnb: "frame", frame, typed, ms: performance.now() - begin, said: this.words(result) });
    } catch (error) {
      if (own === this.newest) this.fail(error);
    }
  }

  /** The result; null where it is not wanted any more. */
  private async worked({ text, inputs }: Typed, stop: () => boolean): Promise<Result | null> {
    const work = this.engine!.work(text, inputs);
    for (;;) {
      const until = performance.now() + PIECE;
      while (performance.now() < until) {
        const { done, value } = work.next();
        if (done) return value;
      }
      await new Promise((go) => setTimeout(go));
      if (stop()) return null;
    }
  }

  /** How many steps it took, and whether the search came to an end. */
  private words({ loops }: Result): string {
    const search = loops.find(({ steps }) => steps.length);
    if (!search) return "";
    const [best] = hypothesesOf(search);
    return `${search.made} steps, ${best?.ended ? `score ${best.score.toFixed(3)}` : "no end was found"}`;
  }

  private fail(error: unknown): void {
    const own = (error as Error)?.constructor === Error;
    if (!own) console.warn("rfnb:", error);
    this.say({ rfnb: "failed", words: own ? (error as Error).message : "Its data is damaged: save the page again." });
  }
}
