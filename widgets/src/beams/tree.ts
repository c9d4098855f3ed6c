// What a beam search decided, as the `beams` spec of one sequence says it (rfnb/viz/beams/tree.py): its hypotheses linked to a tree.

import type { Marks } from "../handles";
import type { HeldSearch } from "./handles";
import type { AnyHead } from "../frame";

export interface CutSpec {
  token: string;
  parent: number;
  score: number | null;
  why?: string;
  parts?: number[];
  margin?: number;
  verdict?: string;
  into?: number;
  arm?: string; // where two searches have the same parents: the letter of its own
  id?: number;
}
/** Two searches in one (rfnb/viz/branches/sides.py): from step `at` on slots below `split` are A, the others B. */
export interface Arms {
  at: number;
  split: number;
  names: string[];
  ends: number[]; // the last step of each
  best: [number, number][]; // the path of the winner of B
}
/** `aligned`: by "step,slot" the edits from the reference: "=" the same, "s" another label, "i" one more, "d" one less. */
export interface Reference {
  labels: string[];
  path: [number, number][];
  text: string;
  fell?: number;
  rank?: number;
  aligned: Record<string, string>;
}
export interface StepSpec {
  tokens: string[];
  parents: number[];
  scores: (number | null)[];
  ended: boolean[];
  cuts?: CutSpec[];
  left?: boolean[];
  parts?: number[][];
  states?: (State | null)[];
  // Of a page that has not all hypotheses, what follows from all: ranks from 1, of how many, the best score, the last step that each reached.
  ranks?: number[];
  of?: number | number[]; // of two searches in one, of each
  top?: number | null | (number | null)[];
  lasts?: number[];
  next?: Record<string, [string, number, number?][]>; // by slot of the step before the best labels, their log probabilities and indices; "all": of all alike
  taken?: Record<string, number>; // by slot of the step before the probability of all labels that were not allowed
  ids?: number[]; // of a run that is held: the index of each label
  inside?: number[]; // bit i: whether the smaller beam with this index has it
}
/** A smaller beam: the first step in which it loses the winner, where its own best ends, and all of it in words. */
export interface Smaller {
  size: number;
  lost?: number;
  best?: [number, number];
  text: string;
}
export interface SeqSpec {
  label?: string;
  steps: StepSpec[];
  best?: [number, number][];
  result?: string;
  blank?: string;
  axis?: string; // what a step is, if not that
  sums?: boolean; // whether a score is a sum over alignments
  reference?: Reference;
  smaller?: Smaller[];
  parts?: string[];
  arms?: Arms;
}
export interface BeamsHead extends AnyHead {
  length_exponent?: number;
  join?: string;
  loop_steps?: number[]; // of each step, where a step of the loop has several
  held?: HeldSearch; // of a run that is held
  vocab?: string[]; // the texts of its labels, if they are not too many
  hands?: Marks; // what was changed by hand
  compact?: boolean; // one of the views of two runs
  seqs: SeqSpec[];
}

/**
 * alive: leads to a hypothesis that is still there at the end, or is one. ended: complete after this step, and stays in the result.
 * carried: was complete before, only keeps its place. dropped: was complete, lost its place later. dead: all that continued it was cut.
 */
export type State = "alive" | "ended" | "carried" | "dropped" | "dead";

export interface Node {
  step: number;
  slot: number;
  token: string;
  score: number;
  parent: Node | null;
  gain: number; // natural-log probability of the last token alone
  state: State;
  last: number; // the last step that a continuation of it reached
  share: number; // of the probability in the beam of its step, 0 to 1
  written: boolean; // whether the token is one; in a search over alignments a hypothesis may stay as it is
  parts: number[]; // what `gain` is made of, by the names in Tree.parts
  left: boolean; // whether it was complete and left the beam for the result
  length: number; // how many labels are along its path
}
export interface Cut {
  step: number;
  index: number;
  token: string;
  score: number;
  parent: Node | null;
  gain: number;
  verdict: string;
  why: string | undefined; // if not by its rank
  into: Node | null; // the hypothesis that it became a part of
  margin: number | null; // to the last survivor, below 0 if behind; null if that says nothing
  written: boolean;
  parts: number[];
  arm: string;
  id: number | undefined; // of its label
}
/** `parts`: of what the scores are made, if it is more than one log probability; `width`: of the beam, without those that left it. */
export interface Tree {
  spec: SeqSpec;
  nodes: (Node | null)[][];
  cuts: Cut[][];
  best: [number, number][];
  won: (number | undefined)[]; // by step, the slot of the winner
  other: (number | undefined)[]; // of two searches in one that of the winner of the second
  nbest: Node[];
  parts: string[];
  width: number;
}

