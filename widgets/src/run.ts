// A run that a kernel holds: its state, and what a page asks of it. The other end is rfnb/viz/control/run_view.py.

import type { Wire } from "./exact_values";
import type { AnyHead } from "./frame";

/** The head of a `control` view: the state of a run, by rfnb/viz/control/spec.py. */
export interface RunState extends AnyHead {
  serial: number; // the newest state has the largest
  run: number;
  state: "running" | "pausing" | "paused" | "stopping" | "done" | "failed" | "stopped";
  words: string; // the state in a sentence
  counter: string; // "step 3 of 14"
  at: { path: string; step: number; nth: number; of: number | null } | null; // the step that comes next where it is paused, else that is made
  changed: string[]; // before the step that comes next, in words
  steps: number; // of all loops, begun
  speed: number; // steps per second; 0: as fast as it can
  loops: { path: string; last: number; runs: number; axis: string }[];
  points: { number: number; text: string; hits: number }[];
  runs: Entry[];
  beside?: number | null; // the run that the one that is shown is compared with
  note: string; // what the host cannot do
  vocab?: string[]; // of the search in it
  why?: {
    expected: string;
    text: string;
    wrong: boolean;
    causes: string;
    repairs: [words: string, makes: boolean][];
  } | null; // the request
}
/** A run of the tree of branches. */
export interface Entry {
  number: number;
  name: string;
  from: string;
  state: string;
  steps?: number;
  parent?: number;
  step?: number; // of a loop, at which it leaves that
  tick?: number; // the same, counted over all loops
  moves?: boolean; // whether its change can be made at another step
  text?: string;
  results?: Result[]; // by sequence
  lanes?: (Lane | null)[]; // by sequence
}
/** The outcome of a change. */
export interface Result {
  labels: string[];
  edits?: string; // of each label: "=" is as without the change
  score: number | null;
  difference: number | null; // nats; below 0: less likely than without it
  same: boolean;
  words: string;
}
/** The way of one hypothesis through a search. */
export interface Lane {
  row: number;
  parent: number | null; // slot
  before: number; // the score before the first label
  labels: string[];
  scores: number[];
  ended: boolean;
  fell: [step: number, behind: number | null] | null;
}
/** The preview of a change that is not made. */
export interface Told extends Partial<Result> {
  name: string;
  over: boolean;
  refused: string | null;
  lane: (Lane & { seq: number }) | null;
  attention?: GhostRows[]; // where it would look, map by map
}
/** The weights of each label of a lane in one map. */
export interface GhostRows {
  path: string;
  fixed: Record<string, number>;
  rows: number[][];
}

/** A command of rfnb/control/commands.py with its fields. */
export type Command = { do: string } & Record<string, unknown>;

/** `ctx.run` of a view: a run in a kernel that answers. */
export interface HeldRun {
  readonly state: RunState;
  pointed: Entry | null; // the branch that is pointed at in the rail
  before: Set<number> | null; // the runs that there were when a change was made here last
  readonly shown: readonly Told[]; // the ghosts that are shown in the tree
  show(told: readonly Told[]): void;
  /** Asks for something; null when it is done, else the sentence that says why not. */
  do(command: Command): Promise<string | null>;
  /** Requests the outcome of a change, and calls `told` with a growing answer; returns the function that stops it. */
  ghost(command: Record<string, unknown>, told: (told: Told) => void): () => void;
  /** Calls `changed` when the state is another one; returns the function that ends that. */
  listen(changed: () => void): () => void;
}

const PATIENCE = 2000; // ms until "it has not answered"
const TRIES = 6;
const GONE = "The kernel has stopped, and the run with it.";

/** The run of a page, and whether its kernel answers. */
export class Held implements HeldRun {
  /** "asked": it may answer, "silent": it has not in a while, so it may not be there, "late": it has before. */
  kernel: "asked" | "silent" | "answers" | "late" | "gone" = "asked";
  pointed: Entry | null = null;
  before: Set<number> | null = null;
  shown: readonly Told[] = [];
  private now: RunState | null = null;
  private count = 0;
  private looks: ReturnType<typeof setTimeout> | undefined;
  private readonly page = Math.random().toString(36).slice(2); // answers go to all pages
  private readonly waiting = new Map<string, { done: (said: string | null) => void; timer: unknown }>();
  private readonly ghosts = new Map<string, (told: Told) => void>();
  private readonly listeners = new Set<() => void>();
  private readonly ends: (() => void)[];

  constructor(private readonly wire: Wire) {
    globalThis.addEventListener?.("pagehide", this.unlook);
    this.ends = [
      wire.listen((message) => this.heard(message)),
      wire.onGone?.(() => {
        this.kernel = "gone"; // until it answers all the same
        for (const id of [...this.waiting.keys()]) this.settle(id, GONE);
        this.tell();
        this.look(TRIES);
      }) ?? (() => {}),
    ];
  }

  get state(): RunState {
    return this.now!;
  }

