// From a `distribution` spec to positions: a row for each step, whose probabilities are one bar with a segment for each label.

import type { AnyHead, Frame } from "../frame";
import type { Measure } from "../labels";
import { shorten } from "../labels";

interface DimEntry {
  name: string;
  size?: number | null;
}
export interface SeqEntry {
  label: string;
  len: number;
  steps: string[];
  right?: number;
  known?: number;
  loss?: number | null;
  note?: string;
}
export interface Head extends AnyHead {
  step_dim: DimEntry | null;
  vocab_dim: DimEntry;
  estimated_type: string;
  found?: boolean;
  reference: boolean;
  tokens: Record<string, string>;
  seqs: SeqEntry[];
}

/** One label of a step. */
export interface Share {
  label: string;
  logProb: number;
  prob: number;
}
export interface Row {
  name: string;
  best: Share[]; // empty: this step has no numbers
  rest: number;
  entropy: number;
  reference: string | null;
  logProb: number; // of the reference
  rank: number; // 1: the reference is the best label; 0: no reference
}
export interface Scene {
  seq: SeqEntry;
  stepName: string;
  vocabName: string;
  size: number;
  reference: boolean;
  rows: Row[];
}

const KINDS: Record<string, string> = {
  probs: "probabilities",
  "log-probs": "log probabilities",
  logits: "logits",
};

/** The fault of a frame as a sentence; null if it can be drawn. The same as in rfnb/viz/distribution/content.py. */
export function problem({ head, blocks }: Frame<Head>): string | null {
  const { seqs, tokens }: Partial<Head> = head;
  if (!Array.isArray(seqs) || !tokens || typeof tokens !== "object")
    return "This distribution has no list of sequences, or no labels.";
  const needed: [string, number][] = [
    ["top", 3],
    ["top_log_probs", 3],
    ["rest", 2],
    ["entropy", 2],
  ];
  if (head.reference) needed.push(["reference", 2], ["log_prob", 2], ["rank", 2]);
  const first = blocks["top"];
  for (const [name, count] of needed) {
    const block = blocks[name];
    if (!block || block.shape.length !== count)
      return `This distribution has no array ${name} of sequence, step${count === 3 ? " and label" : ""}.`;
    const [rows = 0, steps = 0] = block.shape;
    if (rows !== first!.shape[0] || steps !== first!.shape[1] || rows < seqs.length)
      return `This distribution has ${name} of ${rows} sequences and ${steps} steps, which does not fit.`;
  }
  return null;
}

/** The drawable part of a probability: 0 for NaN. */
const share = (prob: number): number => Math.min(1, Math.max(0, prob || 0));

/** The rows of one sequence. */
export function sceneOf({ head, blocks }: Frame<Head>, index: number): Scene {
  const seq = head.seqs[index]!,
    [, steps = 0, most = 0] = blocks["top"]!.shape;
  const label = (id: number): string => head.tokens[String(id)] ?? String(id);
  const of = (name: string, step: number): number => blocks[name]!.value(index * steps + step);
  const rows = Array.from({ length: Math.min(steps, seq.len) }, (_, step): Row => {
    const best: Share[] = [];
    for (let k = 0; k < most; k++) {
      const id = blocks["top"]!.at(index, step, k),
        logProb = blocks["top_log_probs"]!.at(index, step, k);
      if (id < 0) break;
      best.push({ label: label(id), logProb, prob: share(Math.exp(logProb)) });
    }
    const id = head.reference ? of("reference", step) : -1;
    return {
      name: seq.steps?.[step] ?? String(step),
      best,
      rest: share(of("rest", step)),
      entropy: of("entropy", step),
      reference: id < 0 ? null : label(id),
      logProb: head.reference ? of("log_prob", step) : NaN,
      rank: head.reference ? of("rank", step) : 0,
    };
  });
  return {
    seq,
    stepName: head.step_dim?.name ?? "step",
    vocabName: head.vocab_dim?.name ?? "label",
    size: head.vocab_dim?.size ?? most,
    reference: head.reference,
    rows,
  };
}

