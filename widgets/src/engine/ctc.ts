// CTC prefix search, the same as rf.ctc_prefix_beam_search (rfnb/search/ctc_prefix.py): the label sequences with the largest probability, summed
// over their alignments. Hannun et al. 2014, algorithm 1.

import type { Axis, Named } from "./array";
import { lengthOf, named, ordered, shapeOf, sizeOf } from "./array";
import { bestOf } from "./search";

/** A label sequence: the probabilities of its alignments that end in a blank, and of those that end in its last label. */
interface Prefix {
  labels: number[];
  blank: number;
  label: number;
  total: number;
}

const plus = (a: number, b: number): number => {
  const top = Math.max(a, b);
  return top === -Infinity ? top : top + Math.log1p(Math.exp(Math.min(a, b) - top));
};

export function prefixSearch(
  given: Record<string, unknown>,
  as: { dims: Axis[]; sparse: Axis | null }[],
  size: (axis: Axis) => number,
): Named[] {
  const logits = given["logits"] as Named,
    time = given["in_spatial_dim"] as Axis,
    classes = given["classes"] as Axis,
    rest = logits.dims.filter((axis) => axis !== time && axis !== classes),
    [frames, width] = [lengthOf(logits, time), size(classes)],
    count = given["beam_size"] as number,
    blank = ((given["blank_index"] as number) + width) % width;
  if (sizeOf(shapeOf(rest, [logits])) !== 1) throw new Error("a page searches for one sequence");
  const { values } = ordered(logits, [...rest, time, classes]);
  let beam: Prefix[] = [{ labels: [], blank: 0, label: -Infinity, total: 0 }];
  for (let frame = 0; frame < frames; frame++) {
    const row = Float64Array.from(values.subarray(frame * width, (frame + 1) * width));
    if (!given["logits_normalized"]) normalize(row);
    if (row.some(Number.isNaN))
      throw new Error("The model computes NaN for this text: its weights are damaged, or it divides by 0.");
    beam = after(beam, row, blank, count);
  }
  const empty = { labels: [], blank: -Infinity, label: -Infinity, total: -Infinity },
    all: Prefix[] = Array.from({ length: count }, (_, at) => beam[at] ?? empty),
    longest = Math.max(...all.map(({ labels }) => labels.length)),
    labels = new Int32Array(count * longest);
  all.forEach((one, at) => labels.set(one.labels, at * longest));
  const ones = rest.map(() => 1),
    out = as[0]!.dims.find((axis) => axis !== "beam" && !rest.includes(axis))!;
  return [
    named([...rest, "beam", out], [...ones, count, longest], labels, 0, as[0]!.sparse),
    named(
      [...rest, "beam"],
      [...ones, count],
      Float32Array.from(all, ({ total }) => total),
    ),
  ];
}

/** Natural-log probabilities of logits, in float32 as in the kernel. */
function normalize(row: Float64Array): void {
  const top = row.reduce((most, one) => Math.max(most, one), -Infinity),
    sum = top + Math.log(row.reduce((all, one) => all + Math.exp(one - top), 0));
  for (let at = 0; at < row.length; at++) row[at] = Math.fround(row[at]! - sum);
}

/** The best prefixes after a frame, best first. */
function after(beam: Prefix[], row: Float64Array, blank: number, count: number): Prefix[] {
  const width = row.length,
    scores = new Float64Array(beam.length * width),
    stays: [blank: number, label: number][] = [],
    slots = new Map(beam.map(({ labels }, slot) => [labels.join(), slot]));
  beam.forEach(({ labels, blank: inBlank, label: inLabel, total }, slot) => {
    const last = labels.at(-1) ?? blank;
    for (let label = 0; label < width; label++) scores[slot * width + label] = total + row[label]!;
    scores[slot * width + last] = inBlank + row[last]!; // the same label again needs a blank before it
    stays.push([total + row[blank]!, inLabel + row[last]!]);
  });
  beam.forEach(({ labels }, slot) => {
    const parent = labels.length ? slots.get(labels.slice(0, -1).join()) : undefined;
    if (parent === undefined) return;
    const place = parent * width + labels.at(-1)!; // the same labels by another path
    stays[slot]![1] = plus(stays[slot]![1], scores[place]!);
    scores[place] = -Infinity;
  });
  stays.forEach(([inBlank, inLabel], slot) => (scores[slot * width + blank] = plus(inBlank, inLabel)));
  return Array.from(bestOf(scores, Math.min(count, scores.length)), (at): Prefix => {
    const { labels } = beam[Math.floor(at / width)]!,
      label = at % width,
      total = scores[at]!,
      [inBlank, inLabel] = label === blank ? stays[Math.floor(at / width)]! : [-Infinity, total];
    return { labels: label === blank ? labels : [...labels, label], blank: inBlank, label: inLabel, total };
  }).filter(({ total }) => total > -Infinity);
}
