// The counterpart of a kernel in the page: runs the program for the typed text and updates the views, with the same messages. It is in a
// worker where the browser allows one; in the page it works in short pieces, so that the page stays responsive.

import type { Change } from "../engine/changes";
import type { Inputs, Result } from "../engine/engine";
import { Engine, hypothesesOf } from "../engine/engine";
import type { PageSpec } from "../engine/frames";
import { Frames } from "../engine/frames";
import { isLoop } from "../engine/program";
import { unpack } from "../frame";
import { minus } from "../number";
import type { Command, RunState } from "../run";
import { besides } from "./comparison";
import type { Branch } from "./branches";
import { entryOf, laneOf, verdict } from "./branches";
import type { WeightSpec } from "./weights";
import { weightsOf } from "./weights";
import type { Why } from "./why_not";
import { told as whyTold, whyNot } from "./why_not";

const PIECE = 12, // ms of work at once
  MOST = 200; // runs of a tree

/** The input in the fields of a page. */
export interface Typed {
  text: string;
  inputs: Inputs;
}
export type Message = { rfnb: string } & Record<string, unknown>;
interface Asked extends Command {
  path: string;
  nth?: number;
  step: number;
  then: Command[];
  name?: string;
}

export class Host {
  private engine: Engine | null = null;
  private frames: Frames | null = null;
  private newest = 0; // the number of the latest input
  private count = 0; // of runs
  private serial = 0;
  private typed: Typed = { text: "", inputs: {} };
  private branches: Branch[] = []; // the first one is the typed run
  private shown: Branch | null = null;
  private beside: Branch | null = null; // the branch to compare with
  private why: Why | null = null; // the answer for the displayed one
  private readonly gone = new Set<unknown>(); // ghosts that are no longer shown
  private work = Promise.resolve(); // one thing after another
  private running = Promise.resolve();
  private asking = Promise.resolve();

  constructor(private readonly say: (message: Message) => void) {}

  hear(message: Message): void {
    try {
      if (message.rfnb === "program")
        this.load(message["bytes"] as Uint8Array, message["first"] as string[] | undefined);
      if (message.rfnb === "typed") this.running = this.run(message as unknown as Typed);
      if (message.rfnb === "do") this.obey(message);
    } catch (error) {
      this.fail(error);
    }
  }

  /** Resolves when all requests so far are done. */
  get idle(): Promise<unknown> {
    return Promise.all([this.running, this.work]).then(() => this.asking);
  }

  /** `first`: the kinds of views in order; others are folded. */
  private load(bytes: Uint8Array, first?: string[]): void {
    const frame = unpack(bytes),
      page = frame.head as unknown as PageSpec & { weights: WeightSpec[] };
    this.engine = new Engine(page.program, weightsOf(frame, page.weights));
    const rank = ({ kind }: { kind: string }) => first!.indexOf(kind) >>> 0;
    if (first)
      page.parts
        .sort((a, b) => rank(a) - rank(b))
        .forEach((part) => (part.head["folded"] = !first.includes(part.kind)));
    this.frames = new Frames(page);
    if (this.engine.missing.length)
      throw new Error(`The engine of this page lacks these ops: ${this.engine.missing.join(", ")}.`);
    this.say({ rfnb: "ready", wasm: !this.engine.kernel.isPlain });
  }

  private async run({ text, inputs }: Typed): Promise<void> {
    const own = ++this.newest;
    if (!this.engine || !this.frames) return;
    try {
      const result = await this.worked({ text, inputs }, [], () => own !== this.newest);
      if (!result) return; // there is newer input
      this.typed = { text, inputs };
      this.branches = [];
      this.beside = this.why = null;
      this.add(text, null, null, [], result);
      this.show(this.branches[0]!);
    } catch (error) {
      if (own === this.newest) this.fail(error);
    }
  }

  private add(name: string, parent: Branch | null, change: Change | null, changes: Change[], result: Result): Branch {
    const seq = this.frames!.search(result)?.seq ?? null,
      made: Branch = { number: ++this.count, name, parent, change, changes, result, seq };
    this.branches.push(made);
    return made;
  }

  /** Draws a run, or both. */
  private show(branch: Branch): void {
    if (this.shown !== branch) this.why = null;
    if (this.beside === branch || !this.branches.includes(this.beside!)) this.beside = null;
    this.shown = branch;
    const { frames, beside, typed } = this,
      own = frames!.parts(typed.text, branch.result),
      parts = beside ? besides(own, frames!.parts(typed.text, beside.result), [branch.name, beside.name]) : own,
      frame = frames!.together(typed.text, parts, beside ? [] : branch.changes, this.state(branch));
    this.say({ rfnb: "frame", frame, typed: this.typed, said: this.words(branch.result, typed.text) });
  }