/** "4 of 5 right, 0.31 nats per label, perplexity 1.36"; "" without a reference. */
export function summary(head: Head, { right, known, loss }: SeqEntry): string {
  if (!head.reference) return "";
  if (!known) return "no reference";
  if (loss === null || loss === undefined) return `${right} of ${known} right, infinite loss`;
  const three = (value: number) => String(Number(value.toPrecision(3)));
  return `${right} of ${known} right, ${three(loss)} nats per label, perplexity ${three(Math.exp(Math.min(loss, 700)))}`;
}

/** The kind of the input numbers, and whether it was given or detected. */
export const madeOf = ({ estimated_type: type, found }: Head): string =>
  `made of ${KINDS[type] ?? "scores"}${found ? " (as their sums tell)" : ""}`;

export const ROW = 24;

/** The columns: the start of each. The bar takes the remaining width. */
export interface Layout {
  left: number;
  top: number;
  width: number;
  height: number;
  reference: number;
  verdict: number;
  loss: number; // 0: no space for it
  bar: number;
}
const LOSS = 92,
  VERDICT = 66,
  LEAST = 120;
export const LOSS_BAR = 46;

export function layout(
  scene: Scene,
  { width, zoom, measure }: { width: number; zoom: number; measure: Measure },
): Layout {
  const widest = (of: (row: Row) => string, least: number, most: number) => {
    const texts = [...new Set(scene.rows.map(of))].sort((a, b) => b.length - a.length).slice(0, 50);
    return Math.min(most, Math.max(least, ...texts.map((text) => Math.ceil(measure(text)))));
  };
  const names = 6 + widest(({ name }) => shorten(name), measure(scene.stepName), 90) + 10;
  let left = names,
    reference = 0,
    verdict = 0,
    loss = 0;
  if (scene.reference) {
    reference = left;
    left += widest(({ reference: label }) => shorten(label ?? ""), 58, 110) + 10;
    verdict = left;
    left += VERDICT;
    if (width - left - LOSS >= LEAST) {
      loss = left;
      left += LOSS;
    }
  }
  const bar = Math.max(LEAST, Math.floor((width - left - 8) * zoom));
  return {
    left,
    top: 22,
    width: left + bar + 8,
    height: 22 + Math.max(1, scene.rows.length) * ROW + 2,
    reference,
    verdict,
    loss,
    bar,
  };
}

/** A step and the index of its label; after the last one the rest. */
export interface Position {
  step: number;
  item: number;
}

const itemsOf = (row: Row): number => row.best.length + (row.rest > 0 ? 1 : 0);

/** The label at a point of the content. */
export function hit(made: Layout, scene: Scene, x: number, y: number): Position | null {
  const step = Math.floor((y - made.top) / ROW),
    row = scene.rows[step];
  if (!row) return null;
  let at = (x - made.left) / made.bar;
  for (const [item, { prob }] of row.best.entries()) {
    at -= prob;
    if (at < 0) return { step, item };
  }
  return { step, item: Math.max(0, itemsOf(row) - 1) };
}

/** The place that a key leads to; null for other keys. "w": the next step whose best label is not the reference. */
export function walk(scene: Scene, at: Position | null, key: string): Position | null {
  const { rows } = scene,
    last = rows.length - 1;
  if (key === "w") {
    const step = nextWrong(scene, at?.step ?? -1);
    return step === null
      ? at
      : { step, item: Math.max(0, Math.min(rows[step]!.rank, rows[step]!.best.length + 1) - 1) };
  }
  const by = { ArrowUp: -1, ArrowDown: 1, PageUp: -10, PageDown: 10 }[key];
  if (last < 0 || (by === undefined && !["ArrowLeft", "ArrowRight", "Home", "End"].includes(key))) return null;
  if (!at) return { step: 0, item: 0 };
  if (by !== undefined) return { step: Math.max(0, Math.min(last, at.step + by)), item: 0 };
  if (key === "Home" || key === "End") return { step: key === "Home" ? 0 : last, item: 0 };
  const most = Math.max(0, itemsOf(rows[at.step]!) - 1);
  return { ...at, item: Math.max(0, Math.min(most, at.item + (key === "ArrowLeft" ? -1 : 1))) };
}

/** The next step with a wrong label, wrapping around; null if there is none. */
export function nextWrong({ rows }: Scene, after: number): number | null {
  for (let n = 1; n <= rows.length; n++) {
    const step = (after + n + rows.length) % rows.length;
    if (rows[step]!.rank > 1) return step;
  }
  return null;
}
