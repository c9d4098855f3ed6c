// One step of a search: which continuations go on. Equal to rf.choice with the same options (rfnb/search/choose.py).

import type { Axis, Named } from "./array";
import { lengthOf, named, ordered, sizeOf } from "./array";

/** What became of one step: for each hypothesis that goes on its parent, its label and its score. */
export interface Decided {
  parents: Int32Array;
  labels: Int32Array;
  scores: Float32Array;
  /** All continuations that were ranked, {hypotheses, labels}, -Infinity: none. */
  total: Float32Array;
  /** Natural-log probabilities of the labels alone, {hypotheses, labels}. */
  logs: Float32Array;
  /** By hypothesis that goes on, whether it is complete. */
  ended: boolean[];
  width: number; // labels
  dims: Axis[]; // of sequences
}
export interface Options {
  beam_size: number;
  end_label?: number;
  prob_scale?: number;
  base_beam_score_scale?: number;
  length_normalization?: boolean;
  length_normalization_exponent?: number;
  threshold?: number;
  banned?: number[];
  input_type?: string;
}

/** Of a search so far: for each hypothesis its score, whether it has ended, and the steps that it has. */
export interface Beams {
  scores: Float32Array;
  ended: boolean[];
  lengths: number[];
}

export function choose(
  scores: Named,
  axis: Axis,
  beams: Beams | null,
  options: Options,
  step: number,
  best = (total: Float32Array, _width: number, count: number): Int32Array => bestOf(total, count),
): Decided {
  const rest = scores.dims.filter((one) => one !== axis && one !== "beam"),
    width = lengthOf(scores, axis),
    count = beams?.scores.length ?? 1,
    shape = [...rest.map((one) => lengthOf(scores, one)), count, width];
  if (sizeOf(shape) !== count * width) throw new Error("a page searches for one sequence");
  const own = ordered(scores, [...rest, "beam", axis], shape).values,
    total = new Float32Array(count * width),
    logs = new Float32Array(count * width),
    { end_label: end = 0, prob_scale = 1, base_beam_score_scale: base_scale = 1 } = options,
    exponent = options.length_normalization ? (options.length_normalization_exponent ?? 1) : null;
  for (let slot = 0; slot < count; slot++) {
    const ended = beams?.ended[slot] ?? false,
      longer = ended && exponent !== null ? ((step + 1) / step) ** exponent : 1, // what has ended grows as the others get longer
      base = (beams?.scores[slot] ?? 0) * longer,
      before = base === -Infinity ? base : base * base_scale;
    for (let label = 0; label < width; label++) {
      const at = slot * width + label,
        log = (logs[at] = logOf(own[at]!, options.input_type));
      total[at] = before + (ended ? (label === end ? 0 : -Infinity) : log === -Infinity ? log : prob_scale * log);
    }
  }
  for (const label of options.banned ?? [])
    for (let slot = 0; slot < count; slot++) if (!beams?.ended[slot]) total[slot * width + label] = -Infinity;
  if (total.some(Number.isNaN))
    throw new Error("The model computes NaN for this text: its weights are damaged, or it divides by 0.");
  const kept = best(total, width, Math.min(options.beam_size, total.length));
  return {
    parents: kept.map((at) => Math.floor(at / width)),
    labels: kept.map((at) => at % width),
    scores: Float32Array.from(kept, (at) => total[at]!),
    total,
    logs,
    ended: [],
    width,
    dims: rest,
  };
}

const logOf = (value: number, type = "log_prob"): number => (type === "prob" ? Math.log(value) : value);

/** The places of the largest values, best first; of equal ones the first. */
export function bestOf(values: ArrayLike<number>, count: number): Int32Array {
  const found = new Int32Array(count);
  let filled = 0;
  for (let at = 0; at < values.length; at++) {
    const value = values[at]!;
    if (filled === count && !(value > values[found[count - 1]!]!)) continue;
    let place = filled < count ? filled++ : count - 1;
    while (place > 0 && value > values[found[place - 1]!]!) {
      found[place] = found[place - 1]!;
      place--;
    }
    found[place] = at;
  }
  return found;
}

/** The labels of the hypothesis that is in a slot after a step, and where it was in each: first to last. */
export function wayOf(
  steps: readonly Decided[],
  slot: number,
  last = steps.length - 1,
): [labels: number[], slots: number[]] {
  const labels: number[] = [],
    slots: number[] = [];
  for (let step = last; step >= 0; step--) {
    labels.unshift(steps[step]!.labels[slot]!);
    slots.unshift(slot);
    slot = steps[step]!.parents[slot]!;
  }
  return [labels, slots];
}

export const hypotheses = (values: Int32Array | Float32Array, dims: Axis[], turn: number, sparse: Axis | null): Named =>
  named([...dims, "beam"], [...dims.map(() => 1), values.length], values, turn, sparse);
