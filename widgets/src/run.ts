// A run held by a kernel: its state, and the requests of a page. The other end is rfnb/viz/control/run_view.py.

import type { Wire } from "./exact_values";
import type { AnyHead } from "./frame";

/** The head of a `control` view: the state of a run, by rfnb/viz/control/spec.py. */
export interface RunState extends AnyHead {
  serial: number; // the newest state has the largest
  run: number;
  state: "running" | "pausing" | "paused" | "stopping" | "done" | "failed" | "stopped";
  words: string; // the state in a sentence
  counter: string; // "step 3 of 14"
  at: { path: string; step: number; nth: number; of: number | null } | null; // the next step if it is paused, else the current one
  changed: string[]; // the edits before the next step, in words
  steps: number; // steps started, over all loops
  speed: number; // steps per second; 0: unlimited
  loops: { path: string; last: number; runs: number; axis: string }[];
  points: { number: number; text: string; hits: number }[];
  runs: Entry[];
  beside?: number | null; // the run that the displayed one is compared with
  note: string; // limitations of the host
  vocab?: string[]; // labels of its search
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
  step?: number; // the step of a loop at which it branches off
  tick?: number; // the same, counted over all loops
  moves?: boolean; // whether its edit can be moved to another step
  text?: string;
  far?: string; // the number at its end, which is never cut
  results?: Result[]; // by sequence
  lanes?: (Lane | null)[]; // by sequence
}
/** The result of an edit. */
export interface Result {
  labels: string[];
  edits?: string; // for each label: "=" is unchanged by the edit
  score: number | null;
  difference: number | null; // nats; below 0: less likely than without the edit
  same: boolean;
  words: string;
}
/** The path of one hypothesis through a search. */
export interface Lane {
  row: number;
  parent: number | null; // slot
  before: number; // the score before the first label
  labels: string[];
  scores: number[];
  ended: boolean;
  fell: [step: number, behind: number | null] | null;
}
/** The preview of an edit. */
export interface Told extends Partial<Result> {
  name: string;
  over: boolean;
  refused: string | null;
  lane: (Lane & { seq: number }) | null;
  attention?: GhostRows[]; // its attention, map by map
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
  pointed: Entry | null; // the branch under the pointer in the rail
  before: Set<number> | null; // the runs that existed at the last edit made here
  readonly shown: readonly Told[]; // the ghosts displayed in the tree
  show(told: readonly Told[]): void;
  /** Sends a command; returns null when it is done, or a sentence with the reason for a refusal. */
  do(command: Command): Promise<string | null>;
  /** Requests the result of an edit, and calls `told` with growing answers; returns a function that stops it. */
  ghost(command: Record<string, unknown>, told: (told: Told) => void): () => void;
  /** Calls `changed` when the state changes; returns a function that stops it. */
  listen(changed: () => void): () => void;
}

const PATIENCE = 2000; // ms until "it has not answered"
const TRIES = 6;
const GONE = "The kernel has stopped, and the run with it.";

/** The run of a page, and whether its kernel answers. */
export class Held implements HeldRun {
  /** "asked": waiting for an answer; "silent": no answer for a while, so it may not exist; "late": it answered before. */
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
        this.kernel = "gone"; // until it answers nevertheless
        for (const id of [...this.waiting.keys()]) this.settle(id, GONE);
        this.tell();
        this.look(TRIES);
      }) ?? (() => {}),
    ];
  }

  get state(): RunState {
    return this.now!;
  }

  /** The run for views; null if it accepts no commands. */
  get held(): HeldRun | null {
    return this.now && (this.kernel === "answers" || this.kernel === "late") ? this : null;
  }

  /** Takes a state from a frame; the newest one counts. The first one triggers a request to the kernel. */
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

  /** Asks for a kernel, several times: before JupyterLab has a subshell, a message waits for the running cells. */
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
        this.kernel = "late"; // a late answer is accepted nevertheless
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

  /** The pointer is on a branch: views of its parent run show its path. */
  point(entry: Entry | null): void {
    if (entry?.number === this.pointed?.number) return;
    this.pointed = entry;
    this.tell();
  }

  /** The ghosts in the tree have changed: other views show their part of them. */
  show(told: readonly Told[]): void {
    if (told.length === this.shown.length && told.every((one, at) => one === this.shown[at])) return;
    this.shown = told;
    this.tell();
  }

  listen(changed: () => void): () => void {
    this.listeners.add(changed);
    return () => void this.listeners.delete(changed);
  }

  /** The page is closed: the kernel stops working for it. */
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
      if (this.kernel === "silent") this.kernel = "late"; // it exists, and is busy
      this.renew({ ...this.now, ...head } as RunState); // unchanged fields are not sent again
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

/** The branch whose path is shown in the displayed run: the one under the pointer, else the newest. */
export function keptOf(run: HeldRun | null): Entry | undefined {
  const { pointed, before, state } = run ?? {};
  return state?.runs.find(({ number, parent }) =>
    parent !== state.run ? false : pointed ? number === pointed.number : before && !before.has(number),
  );
}

/** The state of a frame's run. */
export function stateIn(frame: { kind: string; head: AnyHead }): RunState | null {
  const parts = (frame.head as { parts?: { kind: string; head: AnyHead }[] }).parts ?? [frame];
  return (parts.find(({ kind }) => kind === "control")?.head as RunState | undefined) ?? null;
}
