// What a beam search decided, as the `beams` spec of one sequence says it (rfnb/viz/beams/tree.py): its hypotheses linked to a tree.

import type { AnyHead } from "../frame";
import { visible } from "../visible";

export interface CutSpec {
  token: string;
  parent: number;
  score: number | null;
  why?: string;
  parts?: number[];
  margin?: number;
  verdict?: string;
  into?: number;
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
  of?: number;
  top?: number | null;
  lasts?: number[];
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
  parts?: string[];
}
export interface BeamsHead extends AnyHead {
  length_exponent?: number;
  join?: string;
  loop_steps?: number[]; // of each step, where a step of the loop has several
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
  verdict: string;
  children: Node[];
  last: number; // the last step that a continuation of it reached
  share: number; // of the probability in the beam of its step, 0 to 1
  written: boolean; // whether the token is one; in a search over alignments a hypothesis may stay as it is
  parts: number[]; // what `gain` is made of, by the names in Tree.parts
  left: boolean; // whether it was complete and left the beam for the result
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
}
/** `parts`: of what the scores are made, if it is more than one log probability; `width`: of the beam, without those that left it. */
export interface Tree {
  nodes: (Node | null)[][];
  cuts: Cut[][];
  best: [number, number][];
  nbest: Node[];
  parts: string[];
  width: number;
  deepest: number; // the least log probability of a token, below 0: the scale of all bars
}

export function grow(seq: SeqSpec, lengthExponent = 0): Tree {
  const nodes = link(seq.steps, seq.blank),
    cuts = cutCandidates(seq.steps, nodes, seq.blank);
  nodes.forEach((row, step) => rank(row, cuts[step + 1] ?? [], seq.steps[step]!));
  return {
    nodes,
    cuts,
    best: seq.best ?? [],
    nbest: nbest(nodes, lengthExponent),
    parts: seq.parts ?? [],
    width: Math.max(0, ...nodes.map((row) => row.filter((node) => !node?.left).length)),
    deepest: nodes.reduce((least, row) => row.reduce((low, node) => Math.min(low, node?.gain ?? 0), least), -0.5),
  };
}

/** The nodes from the first step to this one, without those that only keep their place. */
export function pathOf(node: Node | null): Node[] {
  const path: Node[] = [];
  for (let at = node; at; at = at.parent) if (at.state !== "carried") path.push(at);
  return path.reverse();
}

/** What the n-best list is sorted by: score / length ** exponent. */
export const rating = (node: Node, lengthExponent: number): number =>
  node.score / Math.max(pathOf(node).filter((one) => one.written).length, 1) ** lengthExponent;

/** The tokens of a path, without a closing mark like </s> at its end (unless that is all). */
export function tokensOf(path: Node[]): string[] {
  const last = path[path.length - 1];
  const tokens = path.filter((node) => node.written).map((node) => node.token);
  if (last && tokens.length > 1 && (last.state === "ended" || last.state === "dropped") && isMark(last.token))
    tokens.pop();
  return tokens;
}

/** The same as one text. */
export const prefix = (path: Node[], join = " "): string => tokensOf(path).join(join);

export const isMark = (token: string): boolean => token.length > 2 && token.startsWith("<") && token.endsWith(">");

export function nbest(nodes: (Node | null)[][], lengthExponent: number): Node[] {
  const ended = nodes.flat().filter((node): node is Node => node?.state === "ended");
  const open = (nodes[nodes.length - 1] ?? []).filter((node): node is Node => node?.state === "alive");
  const rated = new Map([...ended, ...open].map((node) => [node, rating(node, lengthExponent)]));
  return [...rated.keys()].sort((a, b) => rated.get(b)! - rated.get(a)! || a.step - b.step || a.slot - b.slot);
}

function link(steps: StepSpec[], blank?: string): (Node | null)[][] {
  const rows: (Node | null)[][] = [];
  steps.forEach((spec, step) => {
    const before = rows[step - 1];
    const top = Math.max(...spec.scores.map((score) => score ?? -Infinity));
    const total = spec.scores.reduce<number>((sum, score) => sum + (score === null ? 0 : Math.exp(score - top)), 0);
    rows.push(
      spec.tokens.map((token, slot) => {
        const score = spec.scores[slot] ?? null;
        const parent = before ? (before[spec.parents[slot]!] ?? null) : null;
        if (score === null || (before && !parent)) return null;
        const node: Node = {
          step,
          slot,
          token,
          score,
          parent,
          gain: score - (parent?.score ?? 0),
          state: spec.states?.[slot] ?? (spec.ended[slot] ? "ended" : "alive"),
          verdict: "",
          children: [],
          last: spec.lasts?.[slot] ?? step,
          share: Math.exp(score - top) / total,
          written: blank === undefined || token !== blank,
          parts: (spec.parts ?? []).map((values) => values[slot]!),
          left: !!spec.left?.[slot],
        };
        parent?.children.push(node);
        return node;
      }),
    );
  });
  for (const row of [...rows].reverse())
    for (const node of row) if (node?.parent) node.parent.last = Math.max(node.parent.last, node.last);
  return rows;
}

