// The decisions of a search in the engine, as one sequence of a `beams` spec: the same as rfnb/viz/beams/spec.py and tree.py.

import type { CutSpec, SeqSpec, State, StepSpec } from "../beams/tree";
import { grow, pathOf, prefix } from "../beams/tree";
import type { Looped } from "./engine";
import type { Decided } from "./search";
import { bestOf } from "./search";

const NEXT = 5, // number of best labels listed per hypothesis
  CUTS = 8; // number of best pruned candidates listed

export const rounded = (value: number, digits = 5): number => {
  const scale = 10 ** digits;
  return Math.round(value * scale) / scale || 0; // no -0
};

/** The sequence; `name`: the text of a label. */
export function seqOf(looped: Looped, name: (label: number) => string, exponent: number, join: string): SeqSpec {
  const { steps } = looped,
    cut = steps.map((decided) => cutsOf(decided, name)),
    states = statesOf(steps),
    told: StepSpec[] = [];
  steps.forEach((decided, at) => {
    const before = told[at - 1],
      kept = Array.from(decided.scores),
      cuts = cut[at]!;
    told.push({
      tokens: Array.from(decided.labels, (label, slot) =>
        states[at]![slot] === "carried" ? before!.tokens[decided.parents[slot]!]! : name(label),
      ),
      parents: Array.from(decided.parents, (parent, slot) => (Number.isFinite(kept[slot]) ? parent : 0)),
      scores: kept.map((score) => (Number.isFinite(score) ? rounded(score) : null)),
      ended: [...decided.ended],
      ids: Array.from(decided.labels),
      cuts,
      states: states[at]!,
      next: nextOf(decided, cuts, states[at - 1] ?? null, name),
    });
  });
  const [first] = grow({ steps: told }, exponent).nbest,
    path = first ? pathOf(first) : [];
  return { steps: told, best: path.map(({ step, slot }) => [step, slot]), result: prefix(path, join) };
}

/** The fate of each hypothesis: `_states` of tree.py; a complete one keeps its slot while it is among the best. */
function statesOf(steps: readonly Decided[]): (State | null)[][] {
  const end = steps.length - 1,
    there = steps.map(({ scores }) => Array.from(scores, Number.isFinite)),
    states: (State | null)[][] = steps.map(({ scores }) => Array.from(scores, () => null)),
    lasts = steps.map(({ scores }, step) => Array.from(scores, () => step)),
    goesOn = steps.map(({ scores }) => Array.from(scores, () => false));
  for (let step = end; step >= 0; step--)
    steps[step]!.parents.forEach((parent, slot) => {
      if (!there[step]![slot]) return;
      const before = steps[step - 1],
        state = (states[step]![slot] = before?.ended[parent]
          ? "carried"
          : steps[step]!.ended[slot]
            ? lasts[step]![slot] === end
              ? "ended"
              : "dropped"
            : step === end || goesOn[step]![slot]
              ? "alive"
              : "dead");
      if (!before) return;
      lasts[step - 1]![parent] = Math.max(lasts[step - 1]![parent]!, lasts[step]![slot]!);
      if (state === "alive" || state === "ended") goesOn[step - 1]![parent] = true;
    });
  return states;
}

/** The best pruned candidates. */
function cutsOf({ parents, labels, scores, total, width }: Decided, name: (label: number) => string): CutSpec[] {
  const kept = Array.from(scores),
    survived = kept.filter(Number.isFinite),
    there = new Set(Array.from(parents, (parent, slot) => parent * width + labels[slot]!));
  const candidates = Array.from(bestOf(total, Math.min(Math.max(2 * kept.length, CUTS), total.length)));
  return candidates
    .filter((at) => !there.has(at) && Number.isFinite(total[at]))
    .slice(0, CUTS)
    .map((at, number) => {
      const score = rounded(total[at]!),
        least = Math.min(...survived.map((one) => rounded(one)));
      return {
        token: name(at % width),
        parent: Math.floor(at / width),
        score,
        id: at % width,
        margin: rounded(score - least),
        verdict: verdictOf(least - score, survived.length + number + 1),
      };
    });
}

function verdictOf(behind: number, rank: number): string {
  const words = (value: number) => `${value.toFixed(value > 0 && value < 0.005 ? 5 : 2)} nats`;
  return behind >= 0
    ? `cut: rank ${rank}, ${words(behind)} behind the last survivor`
    : `cut: rank ${rank}, although ${words(-behind)} ahead of the last survivor`;
}

/** By slot of the previous step, the best labels that could continue its hypothesis: top_labels.py. */
function nextOf(
  { parents, scores, logs, width }: Decided,
  cuts: CutSpec[],
  before: (State | null)[] | null,
  name: (label: number) => string,
): StepSpec["next"] {
  const count = logs.length / width,
    from = before ? [...parents].filter((_, slot) => Number.isFinite(scores[slot])) : [0],
    slots = [...new Set([...from, ...cuts.map(({ parent }) => parent)])]
      .filter((slot) => !["ended", "carried", "dropped"].includes(before?.[slot] ?? "alive"))
      .sort((a, b) => a - b);
  return Object.fromEntries(
    (count === 1 ? slots.slice(0, 1) : slots).map((slot) => {
      const own = logs.subarray(slot * width, (slot + 1) * width);
      return [
        count === 1 ? "all" : String(slot),
        Array.from(bestOf(own, Math.min(NEXT, width)))
          .filter((label) => Number.isFinite(own[label]))
          .map((label): [string, number, number] => [name(label), rounded(own[label]!, 4), label]),
      ];
    }),
  );
}
