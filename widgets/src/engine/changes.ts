// Edits in a run of the engine: forced and banned labels, rows of attention, entries of a state. In a kernel,
// rfnb/search/forced_labels.py, rfnb/control/attention_rows.py and rfnb/control/commands.py apply them.

import type { Command } from "../run";
import type { Axis, Named } from "./array";
import { each } from "./array";
import type { ProgramSpec } from "./program";
import { bestOf } from "./search";

/** Commands to apply before a step of a loop. */
export interface Change {
  path: string;
  nth?: number; // which of the loops with this path; the first
  step: number;
  then: Command[];
}
type Entries = Record<string, number>;

/** Applies the commands of a step to a choice over `total`, {hypotheses, labels}. */
export class Decisions {
  private readonly forced: number[] = [];

  constructor(commands: readonly Command[], total: Float32Array, width: number, vocab: readonly string[] | null) {
    const count = total.length / width,
      free = total.slice();
    const placeOf = ({ label, hypothesis }: Command): number => {
      const index = typeof label === "number" ? label : (vocab?.indexOf(String(label)) ?? -1),
        slot = (hypothesis as number | null) ?? 0;
      if (!(index >= 0 && index < width)) throw new Error(`There is no label “${String(label)}”.`);
      if (slot >= count) throw new Error(`There is no hypothesis ${slot} before this step.`);
      return slot * width + index;
    };
    const own = commands.filter(({ do: name }) => name === "force" || name === "ban");
    if (own.some(({ do: name, only }) => name === "force" && only)) total.fill(-Infinity);
    for (const one of own) {
      const place = placeOf(one);
      if (one.do === "force") this.forced.push(place);
      else if (one["hypothesis"] == null)
        for (let at = place % width; at < total.length; at += width) total[at] = -Infinity;
      else total[place] = -Infinity;
    }
    for (const place of this.forced) {
      total[place] = free[place]!;
      if (total[place] === -Infinity)
        throw new Error(
          "The forced label is impossible here: the model gives it no probability, or its hypothesis is complete.",
        );
    }
  }

  /** The best positions, with forced ones replacing the last. */
  best(total: Float32Array, count: number): Int32Array {
    const kept = bestOf(total, count),
      places = [...kept.keys()].filter((slot) => !this.forced.includes(kept[slot]!));
    for (const place of this.forced) if (!kept.includes(place) && places.length) kept[places.pop()!] = place;
    return kept;
  }
}

/** Whether an entry of an array is selected by names of dims; names that the array lacks are ignored. */
function meant(array: Named, entries: Entries, program: ProgramSpec): (entry: number) => boolean {
  const axes = array.dims.map((axis) => entries[nameOf(axis, program)] ?? -1),
    strides = array.shape.map((_, at) => array.shape.slice(at + 1).reduce((size, one) => size * one, 1));
  axes.forEach((entry, at) => {
    if (entry >= array.shape[at]!) throw new Error(`There is no ${nameOf(array.dims[at]!, program)} ${entry}.`);
  });
  return (entry) =>
    axes.every((wanted, at) => wanted < 0 || Math.floor(entry / strides[at]!) % array.shape[at]! === wanted);
}

const nameOf = (axis: Axis, program: ProgramSpec): string =>
  typeof axis === "number" ? program.dims[axis]!.name : axis;

/** A state with other entries. */
export function withSet(state: Named, { entries, value, how, amount }: Command, program: ProgramSpec): Named {
  const is = meant(state, (entries ?? {}) as Entries, program),
    values = state.values.slice();
  if (how != null && how !== "zero" && how !== "scale")
    throw new Error(`A page cannot change a state by “${String(how)}”.`);
  const given = Array.isArray(value) ? (value as number[]) : null;
  let at = 0;
  for (let entry = 0; entry < values.length; entry++)
    if (is(entry))
      values[entry] =
        how === "zero"
          ? 0
          : how === "scale"
            ? values[entry]! * Number(amount)
            : given
              ? given[at++ % given.length]!
              : Number(value);
  if (values.some((one) => !Number.isFinite(one))) throw new Error("A state takes finite numbers.");
  return { ...state, values };
}

/** Weights over an axis with other rows. */
export function withRows(weights: Named, command: Command, axis: Axis, program: ProgramSpec): Named {
  const { entries, row, sharpen, focus, hide, uniform } = command,
    is = meant(weights, (entries ?? {}) as Entries, program),
    at = weights.dims.indexOf(axis),
    length = weights.shape[at]!,
    stride = weights.shape.slice(at + 1).reduce((size, one) => size * one, 1),
    values = weights.values.slice();
  const index = (focus ?? hide) as number | undefined | null;
  if (index != null && !(typeof index === "number" && index >= 0 && index < length))
    throw new Error(`There is no position ${String(index)} to attend to.`);
  if (Array.isArray(row) && row.length !== length)
    throw new Error(`A row has ${length} weights here, and ${row.length} are given.`);
  const rest = weights.dims.filter((one) => one !== axis),
    shape = weights.shape.filter((_, one) => one !== at);
  each(rest, shape, [weights], ([begin]) => {
    if (!is(begin!)) return;
    const old = Array.from({ length }, (_, one) => values[begin! + one * stride]!);
    let made = old;
    if (Array.isArray(row)) made = row as number[];
    else if (uniform) made = old.map(() => 1 / length);
    else if (focus != null) made = old.map((_, one) => Number(one === index));
    else if (hide != null) made = old.map((one, place) => (place === index ? 0 : one));
    else if (typeof sharpen === "number") made = old.map((one) => one ** (1 / sharpen));
    const sum = made.reduce((total, one) => total + one, 0);
    if (!(sum > 0)) throw new Error("A row of weights cannot be 0 everywhere.");
    made.forEach((one, place) => (values[begin! + place * stride] = Array.isArray(row) ? one : one / sum));
  });
  return { ...weights, values };
}

/** An edit in the words of a kernel. */
export const wordsOf = (command: Command): string => {
  const { do: name, label, hypothesis, state, path } = command;
  if (name === "force" || name === "ban")
    return `${name === "force" ? "forced" : "banned"} ${String(label)} for ${hypothesis == null ? "all hypotheses" : `hypothesis ${String(hypothesis)}`}`;
  return name === "set" ? `changed ${String(state)}` : `changed ${String(path)}`;
};
