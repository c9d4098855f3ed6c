// Describes the fault of a search in a sentence.

import { line } from "../visible_text";
import type { Arms, BeamsHead, StepSpec } from "./tree";

/** The fault of the head of a `beams` spec as a sentence; null if it can be drawn. */
export function problem(head: unknown): string | null {
  const seqs = (head as BeamsHead | null)?.seqs;
  if (!Array.isArray(seqs)) return "This beam search cannot be drawn: it has no list of sequences.";
  for (const [index, seq] of seqs.entries()) {
    if (!Array.isArray(seq?.steps)) return `This beam search cannot be drawn: sequence ${index} has no list of steps.`;
    let before: number | null = null;
    for (const [number, step] of seq.steps.entries()) {
      const wrong = fault(step, before) || armsFault(seq.arms, step, seq.steps.length);
      if (wrong) return `This beam search cannot be drawn: sequence ${index}, step ${number}: ${wrong}.`;
      before = step.tokens.length;
    }
  }
  return null;
}

/** As in rfnb/viz/beams/tree.py. */
function armsFault(arms: Arms | undefined, { states, tokens }: StepSpec, steps: number): string | null {
  if (arms === undefined || arms === null) return null;
  const { at, split, names, ends, best } = arms,
    whole = (number: unknown) => Number.isInteger(number) && (number as number) >= 0;
  if (!whole(at) || !whole(split) || !names || !ends || !best) return "arms have at, split, names, ends and best";
  if (![names, ends].every((list) => Array.isArray(list) && list.length === 2))
    return "names and ends of arms are one for each of two";
  if (!Array.isArray(best) || !best.every(([step]) => whole(step) && step < steps))
    return "the path of the second winner leaves the search";
  return states?.length === tokens.length ? null : "a step of two searches has a state for each hypothesis";
}

function fault(step: StepSpec, before: number | null): string | null {
  const lists = [step?.tokens, step?.parents, step?.scores, step?.ended];
  if (!lists.every(Array.isArray)) return "tokens, parents, scores and ended must be lists";
  const sizes = lists.map((list) => list.length);
  if (new Set(sizes).size > 1) return `tokens, parents, scores and ended have ${sizes.join(", ")} entries`;
  if (before === null) return null;
  for (const parent of [...step.parents, ...(step.cuts ?? []).map((cut) => cut.parent)]) {
    if (!(Number.isInteger(parent) && parent >= 0 && parent < before))
      return `a parent is ${line(String(JSON.stringify(parent)))}, but the step before has ${before} hypotheses`;
  }
  return null;
}
