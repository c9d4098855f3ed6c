// What the views of a page point at together: pointing at target token 3 in one highlights step 3 in all that run over the same axis.

/**
 * A hypothesis of a search, other than the best one: the slot of the beam in which it was before and after the choice of each step. In the first
 * are attention and all that was worked out for the choice, in the second the new state.
 */
export interface Hypothesis {
  text: string;
  labels: string[];
  before: number[];
  after: number[];
}

/** `lost`: the step is one of another hypothesis than is shown, so views of that have nothing of it. */
export interface Selection {
  seq: number | null;
  head: number | null; // of attention, in all layers
  hypothesis: Hypothesis | null; // null: the best one
  step: number | null;
  lost: boolean;
}
type Listener = (selection: Selection, origin: object) => void;

interface Group {
  seq: number | null;
  head: number | null;
  hypothesis: Hypothesis | null;
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
 * encoder runs over other steps than the decoder. The sequence, the head and the hypothesis are shared by all axes.
 */
export function busOf(link: string, axis = ""): Bus {
  let group = groups.get(link);
  if (!group)
    groups.set(link, (group = { seq: null, head: null, hypothesis: null, steps: new Map(), listeners: new Set() }));
  const shared = group;
  const now = (of: string): Selection => ({
    seq: shared.seq,
    head: shared.head,
    hypothesis: shared.hypothesis,
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
      if (next.seq !== before.seq && !change.hypothesis) next.hypothesis = null; // it is one of the sequence
      const wide = (["seq", "head", "hypothesis"] as const).some((name) => next[name] !== before[name]); // of all axes
      if (!wide && next.step === before.step && next.lost === before.lost) return;
      [shared.seq, shared.head, shared.hypothesis] = [next.seq, next.head, next.hypothesis];
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