  /** The state of a run, as rfnb/viz/control/spec.py has it. */
  private state({ number, name, result, changes }: Branch): RunState {
    const made = result.loops[this.frames!.loopOnView ?? -1]?.made ?? 0,
      spec = this.engine!.spec.blocks.filter(isLoop),
      last = result.loops.at(-1);
    return {
      title: name,
      live: false,
      serial: ++this.serial,
      run: number,
      state: "done",
      words: `Done${made ? ` after ${steps(made)}` : ""}${changes.length ? ", changed by hand" : ""}.`,
      counter: "",
      at: last ? { path: spec.at(-1)!.path, step: last.made - 1, nth: 0, of: null } : null,
      changed: [],
      steps: made,
      speed: 0,
      loops: result.loops.map(({ made }, at) => ({
        path: spec[at]!.path,
        last: made - 1,
        runs: 1,
        axis: this.frames!.axisOf(at),
      })),
      points: [],
      runs: this.branches.map(entryOf),
      beside: this.beside?.number ?? null,
      note: "",
      why: this.why && whyTold(this.why),
    };
  }

  /** Executes a command of rfnb/control/commands.py; a sentence if a page cannot. */
  private obey(message: Message): void {
    const { id, do: name, run } = message,
      answer = (said: string | null) => this.say({ rfnb: "did", id, said });
    this.work = this.work.then(async () => {
      try {
        const shown = this.shown;
        if (name === "look" || name === "unlook" || !shown) return answer(null);
        if (name === "unghost") return answer((this.gone.add(message["of"]), null));
        if (run !== undefined && run !== shown.number && !["follow", "let_go", "compare"].includes(String(name)))
          return answer("This request was for another branch.");
        if (name === "ghost") return await this.ghost(shown, message as unknown as Asked, id, answer);
        if (name === "edit") await this.keep(shown, message as unknown as Asked);
        else if (name === "move") await this.move(message["number"], message["step"] as number);
        else if (name === "follow") {
          this.beside = null;
          this.show(this.numbered(message["number"]));
        } else if (name === "compare") this.compare(this.numbered(message["number"]));
        else if (name === "why") this.asking = this.ask(shown, String(message["expected"] ?? "").trim());
        else if (name === "repair") await this.repair(shown, message["number"] as number);
        else if (name === "let_go") this.letGo(this.numbered(message["number"]));
        else return answer(NOT_HERE[String(name)] ?? "A page cannot do this: it needs a kernel.");
        answer(null);
      } catch (error) {
        answer((error as Error).message);
      }
    });
  }

  private compare(branch: Branch): void {
    this.beside = branch === this.beside ? null : branch;
    this.show(this.shown!);
  }

  /** Finds why a run missed the expected result; a new question or input cancels it. */
  private async ask(shown: Branch, expected: string): Promise<void> {
    const search = this.frames!.search(shown.result),
      typed = this.typed;
    let own: Why = (this.why = { expected, text: "", wrong: false, causes: "", repairs: [] });
    const gone = () => this.why !== own || this.shown !== shown || this.typed !== typed;
    const tell = () => this.say({ rfnb: "run", head: this.state(shown) });
    if (!expected || !search) {
      this.why = null;
      return tell();
    }
    tell();
    const again = async (changes: Change[], hidden?: number) => {
      const all = [...before(shown, changes[0]!), ...changes];
      try {
        const result = await this.worked(typed, all, gone, hidden);
        if (!result) throw new Over();
        return this.frames!.search(result);
      } catch (error) {
        if (error instanceof Over) throw error;
        return null; // it cannot be made
      }
    };
    const asking = {
      search,
      result: shown.result,
      letters: this.engine!.units(typed.text),
      attention: (step: number) => this.frames!.attendedIn(search.path, shown.result, step),
      again,
    };
    try {
      for await (const why of whyNot(expected, asking)) {
        if (gone()) return;
        this.why = own = why;
        tell();
      }
    } catch (error) {
      if (error instanceof Over || gone()) return;
      this.why = { ...own, text: (error as Error).message, wrong: true };
      tell();
    }
  }

  /** Makes a repair that was found, as a branch. */
  private async repair(from: Branch, number: number): Promise<void> {
    const { words, changes } = this.why?.repairs[number] ?? { words: "", changes: [] };
    if (!changes.length) throw new Error("This is an option of the search, set in its call.");
    await this.make(from, changes, words);
  }

