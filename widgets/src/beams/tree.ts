// What a beam search decided, read off the `beams` spec of one sequence: states, verdicts, the n-best list.
// The same as rfnb/viz/beams_tree.py; both are tested with the files in tests/viz/fixtures/.

export interface CutSpec { token: string; parent: number; score: number | null; why?: string }
export interface StepSpec { tokens: string[]; parents: number[]; scores: (number | null)[]; ended: boolean[]; cuts?: CutSpec[] }
export interface SeqSpec { label?: string; steps: StepSpec[]; best?: [number, number][]; result?: string; blank?: string }
export interface BeamsHead { title?: string; live?: boolean; length_exponent?: number; join?: string; seqs: SeqSpec[] }

/**
 * alive: leads to a hypothesis that is still there at the end, or is one. ended: complete after this step, and stays in the result.
 * carried: was complete before, only keeps its place. dropped: was complete, lost its place later. dead: all that continued it was cut.
 */
export type State = "alive" | "ended" | "carried" | "dropped" | "dead";

export interface Node {
  step: number; slot: number; token: string; score: number; parent: Node | null;
  gain: number; // natural-log probability of the last token alone
  state: State; rank: number; verdict: string; children: Node[];
  last: number; // the last step that a continuation of it reached
  share: number; // of the probability in the beam of its step, 0 to 1
  written: boolean; // whether the token is one; in a search over alignments a hypothesis may stay as it is
}
export interface Cut { step: number; index: number; token: string; score: number; parent: Node | null; gain: number; rank: number; verdict: string }
export interface Tree { nodes: (Node | null)[][]; cuts: Cut[][]; best: [number, number][]; nbest: Node[] }

export function grow(seq: SeqSpec, lengthExponent = 0): Tree {
  const nodes = link(seq.steps, seq.blank);
  const cuts = cutCandidates(seq.steps, nodes);
  setStates(nodes, seq.steps, carries(seq.steps, nodes));
  for (const row of nodes) rank(row);
  return { nodes, cuts, best: seq.best ?? [], nbest: nbest(nodes, lengthExponent) };
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
  if (last && tokens.length > 1 && (last.state === "ended" || last.state === "dropped") && isMark(last.token)) tokens.pop();
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
    rows.push(spec.tokens.map((token, slot) => {
      const score = spec.scores[slot] ?? null;
      const parent = before ? before[spec.parents[slot]!] ?? null : null;
      if (score === null || (before && !parent)) return null;
      const node: Node = {
        step, slot, token, score, parent, gain: score - (parent?.score ?? 0),
        state: "dead", rank: 0, verdict: "", children: [], last: step, share: Math.exp(score - top) / total,
        written: blank === undefined || token !== blank,
      };
      parent?.children.push(node);
      return node;
    }));
  });
  return rows;
}

/** Whether complete hypotheses keep their place in the beam (else they leave it for a pool). */
function carries(steps: StepSpec[], nodes: (Node | null)[][]): boolean {
  return steps.some((step, index) => {
    const ended = steps[index - 1]?.ended;
    if (!ended) return false;
    return nodes[index]!.some((node) => node?.parent && ended[node.parent.slot]) || (step.cuts ?? []).some((cut) => ended[cut.parent]);
  });
}

function setStates(nodes: (Node | null)[][], steps: StepSpec[], carrying: boolean): void {
  const end = nodes.length - 1;
  for (const node of nodes.flat()) if (node?.parent && steps[node.step - 1]!.ended[node.parent.slot]) node.state = "carried";
  for (let step = end; step >= 0; step--) {
    for (const node of nodes[step]!) {
      if (!node) continue;
      for (const child of node.children) node.last = Math.max(node.last, child.last);
      if (node.state === "carried") continue;
      if (steps[step]!.ended[node.slot]) node.state = !carrying || node.last === end ? "ended" : "dropped";
      else if (step === end || node.children.some((child) => child.state === "alive" || child.state === "ended")) node.state = "alive";
    }
  }
}

function rank(row: (Node | null)[]): void {
  const present = row.filter((node): node is Node => node !== null).sort((a, b) => b.score - a.score || a.slot - b.slot);
  present.forEach((node, index) => {
    node.rank = index + 1;
    const behind = present[0]!.score - node.score;
    const place = `rank ${node.rank} of ${present.length}, ` + (index === 0 ? "the best" : `${behind.toFixed(2)} nats behind the best`);
    node.verdict = nodeVerdict(node, place);
  });
}

function nodeVerdict(node: Node, place: string): string {
  if (node.state === "carried") {
    let first = node;
    while (first.parent && first.state === "carried") first = first.parent;
    return `complete since step ${first.step}: ${place}`;
  }
  if (node.state === "ended") return `complete: ${place}`;
  if (node.state === "dropped") return `complete, then cut after step ${node.last}: ${place}`;
  if (node.state === "alive") return `kept: ${place}`;
  return `kept: ${place}; ` + (node.last === node.step
    ? "nothing that continues it survived" : `the last that continued it was cut after step ${node.last}`);
}

function cutCandidates(steps: StepSpec[], nodes: (Node | null)[][]): Cut[][] {
  return steps.map((step, index) => {
    const kept = nodes[index]!.flatMap((node) => (node ? [node.score] : []));
    return (step.cuts ?? []).flatMap((cut, place) => {
      const parent = index ? nodes[index - 1]![cut.parent] ?? null : null;
      if (cut.score === null || (index && !parent)) return [];
      const rank = kept.length + place + 1;
      const made: Cut = {
        step: index, index: 0, token: cut.token, score: cut.score, parent, gain: cut.score - (parent?.score ?? 0),
        rank, verdict: cutVerdict(cut.score, rank, kept, cut.why),
      };
      return [made];
    }).map((cut, at) => ({ ...cut, index: at }));
  });
}

/** Why a candidate did not go on, e.g. "cut: rank 6, 0.83 nats behind the last survivor"; `why`: if not by its rank. */
export function cutVerdict(score: number, rank: number, kept: number[], why?: string): string {
  if (why === "merged") return "merged: part of another hypothesis with the same labels";
  if (why === "blocked") return "blocked: forbidden, whatever its score";
  if (!kept.length) return `cut: rank ${rank}, with no survivor`;
  const margin = Math.min(...kept) - score;
  if (why !== undefined) return `${why}: ${margin.toFixed(2)} nats behind the last survivor`;
  if (margin >= 0) return `cut: rank ${rank}, ${margin.toFixed(2)} nats behind the last survivor`;
  return `cut: rank ${rank}, although ${(-margin).toFixed(2)} nats ahead of the last survivor`;
}

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
    if (!(Number.isInteger(parent) && parent >= 0 && parent < before)) return `a parent is ${parent}, but the step before has ${before} hypotheses`;
  }
  return null;
}
