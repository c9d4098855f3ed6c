// A range of steps and a threshold: the units that are on in the whole range, and where else they are on. The mirror image of rfnb/viz/states/orders.py.

import { times } from "../list";
import type { Block } from "../block";
import type { ExactOf } from "../exact_values";
import type { SeqEntry } from "./scene";

/** Steps from `start` up to, not including, `stop`, of a sequence of a track. */
export interface Brush {
  track: number;
  seq: number;
  start: number;
  stop: number;
  threshold: number;
}
/** The result of a brush. */
export interface Found {
  here: number[]; // units that are on in all steps of the range
  only: number[]; // those that are on in no other step of the sequence
  places: Place[]; // other ranges of steps in which all of them are on
  share: Float32Array; // by [seq, step]: the fraction of them that is on
  about: boolean; // whether the values in the page are approximate
}
export interface Place {
  seq: number;
  start: number;
  stop: number;
}

/** Whether a value is on: at least the threshold; below 0, at most it. */
const onFor = (threshold: number): ((value: number) => boolean) => {
  const limit = Math.fround(threshold);
  return limit >= 0 ? (value) => value >= limit : (value) => value <= limit;
};

/** Uses exact values from the kernel; without one the result is approximate, and says so. */
export async function find(block: Block, name: string, seqs: SeqEntry[], brush: Brush, of: ExactOf): Promise<Found> {
  const [, steps = 0, units = 0] = block.shape;
  let counts: ArrayLike<number> | null = null,
    share: Float32Array | null = null;
  if (!block.exact) {
    const which = `${brush.seq}/${brush.start}/${brush.stop}/${brush.threshold}`;
    const ask = (what: string, size: number[]) =>
      of.ask({ block: `${name}/${what}/${which}`, start: size.map(() => 0), size });
    counts = await ask("on", [2, units]);
    if (counts) share = await ask("elsewhere", [block.shape[0]!, steps]);
  }
  const about = !block.exact && !share;
  if (!counts || !share) {
    counts = countsOf(block, seqs, brush);
    share = shareOf(block, seqs, brush, chosen(counts, units, brush));
  }
  const here = chosen(counts, units, brush);
  const only = here.filter((unit) => counts[units + unit] === 0);
  return { here, only, places: placesOf(share, seqs, steps, brush), share, about };
}

const chosen = (counts: ArrayLike<number>, units: number, { start, stop }: Brush): number[] =>
  times(units, (unit) => unit).filter((unit) => counts[unit] === stop - start);

/** By unit, the number of steps of the range in which it is on, then of other steps of the sequence. */
export function countsOf(block: Block, seqs: SeqEntry[], { seq, start, stop, threshold }: Brush): Float32Array {
  const units = block.shape[2]!,
    on = onFor(threshold),
    counts = new Float32Array(2 * units);
  for (let step = 0; step < seqs[seq]!.len; step++) {
    const side = step >= start && step < stop ? 0 : units;
    for (let unit = 0; unit < units; unit++) if (on(block.at(seq, step, unit))) counts[side + unit]!++;
  }
  return counts;
}

/** By [seq, step], the fraction of some units that is on; NaN after ends, and without units. */
export function shareOf(block: Block, seqs: SeqEntry[], { threshold }: Brush, some: number[]): Float32Array {
  const steps = block.shape[1]!,
    on = onFor(threshold),
    share = new Float32Array(block.shape[0]! * steps).fill(NaN);
  if (some.length)
    seqs.forEach(({ len }, seq) => {
      for (let step = 0; step < len; step++)
        share[seq * steps + step] = some.filter((unit) => on(block.at(seq, step, unit))).length / some.length;
    });
  return share;
}

/** The ranges of steps in which all are on, except for the chosen one; those of other sequences first. */
function placesOf(share: Float32Array, seqs: SeqEntry[], steps: number, brush: Brush): Place[] {
  const places: Place[] = [];
  seqs.forEach(({ len }, seq) => {
    for (let step = 0; step < len; step++) {
      if (share[seq * steps + step] !== 1 || (seq === brush.seq && step >= brush.start && step < brush.stop)) continue;
      const last = places[places.length - 1];
      if (last?.seq === seq && last.stop === step) last.stop = step + 1;
      else places.push({ seq, start: step, stop: step + 1 });
    }
  });
  return places.sort((one, other) => Number(one.seq === brush.seq) - Number(other.seq === brush.seq));
}
