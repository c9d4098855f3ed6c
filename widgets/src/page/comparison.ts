// Two runs of a page side by side: one tree of both searches, A − B of attention and states, and the outputs of both. Otherwise the same as
// rfnb/viz/branches/sides.py.

import type { CutSpec, SeqSpec, State, StepSpec } from "../beams/tree";
import type { Plain, PlainFrame } from "../engine/frames";
import { significant } from "../number";

type Head = Record<string, any>;
const KINDS = ["beams", "distribution", "attention", "states"],
  OPEN = 2; // unfolded views
const SAME: (keyof StepSpec)[] = ["tokens", "parents", "ended", "scores"],
  STATES: State[] = ["dead", "dropped", "carried", "alive", "ended"]; // a node in both arms has the better of the two fates
const OF_A_SLOT = ["slots", "before", "notes", "remark", "sums", "held", "mask"];

/** The views of both runs, identical ones last. */
export function besides(a: PlainFrame[], b: PlainFrame[], names: [string, string]): PlainFrame[] {
  const made = a.flatMap((one) => {
    const other = b.find(({ kind, head }) => kind === one.kind && head["key"] === one.head["key"]);
    if (!KINDS.includes(one.kind) || !other) return [];
    if (one.kind === "distribution") return outputs(one, other, names);
    const found = one.kind === "beams" ? searches(one, other, names) : minus(one, other);
    return found ? [{ ...found, head: { ...found.head, key: one.head["key"], compact: true } as Head }] : [];
  });
  const open = OPEN + made.filter(({ kind, head }) => kind === "distribution" && !head["same"]).length;
  const rank = ({ kind, head }: { kind: string; head: Head }) => (head["same"] ? KINDS.length : KINDS.indexOf(kind));
  return made
    .sort((one, other) => rank(one) - rank(other))
    .map((part, at) => ({ ...part, head: { ...part.head, folded: at >= open || rank(part) === KINDS.length } }));
}

const without = (head: Head, names: readonly string[]): Head =>
  Object.fromEntries(Object.entries(head).filter(([name]) => !names.includes(name)));

/** Both, or one where they are the same. */
function outputs(a: PlainFrame, b: PlainFrame, names: [string, string]): PlainFrame[] {
  const title = String(a.head["title"] ?? ""),
    same = Object.entries(a.blocks).every(([name, { data }]) => json([...data]) === json([...b.blocks[name]!.data]));
  if (same) return [{ ...a, head: { ...a.head, title: `${title}: the same in A and B`, same } }];
  return [a, b].map((part, at) => ({
    ...part,
    head: {
      ...part.head,
      title: `${title}, ${"AB"[at]!}: ${names[at]!}`,
      key: `${String(a.head["key"])} ${"AB"[at]!}`,
    },
  }));
}

// -- searches ---------------------------------------------------------------------------------------------------------------

function searches(a: PlainFrame, b: PlainFrame, names: [string, string]): PlainFrame {
  const [one] = a.head["seqs"] as [SeqSpec],
    [other] = b.head["seqs"] as [SeqSpec],
    seq = merged(one, other, names);
  return {
    kind: "beams",
    head: {
      ...without(a.head, ["remark", "vocab", "held"]),
      seqs: [{ ...(one as object), ...seq }],
      ...("arms" in seq ? {} : { remark: "Both searches are the same." }),
    },
    blocks: {},
  };
}

/** A trunk up to the step in which they diverge, then the slots of A, followed by those of B. */
export function merged(a: SeqSpec, b: SeqSpec, names: [string, string]): SeqSpec & Head {
  const longest = Math.max(a.steps.length, b.steps.length);
  let at = 0;
  while (at < longest && SAME.every((name) => json(a.steps[at]?.[name]) === json(b.steps[at]?.[name]))) at++;
  if (at === longest) return a;
  const split = Math.max(...a.steps.map(({ tokens }) => tokens.length)),
    none: StepSpec = { tokens: [], parents: [], scores: [], ended: [], cuts: [] };
  const steps = Array.from({ length: longest }, (_, row) => {
    const one = a.steps[row] ?? none,
      other = b.steps[row] ?? none;
    return row < at ? trunk(one, other) : arms(one, other, split, row > at);
  });
  return {
    ...a,
    steps,
    result: `A: ${a.result} | B: ${b.result}`,
    arms: {
      names,
      at,
      split,
      ends: [a.steps.length - 1, b.steps.length - 1],
      best: (b.best ?? []).map(([row, slot]): [number, number] => [row, slot + (row >= at ? split : 0)]),
    },
  };
}
const json = JSON.stringify;

const trunk = (a: StepSpec, b: StepSpec): StepSpec => ({
  ...a,
  states: (a.states ?? []).map((state, slot) =>
    [state, b.states?.[slot] ?? null].reduce((best, one) =>
      one && (!best || STATES.indexOf(one) > STATES.indexOf(best)) ? one : best,
    ),
  ),
});

