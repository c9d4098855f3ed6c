// The decisions of a beam search, from the `beams` spec of one sequence (rfnb/viz/beams/tree.py): its hypotheses, linked to a tree.

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
  arm?: string; // if two searches share parents: the letter of its search
  id?: number;
}
/** Two searches in one tree (rfnb/viz/branches/sides.py): from step `at` on, slots below `split` are A, the others B. */
export interface Arms {
  at: number;
  split: number;
  names: string[];
  ends: number[]; // the last step of each
  best: [number, number][]; // the path of the winner of B
}
/** `aligned`: by "step,slot" the edits from the reference: "=" equal, "s" substitution, "i" insertion, "d" deletion. */
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
  // In a page without all hypotheses, the values that depend on all: ranks from 1, their number, the best score, the last step of each.
  ranks?: number[];
  of?: number | number[]; // with two searches, for each
  top?: number | null | (number | null)[];
  lasts?: number[];
  next?: Record<string, [string, number, number?][]>; // by slot of the previous step: the best labels, their log probabilities and indices; "all": the same for all
  taken?: Record<string, number>; // by slot of the previous step: the total probability of the labels that were not allowed
  ids?: number[]; // of a held run: the index of each label
  inside?: number[]; // bit i: whether smaller beam i has it
}
/** A smaller beam: the first step in which it loses the winner, the end of its own best, and a description. */
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
  axis?: string; // the name of the steps
  sums?: boolean; // whether a score is a sum over alignments
  reference?: Reference;
  smaller?: Smaller[];
  parts?: string[];
  arms?: Arms;
}
export interface BeamsHead extends AnyHead {
  length_exponent?: number;
  join?: string;
  loop_steps?: number[]; // by step, if a step of the loop has several
  held?: HeldSearch; // of a held run
  vocab?: string[]; // the texts of its labels, unless there are too many
  hands?: Marks; // the edits; "hands" is the name on the wire, also in saved pages
  compact?: boolean; // a view of two runs
  seqs: SeqSpec[];
}

/**
 * alive: leads to a hypothesis that survives to the end, or is one. ended: complete after this step, and stays in the result.
 * carried: was complete before, only keeps its slot. dropped: was complete, lost its slot later. dead: all continuations were pruned.
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
  last: number; // the last step of its continuations
  share: number; // of the probability in the beam of its step, 0 to 1
  written: boolean; // whether it has a new token; in a search over alignments a hypothesis may stay unchanged
  parts: number[]; // the parts of `gain`, by the names in Tree.parts
  left: boolean; // whether it was complete and moved from the beam to the result
  length: number; // number of labels on its path
}
export interface Cut {
  step: number;
  index: number;
  token: string;
  score: number;
  parent: Node | null;
  gain: number;
  verdict: string;
  why: string | undefined; // the reason, if not its rank
  into: Node | null; // the hypothesis it was merged into
  margin: number | null; // to the last survivor, below 0 if worse; null if meaningless
  written: boolean;
  parts: number[];
  arm: string;
  id: number | undefined; // of its label
}
/** `parts`: the names of the scores' parts, if there are several; `width`: of the beam, without hypotheses that left it. */
export interface Tree {
  spec: SeqSpec;
  nodes: (Node | null)[][];
  cuts: Cut[][];
  best: [number, number][];
  won: (number | undefined)[]; // by step, the slot of the winner
  other: (number | undefined)[]; // with two searches, the slot of the second winner
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

/** The continuations of a hypothesis in the next step. */
export const childrenOf = ({ nodes }: Tree, node: Node): Node[] =>
  (nodes[node.step + 1] ?? []).filter((child) => child?.parent === node) as Node[];

export const isWon = ({ won, other }: Tree, { step, slot }: Node): boolean =>
  won[step] === slot || other[step] === slot;

/** The search of a node, 0 or 1, in a tree of two; -1: it belongs to both, or there is only one. */
export const armOf = (arms: Arms | undefined, { step, slot }: { step: number; slot: number }): number =>
  arms && step >= arms.at ? Number(slot >= arms.split) : -1;

/** The letter of the search, in a list of both. */
export const tagOf = (arms: Arms | undefined, node: Node): string =>
  arms ? ["A B ", "A ", "B "][armOf(arms, node) + 1]! : "";

/** The nodes from the first step to this one, without those that only keep their slot. */
export function pathOf(node: Node | null): Node[] {
  const path: Node[] = [];
  for (let at = node; at; at = at.parent) if (at.state !== "carried") path.push(at);
  return path.reverse();
}

/** The sort key of the n-best list: score / length ** exponent. */
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

/** The longest repetition of tokens: a part that occurs at least three times in a row. */
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

/** There may be tens of thousands: each is one object, and its text is made on demand. */
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

/** The labels of a pruned candidate. */
export const cutText = (cut: Cut, join: string): string =>
  [...labelsOf(pathOf(cut.parent)), ...(cut.written ? [cut.token] : [])].join(join);

/** Stands for the text of a hypothesis without labels. */
export const untold = (item: { token: string; written: boolean }): string => (item.written ? item.token : "(empty)");