/** The place of each hypothesis in its step, and what became of it, in the words of rfnb/viz/beams/tree.py. */
function rank(row: (Node | null)[], following: Cut[], spec: StepSpec): void {
  const present = row.filter((node) => node !== null).sort((a, b) => b.score - a.score || a.slot - b.slot);
  const first = new Map<Node | null, Cut>();
  for (const cut of following) if (!first.has(cut.parent)) first.set(cut.parent, cut);
  present.forEach((node, index) => {
    const at = spec.ranks?.[node.slot] ?? index + 1,
      behind = ((spec.top ?? present[0]!.score) - node.score).toFixed(2);
    const place = `rank ${at} of ${spec.of ?? present.length}, ${at > 1 ? `${behind} nats behind the best` : "the best"}`;
    node.verdict = verdictOf(node, place, first.get(node));
  });
}

/** `cut`: the best of its continuations that were cut. */
function verdictOf(node: Node, place: string, cut: Cut | undefined): string {
  switch (node.state) {
    case "carried": {
      let from = node;
      while (from.parent && from.state === "carried") from = from.parent;
      return `complete since step ${from.step}: ${place}`;
    }
    case "ended":
      return node.left ? `complete, and left the beam: ${place}` : `complete: ${place}`;
    case "dropped":
      return `complete, then cut after step ${node.last}: ${place}`;
    case "alive":
      return `kept: ${place}`;
    case "dead":
      if (node.last > node.step) return `kept: ${place}; the last that continued it was cut after step ${node.last}`;
      return `kept: ${place}; nothing that continues it survived${cut ? `, at best ${visible(cut.token)} (${cut.verdict})` : ""}`;
  }
}

function cutCandidates(steps: StepSpec[], nodes: (Node | null)[][], blank?: string): Cut[][] {
  return steps.map((step, index) =>
    (step.cuts ?? [])
      .flatMap(({ token, score, why, verdict, margin, ...cut }): Cut[] => {
        const parent = index ? (nodes[index - 1]![cut.parent] ?? null) : null;
        if (score === null || (index && !parent)) return [];
        const gain = score - (parent?.score ?? 0),
          written = blank === undefined || token !== blank;
        return [
          {
            step: index,
            index: 0,
            token,
            score,
            parent,
            gain,
            verdict: verdict ?? "cut",
            into: cut.into === undefined ? null : (nodes[index]![cut.into] ?? null),
            why,
            margin: margin ?? null,
            written,
            parts: cut.parts ?? [],
          },
        ];
      })
      .map((cut, at) => ({ ...cut, index: at })),
  );
}

const labelsOf = (path: Node[]): string[] => path.filter((node) => node.written).map((node) => node.token);

/** The labels of a candidate that was cut. */
export const cutText = (cut: Cut, join: string): string =>
  [...labelsOf(pathOf(cut.parent)), ...(cut.written ? [cut.token] : [])].join(join);

/** In the place of the text of a hypothesis that has none. */
export const untold = (item: { token: string; written: boolean }): string => (item.written ? item.token : "(empty)");

/** What is wrong with the head of a `beams` spec, as a sentence; null if it can be drawn. */
export function problem(head: unknown): string | null {
  const seqs = (head as BeamsHead | null)?.seqs;
  if (!Array.isArray(seqs)) return "This beam search cannot be drawn: it has no list of sequences.";
  for (const [index, seq] of seqs.entries()) {
    if (!Array.isArray(seq?.steps)) return `This beam search cannot be drawn: sequence ${index} has no list of steps.`;
    let before: number | null = null;
    for (const [number, step] of seq.steps.entries()) {
      const wrong = fault(step, before);
      if (wrong) return `This beam search cannot be drawn: sequence ${index}, step ${number}: ${wrong}.`;
      before = step.tokens.length;
    }
  }
  return null;
}

function fault(step: StepSpec, before: number | null): string | null {
  const lists = [step?.tokens, step?.parents, step?.scores, step?.ended];
  if (!lists.every(Array.isArray)) return "tokens, parents, scores and ended must be lists";
  const sizes = lists.map((list) => list.length);
  if (new Set(sizes).size > 1) return `tokens, parents, scores and ended have ${sizes.join(", ")} entries`;
  if (before === null) return null;
  for (const parent of [...step.parents, ...(step.cuts ?? []).map((cut) => cut.parent)]) {
    if (!(Number.isInteger(parent) && parent >= 0 && parent < before))
      return `a parent is ${parent}, but the step before has ${before} hypotheses`;
  }
  return null;
}