export function grow(seq: SeqSpec, lengthExponent = 0): Tree {
  const nodes = link(seq),
    best = seq.best ?? [],
    won: (number | undefined)[] = [];
  for (const [step, slot] of best) won[step] = slot;
  const other: Tree["other"] = [];
  for (const [step, slot] of seq.arms?.best ?? []) other[step] = slot;
  return {
    spec: seq,
    nodes,
    cuts: cutCandidates(seq, nodes),
    best,
    won,
    other,
    nbest: nbest(nodes, lengthExponent, seq.arms),
    parts: seq.parts ?? [],
    width: Math.max(0, ...nodes.map((row) => row.filter((node) => !node?.left).length)),
  };
}

/** The hypotheses of the next step that continue one. */
export const childrenOf = ({ nodes }: Tree, node: Node): Node[] =>
  (nodes[node.step + 1] ?? []).filter((child) => child?.parent === node) as Node[];

export const isWon = ({ won, other }: Tree, { step, slot }: Node): boolean =>
  won[step] === slot || other[step] === slot;

/** Which of two searches in one a node is of: 0 or 1; -1: it is of both, or there is one alone. */
export const armOf = (arms: Arms | undefined, { step, slot }: { step: number; slot: number }): number =>
  arms && step >= arms.at ? Number(slot >= arms.split) : -1;

/** The letter of that, in a list of both. */
export const tagOf = (arms: Arms | undefined, node: Node): string =>
  arms ? ["A B ", "A ", "B "][armOf(arms, node) + 1]! : "";

/** The nodes from the first step to this one, without those that only keep their place. */
export function pathOf(node: Node | null): Node[] {
  const path: Node[] = [];
  for (let at = node; at; at = at.parent) if (at.state !== "carried") path.push(at);
  return path.reverse();
}

/** What the n-best list is sorted by: score / length ** exponent. */
export const rating = (node: Node, lengthExponent: number): number =>
  node.score / Math.max(node.length, 1) ** lengthExponent;

/** The tokens of a path, without a closing mark like </s> at its end (unless that is all). */
export function tokensOf(path: Node[]): string[] {
  const last = path[path.length - 1];
  const tokens = path.filter((node) => node.written).map((node) => node.token);
  if (last && tokens.length > 1 && (last.state === "ended" || last.state === "dropped") && isMark(last.token))
    tokens.pop();
  return tokens;
}

/** Where tokens go in circles: of at least three times in a row the stretch that is longest. */
export interface Repeat {
  start: number;
  period: number;
  times: number;
}
const LONGEST_PERIOD = 12,
  LEAST_TIMES = 3;

export function repeatOf(tokens: string[]): Repeat | null {
  let found: Repeat | null = null;
  for (let period = 1; period <= LONGEST_PERIOD; period++)
    for (let at = period, run = 0; at < tokens.length; at++) {
      run = tokens[at] === tokens[at - period] ? run + 1 : 0;
      const times = Math.floor(run / period) + 1;
      if (times >= LEAST_TIMES && times * period > (found ? found.times * found.period : 0))
        found = { start: at - run - period + 1, period, times };
    }
  return found;
}

/** The same as one text. */
export const prefix = (path: Node[], join = " "): string => tokensOf(path).join(join);

export const isMark = (token: string): boolean => token.length > 2 && token.startsWith("<") && token.endsWith(">");

