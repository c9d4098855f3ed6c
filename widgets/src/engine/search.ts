// One step of a search: which continuations survive. The same as rf.choice with the same options (rfnb/search/choose.py).

import type { Axis, Named } from "./array";
import { lengthOf, named, ordered, sizeOf } from "./array";

/** The result of one step: for each surviving hypothesis its parent, its label and its score. */
export interface Decided {
  parents: Int32Array;
  labels: Int32Array;
  scores: Float32Array;
  /** All ranked continuations, {hypotheses, labels}; -Infinity: not a continuation. */
  total: Float32Array;
  /** With a threshold, the least passing score, and `total` before it. */
  threshold?: { least: number; total: Float32Array };
  /** Natural-log probabilities of the labels alone, {hypotheses, labels}. */
  logs: Float32Array;
  /** By surviving hypothesis, whether it is complete. */
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
  no_repeat_ngram?: number;
  banned?: number[];
  input_type?: string;
}

/** When a search stops before its last step, as rfnb/search/early_stop.py has it. */
export interface StopSpec {
  best: number; // number of required results
  exponent: number; // of the length
  rule: "sure" | "likely" | "complete";
}

/** A search so far: the score of each hypothesis, whether it has ended, its number of steps, and how many of them affected it. */
export interface Beams {
  scores: Float32Array;
  ended: boolean[];
  lengths: number[];
  counts: number[];
}

export function choose(
  scores: Named,
  axis: Axis,
  beams: Beams | null,
  options: Options,
  steps: readonly Decided[],
  best = (total: Float32Array, _width: number, count: number): Int32Array => bestOf(total, count),
): Decided {
  const rest = scores.dims.filter((one) => one !== axis && one !== "beam"),
    width = lengthOf(scores, axis),
    count = beams?.scores.length ?? 1,
    step = steps.length,
    shape = [...rest.map((one) => lengthOf(scores, one)), count, width];
  if (sizeOf(shape) !== count * width) throw new Error("a page searches for one sequence");
  const own = ordered(scores, [...rest, "beam", axis], shape).values,
    total = new Float32Array(count * width),
    logs = new Float32Array(count * width),
    { end_label: end = 0, prob_scale = 1, base_beam_score_scale: base_scale = 1 } = options,
    exponent = options.length_normalization ? (options.length_normalization_exponent ?? 1) : null;
  for (let slot = 0; slot < count; slot++) {
    const ended = beams?.ended[slot] ?? false,
      longer = ended && exponent !== null ? ((step + 1) / step) ** exponent : 1, // scores of ended hypotheses grow relative to longer ones
      base = (beams?.scores[slot] ?? 0) * longer,
      before = base === -Infinity ? base : base * base_scale;
    const row = logs.subarray(slot * width, (slot + 1) * width);
    toLogs(row, own.subarray(slot * width, (slot + 1) * width), options.input_type);
    for (let label = 0; label < width; label++) {
      const at = slot * width + label,
        log = row[label]!;
      total[at] = before + (ended ? (label === end ? 0 : -Infinity) : log === -Infinity ? log : prob_scale * log);
    }
  }
  for (let slot = 0; slot < count; slot++)
    if (!beams?.ended[slot])
      for (const label of [...(options.banned ?? []), ...again(steps, slot, options.no_repeat_ngram ?? 0)])
        total[slot * width + label] = -Infinity;
  let threshold: Decided["threshold"];
  if (options.threshold !== undefined) {
    const least = total.reduce((most, one) => Math.max(most, one), -Infinity) - options.threshold;
    threshold = { least, total: total.slice() };
    for (let at = 0; at < total.length; at++) if (total[at]! < least) total[at] = -Infinity;
  }
  if (total.some(Number.isNaN))
    throw new Error("The model computes NaN for this text: its weights are damaged, or it divides by 0.");
  const kept = best(total, width, Math.min(options.beam_size, total.length)),
    there = kept.map((at) => (total[at] === -Infinity ? 0 : at)); // missing ones are label 0 of the first hypothesis
  return {
    parents: there.map((at) => Math.floor(at / width)),
    labels: there.map((at) => at % width),
    scores: Float32Array.from(kept, (at) => total[at]!),
    total,
    ...(threshold && { threshold }),
    logs,
    ended: [],
    width,
    dims: rest,
  };
}

/** Natural-log probabilities from a model's scores of labels. */
function toLogs(into: Float32Array, given: Float32Array | Int32Array, type = "log_prob"): void {
  let less = 0; // the log of the sum
  if (type === "logits") {
    const values = given as Float32Array,
      top = values.reduce((most, one) => Math.max(most, one), -Infinity);
    less = top + Math.log(values.reduce((sum, one) => sum + Math.exp(one - top), 0));
  }
  for (let at = 0; at < given.length; at++)
    into[at] = type === "prob" ? Math.log(Math.max(given[at]!, 1e-20)) : given[at]! - less;
}

/** The labels that would repeat an n-gram of the hypothesis in a slot. */
function again(steps: readonly Decided[], slot: number, length: number): number[] {
  if (!length || steps.length < length) return [];
  const [labels] = wayOf(steps, slot),
    head = labels.length - length + 1;
  return labels.slice(length - 1).filter((_, from) => {
    for (let at = 0; at < length - 1; at++) if (labels[from + at] !== labels[head + at]) return false;
    return true;
  });
}

/** The positions of the largest values, best first; ties in order. */
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

/** The labels of the hypothesis in a slot after a step, and its slots, first to last. */
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

/** Whether a search has its results. */
export class Stop {
  private readonly found: number[] = [];
  private largest = 0; // the largest growth of a score in a step, by rounding
  private falls = true;

  constructor(
    private readonly spec: StopSpec,
    private readonly most: number, // steps
  ) {}

  /** Updates after a step. `before`: whether each had ended. */
  after({ scores, parents, labels, logs, width, ended }: Decided, before: Beams | null, length: number): boolean {
    const { best, exponent, rule } = this.spec;
    let going = -Infinity;
    scores.forEach((score, slot) => {
      const parent = parents[slot]!;
      if (score === -Infinity) return;
      if (!ended[slot]) going = Math.max(going, score);
      if (before?.ended[parent]) return;
      if (ended[slot]) this.found.push(score / length ** exponent);
      const grown = score - (before?.scores[parent] ?? 0);
      this.largest = Math.max(this.largest, grown);
      if (grown > ROUNDING || logs[parent * width + labels[slot]!]! > ROUNDING) this.falls = false;
    });
    this.found.sort((a, b) => b - a);
    if (going === -Infinity) return true;
    const last = this.found[best - 1];
    if (last === undefined || rule === "complete") return last !== undefined;
    if (rule === "likely") return last >= going / length ** exponent;
    const top = going + this.largest * (this.most - length),
      bound = top / this.most ** Math.max(exponent, 0);
    return this.falls && last >= (top > 0 ? Math.max(bound, top) : bound);
  }
}
const ROUNDING = 1e-6; // tolerance for the logarithm of a rounded probability above 0
