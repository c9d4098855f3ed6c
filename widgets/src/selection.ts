// What the views of a page point at together: pointing at target token 3 in one highlights step 3 in all that run over the same axis.

/** `lost`: the step is one of another hypothesis than the best, so views of the best have nothing of it. */
export interface Selection {
  seq: number | null;
  head: number | null; // of attention, in all layers
  step: number | null;
  lost: boolean;
}
type Listener = (selection: Selection, origin: object) => void;

interface Group {
  seq: number | null;
  head: number | null;
  steps: Map<string, { step: number | null; lost: boolean }>;
  listeners: Set<{ axis: string; listener: Listener }>;
}
// One for all modules of a page: the stored outputs of a notebook have one for each kind of view.
declare const SELECTION: string | undefined; // which selection, given by the build
const ours = Symbol.for(`rfnb ${typeof SELECTION === "undefined" ? "selection" : SELECTION}`);
const groups = ((globalThis as { [ours]?: Map<string, Group> })[ours] ??= new Map<string, Group>());

/** What a view has in its hand: the sequence of its group, and the step on its axis. */
export interface Bus {
  readonly now: Selection;
  point(change: Partial<Selection>, origin: object): void;
  listen(listener: Listener): () => void;
}

/**
 * The bus of a group of linked views (the views of one trace have the same `link`; "" is all others on the page) for one axis: a state of the
 * encoder runs over other steps than the decoder. The sequence and the head are shared by all axes.
 */
export function busOf(link: string, axis = ""): Bus {
  let group = groups.get(link);
  if (!group) groups.set(link, (group = { seq: null, head: null, steps: new Map(), listeners: new Set() }));
  const shared = group;
  const now = (of: string): Selection => ({
    seq: shared.seq,
    head: shared.head,
    step: null,
    lost: false,
    ...shared.steps.get(of),
  });
  return {
    get now() {
      return now(axis);
    },
    point(change, origin) {
      const before = now(axis),
        next = { ...before, ...("step" in change ? { lost: false } : {}), ...change };
      const wide = next.seq !== before.seq || next.head !== before.head; // of all axes
      if (!wide && next.step === before.step && next.lost === before.lost) return;
      [shared.seq, shared.head] = [next.seq, next.head];
      shared.steps.set(axis, { step: next.step, lost: next.lost });
      for (const other of [...shared.listeners])
        if (other.axis === axis || wide) other.listener(now(other.axis), origin);
    },
    listen(listener) {
      const entry = { axis, listener };
      shared.listeners.add(entry);
      return () => {
        shared.listeners.delete(entry);
      };
    },
  };
}
