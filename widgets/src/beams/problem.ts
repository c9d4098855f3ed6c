// What is wrong with a search, as a sentence.

import type { BeamsHead, StepSpec } from "./tree";

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