/** `apart`: whether the previous step has two arms, too. */
function arms(a: StepSpec, b: StepSpec, split: number, apart: boolean): StepSpec {
  const before = apart ? split : 0;
  const filled = <T>(own: T[], other: T[], fill: T): T[] => [
    ...own,
    ...Array.from({ length: split - own.length }, () => fill),
    ...other,
  ];
  const tags = apart ? [{}, {}] : [{ arm: "A" }, { arm: "B" }]; // before they diverge, both have the same parent
  const cuts = [a.cuts ?? [], (b.cuts ?? []).map((cut) => ({ ...cut, parent: cut.parent + before }))].map((side, arm) =>
    side.map((cut): CutSpec => ({ ...cut, ...tags[arm] })),
  );
  const [one, other] = [following(a, 0, apart ? split : null), following(b, before, apart ? b.tokens.length : null)],
    told = Object.entries({ ...one, ...other }).filter(
      ([slot, best]) => apart || [one, other].every((side) => json(side[slot] ?? best) === json(best)),
    );
  return {
    tokens: filled(a.tokens, b.tokens, ""),
    parents: filled(
      a.parents,
      b.parents.map((parent) => parent + before),
      0,
    ),
    scores: filled(a.scores, b.scores, null),
    ended: filled(a.ended, b.ended, false),
    states: filled(a.states ?? [], b.states ?? [], null),
    cuts: Array.from({ length: Math.max(...cuts.map(({ length }) => length)) }, (_, at) => at).flatMap((at) =>
      cuts.flatMap((side) => side.slice(at, at + 1)),
    ),
    ...(told.length ? { next: Object.fromEntries(told) } : {}),
  };
}

/** The best labels by slot of the previous step; labels for all slots apply to each slot of their arm. */
function following({ next = {} }: StepSpec, before: number, slots: number | null): NonNullable<StepSpec["next"]> {
  const { all } = next;
  if (all && slots !== null) return Object.fromEntries(Array.from({ length: slots }, (_, at) => [at + before, all]));
  return Object.fromEntries(
    Object.entries(next).map(([slot, best]) => [slot === "all" ? slot : String(Number(slot) + before), best]),
  );
}

// -- attention and states ---------------------------------------------------------------------------------------------------

function minus(a: PlainFrame, b: PlainFrame): PlainFrame | null {
  const isMap = a.kind === "attention",
    list = isMap ? "maps" : "tracks",
    [one] = a.head["seqs"] as [Head],
    [other] = b.head["seqs"] as [Head],
    blocks: Record<string, Plain> = {};
  const lengths = isMap ? ["row_len", "col_len"] : ["len"],
    seq: Head = { label: one["label"] };
  for (const [at, name] of lengths.entries()) {
    const labels = isMap ? ["rows", "cols"][at]! : "steps",
      size = (seq[name] = Math.min(one[name], other[name]));
    seq[labels] = Array.from({ length: size }, (_, place) => {
      const [first, second] = [one[labels][place], other[labels][place]];
      return first === second ? first : `${first}|${second}`;
    });
  }
  let every = 0;
  const entries = (a.head[list] as Head[]).flatMap((entry): Head[] => {
    const its = (b.head[list] as Head[]).find(({ label }) => label === entry["label"]),
      pair = its && [a.blocks[entry["block"]]!, b.blocks[its["block"]]!];
    if (!pair || (!isMap && pair[0]!.shape[2] !== pair[1]!.shape[2])) return [];
    const block = `${isMap ? "map" : "track"}${Object.keys(blocks).length}`,
      made = difference(pair as [Plain, Plain], seq[lengths[0]!], isMap ? seq["col_len"] : Infinity);
    const most = made.data.reduce((top, value) => (Number.isNaN(value) ? top : Math.max(top, Math.abs(value))), 0);
    every = Math.max(every, most);
    blocks[block] = made;
    if (isMap) return [{ ...without(entry, OF_A_SLOT), block, seqs: [0] }];
    const { label, unit_dim, names } = entry;
    return [{ label, unit_dim, ...(names ? { names } : {}), block, gate: false, range: [-(most || 1), most || 1] }];
  });
  if (!entries.length) return null;
  const said = every
    ? { remark: `Above 0: more in A; below 0: more in B. The largest difference is ${String(significant(every, 3))}.` }
    : { remark: "A and B are the same wherever both have something.", same: true };
  const kept = isMap
    ? { ...without(a.head, ["badges", "looks", "remark", "slots_of_best", "best"]), range: scale(every), signed: true }
    : { live: false, step_dim: a.head["step_dim"], axis: a.head["axis"], batch: a.head["batch"], orders: [] };
  const title = `${String(a.head["title"] ?? "")}${every ? ", A − B" : ": the same in A and B"}`;
  return { kind: a.kind, head: { ...kept, title, seqs: [seq], [list]: entries, ...said }, blocks };
}

/** a − b for common rows and columns; NaN elsewhere. */
function difference([a, b]: [Plain, Plain], rows: number, cols: number): Plain {
  const shape = a.shape.map((size, axis) => Math.max(size, b.shape[axis]!)),
    [, height, width] = shape as [number, number, number],
    data = new Float32Array(height * width).fill(NaN);
  const at = ({ shape: [, , size], data: values }: Plain, row: number, col: number) => values[row * size! + col]!;
  for (let row = 0; row < Math.min(rows, a.shape[1]!, b.shape[1]!); row++)
    for (let col = 0; col < Math.min(cols, a.shape[2]!, b.shape[2]!); col++)
      data[row * width + col] = at(a, row, col) - at(b, row, col);
  return { shape: [1, height, width], data };
}

/** Both ends of a scale, with two digits. */
function scale(most: number): [number, number] {
  if (!most) return [-1, 1];
  const step = 10 ** (Math.floor(Math.log10(most)) - 1),
    end = Number((Math.ceil((most / step) * (1 - 1e-9)) * step).toPrecision(6));
  return [-end, end];
}
