// What the views of a page point at together: pointing at target token 3 in one highlights step 3 in all.

export interface Selection { seq: number | null; step: number | null }
type Listener = (selection: Selection, origin: object) => void;

const buses = new Map<string, { now: Selection; listeners: Set<Listener> }>();

/** One per group of linked views: the views of one trace, or (group "") all others on the page. */
export interface Bus {
  readonly now: Selection;
  point(change: Partial<Selection>, origin: object): void;
  listen(listener: Listener): () => void;
}

export function busOf(group: string): Bus {
  let shared = buses.get(group);
  if (!shared) buses.set(group, (shared = { now: { seq: null, step: null }, listeners: new Set() }));
  const { listeners } = shared;
  const state = shared;
  return {
    get now() { return state.now; },
    point(change, origin) {
      const next = { ...state.now, ...change };
      if (next.seq === state.now.seq && next.step === state.now.step) return;
      state.now = next;
      for (const listener of [...listeners]) listener(next, origin);
    },
    listen(listener) {
      listeners.add(listener);
      return () => { listeners.delete(listener); };
    },
  };
}
