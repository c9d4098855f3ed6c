// What a beam search decided, read off the `beams` spec of one sequence: states, verdicts, the n-best list.
// The same as rfnb/viz/beams_tree.py; both are tested with the files in tests/viz/fixtures/.

import type { AnyHead } from "../frame";

export interface CutSpec {
  token: string;
  parent: number;
  score: number | null;
  why?: string;
  parts?: number[];
}
export interface StepSpec {
  tokens: string[];
  parents: number[];
  scores: (number | null)[];
  ended: boolean[];
  cuts?: CutSpec[];
  ends?: (number | null)[];
  left?: boolean[];
  parts?: number[][];
  by_rank?: boolean;
}
export interface SeqSpec {
  label?: string;
  steps: StepSpec[];
  best?: [number, number][];
  result?: string;
  blank?: string;
  parts?: string[];
}
export interface BeamsHead extends AnyHead {
  length_exponent?: number;
  join?: string;
  threshold?: number;
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
  rank: number;
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
  rank: number;
  verdict: string;
  why: string | undefined; // if not by its rank
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
}

export function grow(seq: SeqSpec, lengthExponent = 0, threshold?: number): Tree {
  const nodes = link(seq.steps, seq.blank);
  setStates(nodes, seq.steps, carries(seq.steps, nodes));
  const cuts = cutCandidates(seq.steps, nodes, seq.blank, threshold);
  nodes.forEach((row, step) => rank(row, cuts[step + 1] ?? []));
  return {
    nodes,
    cuts,
    best: seq.best ?? [],
    nbest: nbest(nodes, lengthExponent),
    parts: seq.parts ?? [],
    width: Math.max(0, ...nodes.map((row) => row.filter((node) => !node?.left).length)),
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

/** The tokens of a path as one text, without a closing mark like </s> at its end (unless that is all). */
export function prefix(path: Node[], join = " "): string {
  const last = path[path.length - 1];
  const tokens = path.filter((node) => node.written).map((node) => node.token);
  if (last && tokens.length > 1 && (last.state === "ended" || last.state === "dropped") && isMark(last.token))
    tokens.pop();
  return tokens.join(join);
}

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
          state: "dead",
          rank: 0,
          verdict: "",
          children: [],
          last: step,
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
  return rows;
}

/** Whether complete hypotheses keep their place in the beam (else they leave it for a pool). */
function carries(steps: StepSpec[], nodes: (Node | null)[][]): boolean {
  return steps.some((step, index) => {
    const ended = steps[index - 1]?.ended;
    if (!ended) return false;
    return (
      nodes[index]!.some((node) => node?.parent && ended[node.parent.slot]) ||
      (step.cuts ?? []).some((cut) => ended[cut.parent])
    );
  });
}

function setStates(nodes: (Node | null)[][], steps: StepSpec[], carrying: boolean): void {
  const end = nodes.length - 1;
  for (const node of nodes.flat())
    if (node?.parent && steps[node.step - 1]!.ended[node.parent.slot]) {
      node.state = "carried";
      node.token = node.parent.token; // that of several sources is any
    }
  for (let step = end; step >= 0; step--) {
    for (const node of nodes[step]!) {
      if (!node) continue;
      for (const child of node.children) node.last = Math.max(node.last, child.last);
      if (node.state === "carried") continue;
      if (steps[step]!.ended[node.slot]) node.state = !carrying || node.last === end ? "ended" : "dropped";
      else if (step === end || node.children.some((child) => child.state === "alive" || child.state === "ended"))
        node.state = "alive";
    }
  }
}

function rank(row: (Node | null)[], following: Cut[]): void {
  const present = row
    .filter((node): node is Node => node !== null)
    .sort((a, b) => b.score - a.score || a.slot - b.slot);
  present.forEach((node, index) => {
    node.rank = index + 1;
    const behind = present[0]!.score - node.score;
    const place =
      `rank ${node.rank} of ${present.length}, ` +
      (index === 0 ? "the best" : `${behind.toFixed(2)} nats behind the best`);
    node.verdict = nodeVerdict(
      node,
      place,
      following.find((cut) => cut.parent === node),
    );
  });
}

/** `cut`: the best of its continuations that were cut. */
function nodeVerdict(node: Node, place: string, cut: Cut | undefined): string {
  if (node.state === "carried") {
    let first = node;
    while (first.parent && first.state === "carried") first = first.parent;
    return `complete since step ${first.step}: ${place}`;
  }
  if (node.state === "ended") return `complete${node.left ? ", and left the beam" : ""}: ${place}`;
  if (node.state === "dropped") return `complete, then cut after step ${node.last}: ${place}`;
  if (node.state === "alive") return `kept: ${place}`;
  return (
    `kept: ${place}; ` +
    (node.last === node.step
      ? `nothing that continues it survived${cut ? `, at best ${cut.token} (${cut.verdict})` : ""}`
      : `the last that continued it was cut after step ${node.last}`)
  );
}

function cutCandidates(steps: StepSpec[], nodes: (Node | null)[][], blank?: string, threshold?: number): Cut[][] {
  return steps.map((step, index) => {
    const kept = nodes[index]!.flatMap((node) => (node ? [node.score - (step.ends?.[node.slot] ?? 0)] : [])); // as they were ranked
    const worst = Math.min(...kept),
      byRank = step.by_rank ?? true;
    let rank = kept.length;
    return (step.cuts ?? [])
      .flatMap((cut): Cut[] => {
        const parent = index ? (nodes[index - 1]![cut.parent] ?? null) : null;
        const { token, score, why } = cut,
          written = blank === undefined || token !== blank;
        if (why !== "blocked" && why !== "merged") rank++; // these had no part in the contest
        if (score === null || (index && !parent)) return [];
        const into =
          why === "merged"
            ? sameLabels(nodes[index]!, [...labelsOf(pathOf(parent)), ...(written ? [token] : [])])
            : undefined;
        return [
          {
            step: index,
            index: 0,
            token,
            score,
            parent,
            gain: score - (parent?.score ?? 0),
            rank,
            why,
            written,
            parts: cut.parts ?? [],
            margin: kept.length && (why === undefined || why === "blocked") ? score - worst : null,
            verdict: cutVerdict(score, rank, kept, why, { into, threshold, byRank }),
          },
        ];
      })
      .map((cut, at) => ({ ...cut, index: at }));
  });
}

const labelsOf = (path: Node[]): string[] => path.filter((node) => node.written).map((node) => node.token);

/** The labels of a candidate that was cut. */
export const cutText = (cut: Cut, join: string): string =>
  [...labelsOf(pathOf(cut.parent)), ...(cut.written ? [cut.token] : [])].join(join);

/** In the place of the text of a hypothesis that has none. */
export const untold = (item: { token: string; written: boolean }): string => (item.written ? item.token : "(empty)");

/** The slot of the hypothesis that a candidate was merged with; undefined: of none that was kept. */
function sameLabels(row: (Node | null)[], labels: string[]): number | undefined {
  return row.find((node) => {
    if (!node) return false;
    const own = labelsOf(pathOf(node));
    return own.length === labels.length && own.every((label, at) => label === labels[at]);
  })?.slot;
}

/**
 * Why a candidate did not go on, and by how much, e.g. "cut: rank 6, 0.83 nats behind the last survivor".
 * `why`: if not by its rank; `into`: the slot of what it was merged with; `byRank`: whether the best were kept, samples are not.
 */
export function cutVerdict(
  score: number,
  rank: number,
  kept: number[],
  why?: string,
  more: { into?: number | undefined; threshold?: number | undefined; byRank?: boolean } = {},
): string {
  if (why === "merged")
    return `merged: part of ${more.into === undefined ? "another hypothesis" : `slot ${more.into}`} with the same labels`;
  if (!kept.length) return why ? `${why}: no survivor` : `cut: rank ${rank}, with no survivor`;
  const margin = Math.min(...kept) - score,
    isBehind = margin >= 0;
  const behind = `${nats(Math.abs(margin))} ${isBehind ? "behind" : "ahead of"} the last survivor`;
  if (why === "blocked") return `blocked: forbidden, ${isBehind ? "and" : "although"} ${behind}`;
  if (why === "below the threshold" && more.threshold != null)
    return `${why}: ${nats(Math.max(...kept) - score)} behind the best, where ${more.threshold} are allowed`;
  if (why !== undefined) return `${why}: ${behind}`;
  if (more.byRank === false) return `not chosen, ${behind}: this choice did not keep the best`;
  return `cut: rank ${rank}, ${isBehind ? "" : "although "}${behind}`;
}

/** A difference of scores with as many digits as it takes to see that it is one. */
const nats = (value: number): string => `${value.toFixed(value > 0 && value < 0.005 ? 5 : 2)} nats`;

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
