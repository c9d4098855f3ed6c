// Ghosts: what would come of a change, while a person rests on it. The run makes them in its kernel (rfnb/control/ghosts.py); none is kept.

import type { Context } from "./context";
import type { Place } from "./hands";
import type { Command, Told } from "./run";

const REST = 300; // ms

/** A change that may be made. */
export interface Change {
  key: string; // no other one that is offered has it
  place: Place;
  then: Command[];
  name: string; // as a person would say it: "EY at 1"
  seq: number;
}
export interface Ghost extends Change {
  told: Told | null; // null: nothing yet
}

export class Ghosts {
  private readonly there = new Map<string, { ghost: Ghost; end: () => void }>();
  private waits: { key: string; timer: ReturnType<typeof setTimeout> } | null = null;

  /** `changed` is called when there is more to show, or less. */
  constructor(
    private readonly ctx: Context,
    private readonly changed: () => void,
  ) {}

  get shown(): Ghost[] {
    return [...this.there.values()].map(({ ghost }) => ghost);
  }

  /** Somebody points at a change: if that lasts, its ghost comes in the place of all others. null: at none. */
  rest(change: Change | null): void {
    if (change && (change.key === this.waits?.key || this.there.has(change.key))) return;
    this.wait(null);
    if (!change) this.clear();
    else if (this.ctx.run) this.wait(change);
  }

  /** The ghosts of these changes, at once. */
  show(changes: Change[]): void {
    this.wait(null);
    const keys = new Set(changes.map(({ key }) => key));
    for (const key of this.there.keys()) if (!keys.has(key)) this.end(key);
    for (const change of changes) if (!this.there.has(change.key)) this.begin(change);
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
    this.waits = change && { key: change.key, timer: setTimeout(() => this.show([change]), REST) };
  }

  private begin(change: Change): void {
    const { ctx, there } = this,
      ghost: Ghost = { ...change, told: null },
      { place, then, name, seq, key } = change;
    const end = ctx.run?.ghost({ ...place, then, name, seq }, (told) => {
      ghost.told = told;
      if (there.get(key)?.ghost === ghost) this.changed();
    });
    if (end) there.set(key, { ghost, end });
  }

  private end(key: string): void {
    this.there.get(key)?.end();
    this.there.delete(key);
  }
}

/** What would come of a change that goes on being made, as by dragging: one ghost at a time, of those that come meanwhile the newest. */
export class Trial {
  private end: (() => void) | null = null;
  private next: Change | null = null;

  /** `told` is called when one is over. */
  constructor(
    private readonly ctx: Context,
    private readonly told: (told: Told, of: Change) => void,
  ) {}

  ask(change: Change): void {
    if (this.end) {
      this.next = change;
      return;
    }
    const { place, then, name, seq } = change;
    this.end =
      this.ctx.run?.ghost({ ...place, then, name, seq }, (told) => {
        if (!told.over || !this.end) return;
        this.end = null;
        this.told(told, change);
        const { next } = this;
        this.next = null;
        if (next) this.ask(next);
      }) ?? null;
  }

  stop(): void {
    this.end?.();
    this.end = this.next = null;
  }
}