export function nbest(nodes: (Node | null)[][], lengthExponent: number, arms?: Arms): Node[] {
  const ended = nodes.flat().filter((node): node is Node => node?.state === "ended");
  const ends = arms ? [...new Set(arms.ends)] : [nodes.length - 1],
    isLast = (node: Node) => !arms || node.step < arms.at || arms.ends[armOf(arms, node)] === node.step;
  const open = ends
    .flatMap((step) => nodes[step] ?? [])
    .filter((node): node is Node => node?.state === "alive" && isLast(node));
  const rated = new Map([...ended, ...open].map((node) => [node, rating(node, lengthExponent)]));
  return [...rated.keys()].sort((a, b) => rated.get(b)! - rated.get(a)! || a.step - b.step || a.slot - b.slot);
}

const NONE: number[] = [];

/** There may be tens of thousands: each is one object, whose text is made when it is under the pointer. */
function link({ steps, blank, arms }: SeqSpec): (Node | null)[][] {
  const rows: (Node | null)[][] = [];
  steps.forEach((spec, step) => {
    const { tokens, scores, parents, states, lasts, left, parts } = spec,
      before = rows[step - 1],
      row: (Node | null)[] = [];
    const tops = [-Infinity, -Infinity],
      totals = [0, 0],
      of = (slot: number) => Math.max(0, armOf(arms, { step, slot }));
    scores.forEach((score, slot) => {
      if (score !== null && score > tops[of(slot)]!) tops[of(slot)] = score;
    });
    scores.forEach((score, slot) => {
      if (score !== null) totals[of(slot)]! += Math.exp(score - tops[of(slot)]!);
    });
    for (let slot = 0; slot < tokens.length; slot++) {
      const score = scores[slot] ?? null,
        token = tokens[slot]!;
      const parent = before ? (before[parents[slot]!] ?? null) : null;
      if (score === null || (before && !parent)) {
        row.push(null);
        continue;
      }
      const state = states?.[slot] ?? (spec.ended[slot] ? "ended" : "alive"),
        written = blank === undefined || token !== blank;
      row.push({
        step,
        slot,
        token,
        score,
        parent,
        gain: score - (parent ? parent.score : 0),
        state,
        last: lasts ? lasts[slot]! : step,
        share: Math.exp(score - tops[of(slot)]!) / totals[of(slot)]!,
        written,
        parts: parts ? parts.map((values) => values[slot]!) : NONE,
        left: !!left && left[slot]!,
        length: (parent ? parent.length : 0) + (written && state !== "carried" ? 1 : 0),
      });
    }
    rows.push(row);
  });
  for (let step = rows.length - 1; step > 0; step--)
    for (const node of rows[step]!) if (node?.parent && node.last > node.parent.last) node.parent.last = node.last;
  return rows;
}

function cutCandidates({ steps, blank }: SeqSpec, nodes: (Node | null)[][]): Cut[][] {
  return steps.map((step, index) => {
    const row: Cut[] = [];
    for (const { token, score, why, verdict, margin, parts, into, arm, id, parent: slot } of step.cuts ?? []) {
      const parent = index ? (nodes[index - 1]![slot] ?? null) : null;
      if (score === null || (index && !parent)) continue;
      row.push({
        step: index,
        index: row.length,
        token,
        score,
        parent,
        gain: score - (parent?.score ?? 0),
        verdict: verdict ?? "cut",
        into: into === undefined ? null : (nodes[index]![into] ?? null),
        why,
        margin: margin ?? null,
        written: blank === undefined || token !== blank,
        parts: parts ?? NONE,
        arm: arm ?? "",
        id,
      });
    }
    return row;
  });
}

const labelsOf = (path: Node[]): string[] => path.filter((node) => node.written).map((node) => node.token);

/** The labels of a candidate that was cut. */
export const cutText = (cut: Cut, join: string): string =>
  [...labelsOf(pathOf(cut.parent)), ...(cut.written ? [cut.token] : [])].join(join);

/** In the place of the text of a hypothesis that has none. */
export const untold = (item: { token: string; written: boolean }): string => (item.written ? item.token : "(empty)");
