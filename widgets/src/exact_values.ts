// Exact values for blocks that are rounded or pooled in the page: requested from the kernel, and cached. The other end is rfnb/viz/exact_values.py.

import type { Block } from "./block";
import type { Frame } from "./frame";
import { unpack } from "./frame";

/** A part of a block: start and size by axis. `pick`: the index on the third axis for each one on the second. */
export interface Asked {
  block: string;
  start: number[];
  size: number[];
  pick?: number[];
}

/** A frame: of a part of a group, or of a range of x; else of everything. */
export interface More {
  part?: string;
  range?: readonly number[];
}

/** The connection to a kernel: sends messages and receives replies. */
export interface Wire {
  send(message: object): void;
  listen(heard: (message: unknown, buffers: DataView[]) => void): () => void;
  onGone?(gone: () => void): () => void; // the kernel has ended
}

const PATIENCE = 1000, // ms until "no kernel answers"
  PAUSE = 5000, // ms until the next request after that
  AT_ONCE = 3, // concurrent requests: a pointer that crosses a map requests each row
  MOST = 1 << 22; // cached values

type Done = (values: Float32Array | null) => void;

/** The requests of a page, and the answers. One per view in the page. */
export class Exact {
  private version = 0;
  private count = Math.floor(Math.random() * 2 ** 40); // an answer goes to all pages of a view: each uses its own numbers
  private kept = 0;
  private quietUntil = 0;
  private readonly known = new Map<string, Float32Array>(); // oldest first
  private readonly waiting = new Map<number, { key: string; size: number; done: Done[]; timer: unknown }>();
  private readonly frames = new Map<number, (bytes: DataView | null) => void>();
  private next: { asked: Asked; done: Done[] } | null = null; // of the waiting requests only the newest is sent
  private readonly end: () => void;

  constructor(private readonly wire: Wire | null) {
    this.end = wire?.listen((message, buffers) => this.heard(message, buffers)) ?? (() => {});
  }

  /** The frame comes from another spec: clears the cache. */
  renew(version: number): void {
    if (version === this.version) return;
    this.version = version;
    this.forget();
  }

  /** The known values; null if they must be requested. */
  now(asked: Asked): Float32Array | null {
    return this.known.get(keyOf(asked)) ?? null;
  }

  /** The values; null without a kernel that has them, or if it does not answer within a second. */
  ask(asked: Asked): Promise<Float32Array | null> {
    const key = keyOf(asked),
      there = this.known.get(key);
    if (there) return Promise.resolve(there);
    if (!this.wire || !this.version || Date.now() < this.quietUntil) return Promise.resolve(null);
    for (const one of this.waiting.values()) if (one.key === key) return new Promise((done) => one.done.push(done));
    if (this.waiting.size >= AT_ONCE)
      return new Promise((done) => {
        const before = this.next,
          same = before && keyOf(before.asked) === key;
        this.next = { asked, done: same ? [...before.done, done] : [done] };
        if (!same) for (const skipped of before?.done ?? []) skipped(null);
      });
    return new Promise((done) => this.put(asked, key, [done]));
  }

  /** A frame with more data than the one in the page; null without a kernel that has one. */
  async frame(more: More = {}): Promise<Frame | null> {
    const { wire, version } = this;
    if (!wire || !version) return null;
    const id = ++this.count;
    const bytes = await new Promise<DataView | null>((done) => {
      this.frames.set(id, done);
      try {
        wire.send({ rfnb: "whole", id, version, ...more });
      } catch {
        done(null);
      }
    });
    this.frames.delete(id);
    return bytes && version === this.version ? unpack(bytes) : null;
  }

  private put(asked: Asked, key: string, done: Done[]): void {
    const id = ++this.count,
      size = asked.size.reduce((product, n) => product * n, 1);
    const timer = setTimeout(() => {
      this.quietUntil = Date.now() + PAUSE;
      for (const waits of this.waiting.get(id)?.done.splice(0) ?? []) waits(null); // a late answer is cached nevertheless
    }, PATIENCE);
    this.waiting.set(id, { key, size, done, timer });
    try {
      this.wire!.send({ rfnb: "exact", id, version: this.version, ...asked });
    } catch {
      this.settle(id, null);
    }
  }

  destroy(): void {
    this.end();
    this.forget();
  }

  private forget(): void {
    for (const done of this.next?.done ?? []) done(null);
    this.next = null;
    for (const done of this.frames.values()) done(null);
    for (const id of [...this.waiting.keys()]) this.settle(id, null);
    this.known.clear();
    this.kept = 0;
  }

  private heard(message: unknown, buffers: DataView[]): void {
    const { rfnb, id } = (message ?? {}) as { rfnb?: string; id?: number };
    if (rfnb === "whole") this.frames.get(id!)?.(buffers[0] ?? null);
    const one = rfnb === "exact" && id !== undefined ? this.waiting.get(id) : undefined;
    if (!one) return;
    this.quietUntil = 0;
    const bytes = buffers[0];
    if (bytes?.byteLength !== one.size * 4) return this.settle(id!, null);
    const values = new Float32Array(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength));
    this.known.set(one.key, values);
    this.kept += values.length;
    for (const [key, old] of this.known) {
      if (this.kept <= MOST || this.known.size === 1) break;
      this.known.delete(key);
      this.kept -= old.length;
    }
    this.settle(id!, values);
  }

  private settle(id: number, values: Float32Array | null): void {
    const one = this.waiting.get(id);
    if (!one) return;
    clearTimeout(one.timer as number);
    this.waiting.delete(id);
    for (const done of one.done) done(values);
    const { next } = this;
    if (!next) return;
    this.next = null;
    this.put(next.asked, keyOf(next.asked), next.done);
  }
}

const keyOf = ({ block, start, size, pick }: Asked): string => `${block} ${start} ${size} ${pick ?? ""}`;

/** The interface for views: the parts of a group have their own block names. */
export interface ExactOf {
  /** The cached exact values; null if they must be requested. */
  now(asked: Asked): Float32Array | null;
  /** The exact values; null without a kernel that has them, or if it does not answer within a second. */
  ask(asked: Asked): Promise<Float32Array | null>;
  /** A frame that has more than the one in the page, as `Exact.frame`. */
  frame?(more: More): Promise<Frame | null>;
}

export const NO_KERNEL: ExactOf = {
  now: () => null,
  ask: () => Promise.resolve(null),
};

/** The same for the blocks whose names begin with `prefix`. */
export const prefixed = (of: ExactOf, prefix: () => string): ExactOf => ({
  now: (asked) => of.now({ ...asked, block: prefix() + asked.block }),
  ask: (asked) => of.ask({ ...asked, block: prefix() + asked.block }),
  frame: async (more) => (await of.frame?.({ ...more, part: prefix() + (more.part ?? "") })) ?? null,
});

/** A row of a block, exact if cached; `arrived` is called when exact values come later. */
export function rowOf(
  of: ExactOf,
  name: string,
  block: Block,
  first: number,
  second: number,
  arrived: () => void,
): Float32Array | null {
  const cols = block.shape[2] ?? 0;
  if (block.exact) return Float32Array.from({ length: cols }, (_, col) => block.at(first, second, col));
  const asked = { block: name, start: [first, second, 0], size: [1, 1, cols] };
  const there = of.now(asked);
  if (!there) void of.ask(asked).then((values) => values && arrived());
  return there;
}