  private unused(name: string): string {
    const names = this.branches.map((branch) => branch.name);
    let own = name;
    for (let count = 2; names.includes(own); count++) own = `${name} ${count}`;
    return own;
  }

  private numbered(number: unknown): Branch {
    const found = this.branches.find((branch) => branch.number === number);
    if (!found) throw new Error(`There is no branch ${String(number)}.`);
    return found;
  }

  /** The result of an edit. */
  private async ghost(from: Branch, asked: Asked, id: unknown, answer: (said: null) => void): Promise<void> {
    const { step, path, nth = 0, then, name = "" } = asked;
    if (this.gone.delete(id)) return answer(null);
    const result = await this.changed(from, { path, nth, step, then }),
      seq = this.frames!.search(result)?.seq ?? null,
      lane = laneOf(seq, step, then);
    answer(null);
    const told = verdict(name, from, { seq, result }, lane);
    this.say({ rfnb: "ghost", of: id, name, over: true, refused: null, lane: lane && { ...lane, seq: 0 }, ...told });
  }

  /** Makes an edit, in a branch. */
  private async keep(from: Branch, { step, path, nth = 0, then, name }: Asked): Promise<void> {
    await this.make(from, [{ path, nth, step, then }], name ?? `from step ${step}`);
  }

  /** A branch that begins with edits, earliest first. */
  private async make(from: Branch, own: Change[], name: string): Promise<void> {
    if (this.branches.length >= MOST) throw new Error(`A page has at most ${MOST} branches: remove some.`);
    const all = [...before(from, own[0]!), ...own],
      result = (await this.worked(this.typed, all, () => false))!;
    this.add(this.unused(name), from, own[0]!, all, result);
    this.show(from); // beside which it stands in the rail
  }

  /** The same edits from another step on: they keep their distances. */
  private async move(number: unknown, step: number): Promise<void> {
    const { parent, change, changes, name } = this.numbered(number);
    if (!parent || !change) throw new Error("This run has no change at its start.");
    const own = changes
      .filter((one) => !parent.changes.includes(one))
      .map((one) => ({ ...one, step: one.step + step - change.step }));
    await this.make(parent, own, name.replace(/ at \d+$/, ` at ${step}`));
  }

  private letGo(branch: Branch): void {
    if (!branch.parent) throw new Error(`${branch.name} is the run that all others branch from.`);
    const gone = new Set([branch]);
    for (const one of this.branches) if (one.parent && gone.has(one.parent)) gone.add(one);
    this.branches = this.branches.filter((one) => !gone.has(one));
    this.show(gone.has(this.shown!) ? branch.parent : this.shown!);
  }

  private async changed(from: Branch, change: Change): Promise<Result> {
    return (await this.worked(this.typed, [...before(from, change), change], () => false))!;
  }

  /** The result; null if it is not needed any more. */
  private async worked(
    { text, inputs }: Typed,
    changes: Change[],
    stop: () => boolean,
    hidden?: number,
  ): Promise<Result | null> {
    const work = this.engine!.work(text, inputs, changes, hidden);
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

  /** The number of steps, and whether the search is complete; a note on a text beyond the known turns of a Python loop. */
  private words({ loops }: Result, text: string): string {
    const search = loops.find(({ steps }) => steps.length),
      { longest, unit } = this.engine!.spec,
      said = [];
    if (longest && this.engine!.units(text).length > longest)
      said.push(
        `longer than any text that the page was made from (${longest} ${unit}s): what the code does only later is unknown`,
      );
    if (search) {
      const [best] = hypothesesOf(search);
      said.push(`${steps(search.made)}, ${best?.ended ? `score ${minus(best.score.toFixed(3))}` : "no end was found"}`);
    }
    return said.join(" · ");
  }

  private fail(error: unknown): void {
    const own = (error as Error)?.constructor === Error;
    if (!own) console.warn("rfnb:", error);
    this.say({ rfnb: "failed", words: own ? (error as Error).message : "Its data is damaged: save the page again." });
  }
}

class Over extends Error {} // the answer is no longer needed

const NOT_HERE: Record<string, string> = {
  branch: "A run in a page finishes at once: change something in a view to make a branch.",
};

const steps = (made: number): string => `${made} step${made === 1 ? "" : "s"}`;

/** The edits that lead to another one, without those of later steps. */
const before = ({ changes }: Branch, { path, nth, step }: Change): Change[] =>
  changes.filter((change) => change.path !== path || change.nth !== nth || change.step <= step);