  /** The run for views; null where nothing can be asked of one. */
  get held(): HeldRun | null {
    return this.now && (this.kernel === "answers" || this.kernel === "late") ? this : null;
  }

  /** The page has a state from its frame; the newest counts. The first one asks whether there is a kernel. */
  renew(state: RunState | null): void {
    const first = !this.now;
    if (!state || (this.now && state.serial <= this.now.serial)) return;
    this.now = state;
    if (first) this.look();
    this.tell();
  }

  do(command: Command): Promise<string | null> {
    return this.kernel === "gone" ? Promise.resolve(GONE) : this.ask(command);
  }

  /** Asks whether there is a kernel, several times: before JupyterLab has a subshell, a message waits for the running cells. */
  private look(tries = 0): void {
    clearTimeout(this.looks);
    void this.ask({ do: "look" });
    if (tries < TRIES)
      this.looks = setTimeout(
        () => {
          if (this.kernel === "asked") this.kernel = "silent";
          if (this.kernel === "answers") return;
          this.tell();
          this.look(tries + 1);
        },
        (PATIENCE / 2) * 2 ** tries,
      );
  }

  ghost(command: Record<string, unknown>, told: (told: Told) => void): () => void {
    const id = this.id();
    this.ghosts.set(id, told);
    void this.ask({ do: "ghost", ...command }, id).then((said) => {
      if (said !== null && this.ghosts.delete(id)) told({ name: "", over: true, refused: said, lane: null });
    });
    return () => {
      if (this.ghosts.delete(id)) void this.do({ do: "unghost", of: id });
    };
  }

  private id(): string {
    return `${this.page} ${++this.count}`;
  }

  private ask(command: Command, id = this.id()): Promise<string | null> {
    return new Promise((done) => {
      const timer = setTimeout(() => {
        if (this.kernel !== "answers") return;
        this.kernel = "late"; // a late answer is heard all the same
        this.tell();
      }, PATIENCE);
      this.waiting.set(id, { done, timer });
      try {
        this.wire.send({ rfnb: "do", id, run: this.now?.run, ...command });
      } catch {
        this.settle(id, GONE);
      }
    });
  }

  /** A branch is pointed at: views of the run that it leaves show its way. */
  point(entry: Entry | null): void {
    if (entry?.number === this.pointed?.number) return;
    this.pointed = entry;
    this.tell();
  }

  /** Ghosts come and go in the tree: other views show what else is known of them. */
  show(told: readonly Told[]): void {
    if (told.length === this.shown.length && told.every((one, at) => one === this.shown[at])) return;
    this.shown = told;
    this.tell();
  }

  listen(changed: () => void): () => void {
    this.listeners.add(changed);
    return () => void this.listeners.delete(changed);
  }

  /** The page is closed: the kernel works no more for it. */
  private readonly unlook = (): void => {
    if (this.now) void this.ask({ do: "unlook" });
  };

  destroy(): void {
    this.unlook();
    globalThis.removeEventListener?.("pagehide", this.unlook);
    for (const end of this.ends) end();
    clearTimeout(this.looks);
    for (const { timer } of this.waiting.values()) clearTimeout(timer as number);
    this.waiting.clear();
    this.ghosts.clear();
    this.listeners.clear();
  }

  private heard(message: unknown): void {
    const { rfnb, id, said, head, of } = (message ?? {}) as {
      rfnb?: string;
      id?: string;
      said?: string | null;
      head?: Partial<RunState>;
      of?: string;
    };
    if (rfnb === "run" && head) {
      if (this.kernel === "silent") this.kernel = "late"; // it is there, and does not hear yet
      this.renew({ ...this.now, ...head } as RunState); // what is as before is not said again
    }
    if (rfnb === "ghost" && of !== undefined) {
      const told = this.ghosts.get(of),
        now = message as Told;
      if (now.over) this.ghosts.delete(of);
      told?.(now);
    }
    if (rfnb !== "did" || !id || !this.waiting.has(id)) return;
    const before = this.kernel;
    this.kernel = "answers";
    this.settle(id, said ?? null);
    if (before !== "answers") this.tell();
  }

  private settle(id: string, said: string | null): void {
    const one = this.waiting.get(id);
    if (!one) return;
    clearTimeout(one.timer as number);
    this.waiting.delete(id);
    one.done(said);
  }

  private tell(): void {
    for (const changed of [...this.listeners]) changed();
  }
}

/** The branch of the run that is shown whose way is shown in it: the one that is pointed at, else the one that was made last. */
export function keptOf(run: HeldRun | null): Entry | undefined {
  const { pointed, before, state } = run ?? {};
  return state?.runs.find(({ number, parent }) =>
    parent !== state.run ? false : pointed ? number === pointed.number : before && !before.has(number),
  );
}

/** The state of the run that a frame is of. */
export function stateIn(frame: { kind: string; head: AnyHead }): RunState | null {
  const parts = (frame.head as { parts?: { kind: string; head: AnyHead }[] }).parts ?? [frame];
  return (parts.find(({ kind }) => kind === "control")?.head as RunState | undefined) ?? null;
}
