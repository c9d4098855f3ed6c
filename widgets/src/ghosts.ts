// Ghosts: previews of the result of an edit, while the pointer rests on it. The kernel computes them (rfnb/control/ghosts.py); none is stored.

import type { Context } from "./context";
import type { Place } from "./handles";
import type { Grip } from "./pane";
import type { Command, Told } from "./run";

const REST = 300; // ms

/** An edit that can be made. */
export interface Change {
  at: string; // the place in its view, unique within the sequence
  place: Place;
  then: Command[];
  name: string; // the name for readers: "EY at 1"
  seq: number;
}
export interface Ghost extends Change {
  told: Told | null; // null: nothing yet
}

const keyOf = ({ seq, at }: Change): string => `${seq} ${at}`;

/** Starts the ghost of an edit; returns a function that ends it, null without a held run. */
const begun = (
  { run }: Context,
  { place, then, name, seq }: Change,
  told: (told: Told) => void,
  more = {},
): (() => void) | null => run?.ghost({ ...place, then, name, seq, ...more }, told) ?? null;

export class Ghosts {
  private readonly there = new Map<string, { ghost: Ghost; end: () => void }>();
  private waits: { key: string; timer: ReturnType<typeof setTimeout> } | null = null; // started while the pointer rests

  /** `changed` is called when the ghosts change. */
  constructor(
    private readonly ctx: Context,
    private readonly changed: () => void,
  ) {}

  get shown(): Ghost[] {
    return [...this.there.values()].map(({ ghost }) => ghost);
  }

  /** The pointer is on an edit: after a delay, its ghost replaces all others. null: on none. */
  rest(change: Change | null): void {
    if (change && (keyOf(change) === this.waits?.key || this.there.has(keyOf(change)))) return;
    this.wait(null);
    if (!change) this.clear();
    else if (this.ctx.run) this.wait(change);
  }

  /** Shows the ghosts of these edits, without a delay. */
  show(changes: Change[]): void {
    this.wait(null);
    const keys = new Set(changes.map(keyOf));
    for (const key of this.there.keys()) if (!keys.has(key)) this.end(key);
    for (const change of changes) if (!this.there.has(keyOf(change))) this.begin(change);
    this.changed();
  }

  clear(): void {
    this.wait(null);
    if (!this.there.size) return;
    for (const key of [...this.there.keys()]) this.end(key);
    this.changed();
  }

  private wait(change: Change | null): void {
    if (this.waits) clearTimeout(this.waits.timer);
    this.waits = change && { key: keyOf(change), timer: setTimeout(() => this.show([change]), REST) };
  }

  private begin(change: Change): void {
    const { ctx, there } = this,
      ghost: Ghost = { ...change, told: null },
      key = keyOf(change);
    const heard = (told: Told) => {
      ghost.told = told;
      if (there.get(key)?.ghost === ghost) this.changed();
    };
    const end = begun(ctx, change, heard, { rows: true });
    if (end) there.set(key, { ghost, end });
  }

  private end(key: string): void {
    this.there.get(key)?.end();
    this.there.delete(key);
  }
}

const AHEAD = 2; // for a continuing edit: one is being computed, and the next one is requested meanwhile

/** The result of a continuing edit, such as a drag: one ghost after another; of requests made in the meantime only the newest. */
export class Trial {
  private readonly ends = new Set<() => void>();
  private next: Change | null = null;
  private asked: Change | null = null;
  private answered: Change | null = null;

  /** `told` is called when a ghost is complete. */
  constructor(
    private readonly ctx: Context,
    private readonly told: (told: Told, of: Change) => void,
  ) {}

  /** Whether the last answer belongs to an earlier edit: it must not be shown for the last one. */
  get behind(): boolean {
    return this.asked !== this.answered;
  }

  ask(change: Change): void {
    this.asked = change;
    if (this.ends.size >= AHEAD) {
      this.next = change;
      return;
    }
    const { ends } = this;
    let end: (() => void) | null = null;
    const heard = (told: Told): void => {
      if (!told.over || !end || !ends.delete(end)) return;
      this.answered = change;
      this.told(told, change);
      const { next } = this;
      this.next = null;
      if (next) this.ask(next);
    };
    end = begun(this.ctx, change, heard, { in_turn: true });
    if (end) ends.add(end);
  }

  /** A grip that requests a preview at each move. `over` is called at its end; `keep` then gets the last edit, if it was dropped. */
  grip(change: (right: number, down: number) => Change, over: () => void, keep: (change: Change) => void): Grip {
    let last: Change | null = null;
    return {
      move: (right, down) => this.ask((last = change(right, down))),
      end: (dropped) => {
        this.stop();
        over();
        if (dropped && last) keep(last);
      },
    };
  }

  stop(): void {
    this.next = null;
    for (const end of this.ends) end();
    this.ends.clear();
  }
}
