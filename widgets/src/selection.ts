// The selection that the views of a page share: pointing at target token 3 in one view highlights step 3 in all views over the same axis.

/**
 * A hypothesis of a search, other than the best one: its slot of the beam before and after the choice of each step. The first
 * holds attention and everything computed for the choice, the second the new state.
 */
export interface Hypothesis {
  place: string; // in the view of the search
  text: string;
  labels: string[];
  before: number[];
  after: number[];
}

/** `lost`: the step belongs to another hypothesis than the displayed one, so its views lack the step. */
export interface Selection {
  seq: number | null;
  head: number | null; // the attention head, in all layers
  hypothesis: Hypothesis | null; // null: the best one
  step: number | null;
  lost: boolean;
}
type Listener = (selection: Selection, origin: object) => void;

interface Group {
  head: number | null;
  chosen: Map<string, Pick<Selection, "seq" | "hypothesis">>; // by batch
  steps: Map<string, Pick<Selection, "step" | "lost">>; // by axis
  listeners: Set<{ axis: string; batch: string; listener: (origin: object) => void }>;
  order: Set<string>;
}
// Shared by all modules of a page: the stored outputs of a notebook have one module for each kind of view.
declare const SELECTION: string | undefined; // set by the build
const ours = Symbol.for(`rfnb ${typeof SELECTION === "undefined" ? "selection" : SELECTION}`);
const groups = ((globalThis as { [ours]?: Map<string, Group> })[ours] ??= new Map<string, Group>());

/** The selection of a view: the sequence of its group, and the step on its axis. */
export interface Bus {
  readonly now: Selection;
  readonly order: Set<string>; // the views of the group in order of arrival, so that nothing jumps when a host reopens the page
  point(change: Partial<Selection>, origin: object): void;
  listen(listener: Listener): () => void;
}

/**
 * The bus of a group of linked views (the views of one trace have the same `link`; all others on the page have "") for one axis: a state of the
 * encoder runs over other steps than the decoder. The head is shared by all; the sequence and its hypothesis by those of the same batch.
 */
export function busOf(link: string, axis = "", batch = ""): Bus {
  let group = groups.get(link);
  if (!group)
    groups.set(
      link,
      (group = { head: null, chosen: new Map(), steps: new Map(), listeners: new Set(), order: new Set() }),
    );
  const shared = group;
  const now = (of: string): Selection => ({
    head: shared.head,
    seq: null,
    hypothesis: null,
    ...shared.chosen.get(batch),
    step: null,
    lost: false,
    ...shared.steps.get(of),
  });
  return {
    order: group.order,
    get now() {
      return now(axis);
    },
    point(change, origin) {
      const before = now(axis),
        next = { ...before, ...("step" in change ? { lost: false } : {}), ...change };
      if (next.seq !== before.seq && !change.hypothesis) next.hypothesis = null; // it belongs to the sequence
      const differs = (...names: (keyof Selection)[]) => names.some((name) => next[name] !== before[name]);
      const wide = differs("head"),
        own = differs("seq", "hypothesis"), // shared by all axes
        here = differs("step", "lost");
      shared.head = next.head;
      shared.chosen.set(batch, { seq: next.seq, hypothesis: next.hypothesis });
      shared.steps.set(axis, { step: next.step, lost: next.lost });
      for (const other of [...shared.listeners])
        if (wide || (own && other.batch === batch) || (here && other.axis === axis)) other.listener(origin);
    },
    listen(listener) {
      const entry = { axis, batch, listener: (origin: object) => listener(now(axis), origin) };
      shared.listeners.add(entry);
      return () => {
        shared.listeners.delete(entry);
      };
    },
  };
}
