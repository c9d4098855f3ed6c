// The frame of a view of the best hypothesis, changed to another one: its rows are in the page by slot (rfnb/viz/hypotheses.py), or in the kernel.

import { exactBlock } from "./block";
import type { ExactOf } from "./exact_values";
import type { AnyHead, Frame } from "./frame";
import type { Hypothesis } from "./selection";

interface Entry {
  block: string;
  slots?: string;
  before?: boolean; // computed before the choice of a step, in its slots
  seqs?: number[];
}
interface Seq {
  rows?: string[];
  row_len?: number;
  steps?: string[];
  len?: number;
}
interface BestHead extends AnyHead {
  best?: boolean;
  badges?: string[];
  orders?: unknown;
  maps?: Entry[];
  tracks?: Entry[];
  seqs: Seq[];
}

/** A prefix of block names: the kernel's data under the plain name is for the best hypothesis. */
const OWN = "hypothesis/";

/** Fields for the best hypothesis only: the text of its rows. */
const OF_THE_BEST = ["notes", "says", "looks", "norms", "remark", "sums"];

/** Whether a view shows a hypothesis, so that it could show another one. */
export const followsOne = (frame: Frame): boolean => !!(frame.head as BestHead).best;

/** The view of another hypothesis of a sequence; null if neither the page nor a kernel has its rows. */
export async function followed<H extends AnyHead>(
  frame: Frame<H>,
  seq: number,
  hypothesis: Hypothesis,
  exact: ExactOf,
): Promise<Frame<H> | null> {
  const { head, blocks } = frame as unknown as Frame<BestHead>;
  const { maps, tracks } = head,
    entries = maps ?? tracks ?? [];
  if (!entries.length) return null; // only for the best one
  const made: Frame["blocks"] = { ...blocks };
  for (const entry of entries) {
    const at = entry.seqs ? entry.seqs.indexOf(seq) : seq,
      before = blocks[entry.block],
      slots = entry.before ? hypothesis.before : hypothesis.after;
    if (at < 0) continue;
    const rows = entry.slots && before ? await rowsOf(frame, entry.slots, at, slots, before.shape[2]!, exact) : null;
    if (!rows || !before) return null;
    const [count = 0, steps = 0, cols = 0] = before.shape,
      most = Math.max(steps, slots.length);
    const data = new Float32Array(count * most * cols).fill(NaN); // the page may lack exact values of the others
    if (before.exact)
      for (let other = 0; other < count; other++)
        data.set(before.data.subarray(other * steps * cols, (other + 1) * steps * cols), other * most * cols);
    data.fill(NaN, at * most * cols, (at + 1) * most * cols);
    data.set(rows, at * most * cols);
    made[OWN + entry.block] = exactBlock(data, [count, most, cols]);
  }
  delete made["badges"];
  const plain = (entry: Entry): Entry =>
    ({
      ...Object.fromEntries(Object.entries(entry).filter(([name]) => !OF_THE_BEST.includes(name))),
      block: OWN + entry.block,
    }) as Entry;
  const length = (maps ? hypothesis.before : hypothesis.after).length,
    labels = hypothesis.labels.slice(0, length);
  const seqs = head.seqs.map((one, index) =>
    index !== seq ? one : maps ? { ...one, rows: labels, row_len: length } : { ...one, steps: labels, len: length },
  );
  const { badges: _, orders: __, ...rest } = head;
  const changed = {
    ...rest,
    best: false,
    title: `${(head.title ?? "").replace(/, best hypothesis/, "")}, hypothesis: ${hypothesis.text}`,
    seqs,
    ...(maps ? { maps: maps.map(plain) } : { tracks: entries.map(plain) }),
  };
  return { kind: frame.kind, head: changed as unknown as H, blocks: made };
}

async function rowsOf(
  { blocks }: Frame,
  name: string,
  seq: number,
  slots: number[],
  cols: number,
  exact: ExactOf,
): Promise<Float32Array | null> {
  const block = blocks[name];
  if (!block?.exact)
    return exact.ask({ block: name, start: [seq, 0, 0, 0], size: [1, slots.length, 1, cols], pick: slots });
  const [, steps = 0, most = 0, own = 0] = block.shape;
  if (own !== cols || slots.length > steps || slots.some((slot) => slot >= most)) return null;
  const rows = new Float32Array(slots.length * cols);
  slots.forEach((slot, step) => {
    for (let col = 0; col < cols; col++)
      rows[step * cols + col] = block.value(((seq * steps + step) * most + slot) * cols + col);
  });
  return rows;
}
