// One map of one sequence in an `attention` spec, or the mean of several; and its colour scale.

import type { Block } from "../block";
import type { Cells } from "../canvas";
import type { AnyHead, Frame } from "../frame";
import type { Marks } from "../handles";
import type { HeldEffects, HeldMap } from "./handles";

interface DimEntry {
  name: string;
}
export interface MapEntry {
  label: string;
  row_dim: DimEntry;
  col_dim: DimEntry;
  block: string;
  seqs: number[];
  at?: [layer: number, head: number];
  step?: number;
  causal?: "given" | "seen";
  mask?: string;
  self?: boolean;
  sums?: boolean;
  looks?: number[];
  notes?: Record<string, string>;
  remark?: string;
  held?: HeldMap; // of a held run
  effects?: Effects[]; // by sequence: results of an edit, not weights
}
/** The cells of a map of effects, by row and column. */
export interface Effects {
  labels: string[][]; // the first label that differs
  said: string[][]; // all labels of the result, and its score
  held: HeldEffects | null; // the data to make a branch of a cell
}
export interface SeqEntry {
  label: string;
  rows: string[];
  cols: string[];
  row_len: number;
  col_len: number;
}
/** A range of columns: the first, the one after the last, and its name. */
export type Word = [start: number, end: number, text: string];
/** The header above the columns: words, and a sound in bytes, 0 where there is none. */
export interface Rail {
  words: Word[][]; // by sequence
  block?: string;
  cols?: number[]; // columns of the sound, by sequence
  label?: string;
}
export interface Head extends AnyHead {
  rail?: Rail;
  col_axis?: string; // of the sources, if other views run over it
  fault?: string;
  best?: boolean;
  alignment?: boolean; // from labels to frames
  compact?: boolean; // only the map, without the panels beside it
  layers?: string[];
  heads?: string[];
  slider?: { name: string; labels: string[] };
  range?: [low: number, high: number];
  scale?: "linear"; // of the colours; otherwise the square root, if nothing is negative
  signed?: boolean; // a difference: positive and negative values have different colours
  badges?: string[];
  looks?: string[];
  hands?: Marks;
  maps: MapEntry[];
  seqs: SeqEntry[];
}

/** The stored cells: several values may share one. */
export interface Stored {
  rows: number;
  cols: number;
  down: number; // number of rows that share one
  across: number;
  value(row: number, col: number): number;
}

/** Rows are targets, columns sources; beyond rowLen and colLen is padding. */
export interface Matrix {
  label: string;
  seq: string;
  rowName: string;
  colName: string;
  rows: number;
  cols: number;
  rowLen: number;
  colLen: number;
  drawn: number; // columns, including padding if it has a fault
  sums: boolean; // whether rows are meant to sum to 1
  note: string; // the faults
  remark: string; // remarks that are not faults
  self: boolean; // whether both sides are the same tokens
  causal: "" | "given" | "seen";
  masked: boolean; // whether anything is hidden by a mask
  blanks: boolean; // whether every other row, starting with the first, is a blank
  about: boolean; // whether values are rounded or shared; texts then mark them as approximate
  blocks: string[]; // one, or several whose mean this is
  at: number; // the sequence in the block
  stored: Stored;
  words: Word[];
  sound: Cells | null;
  soundLabel: string;
  effects: Effects | null;
  value(row: number, col: number): number;
  hidden(row: number, col: number): boolean;
  rowLabel(row: number): string;
  colLabel(col: number): string;
}

/** The fault of a frame as a sentence; null if it can be drawn. */
export function problem(frame: Frame<Head>): string | null {
  const { maps, seqs, fault, rail }: Partial<Head> = frame.head;
  if (fault) return fault;
  if (!Array.isArray(maps) || !Array.isArray(seqs)) return "This attention view has no list of maps and of sequences.";
  if (rail && !Array.isArray(rail.words)) return "This attention view has a rail without words by sequence.";
  for (const map of maps) {
    const block = frame.blocks[map.block];
    if (!block || block.shape.length !== 3) return `Map ${map.label} has no array of sequence, target and source.`;
    if (!Array.isArray(map.seqs) || map.seqs.length > block.shape[0]! || map.seqs.some((seq) => !seqs[seq]))
      return `Map ${map.label} names sequences that are not there.`;
    if (map.mask !== undefined && frame.blocks[map.mask]?.shape.length !== 3) return `Map ${map.label} has no mask.`;
  }
  return null;
}

export function matrixOf({ head, blocks }: Frame<Head>, map: number, seq: number): Matrix | null {
  const entry = head.maps[map];
  const block = entry && blocks[entry.block];
  const of = entry && head.seqs[entry.seqs[seq] ?? -1];
  if (!entry || !block || !of) return null;
  const [, rows = 0, cols = 0] = block.shape;
  const rail = head.rail,
    number = entry.seqs[seq]!;
  const note = entry.notes?.[seq] ?? "",
    rowLen = Math.min(rows, of.row_len ?? rows),
    colLen = Math.min(cols, of.col_len ?? cols);
  return {
    label: entry.label,
    seq: of.label,
    note,
    sums: !!entry.sums,
    remark: entry.remark ?? "",
    self: !!entry.self,
    causal: entry.causal ?? "",
    masked: !!(entry.causal ?? entry.mask),
    blanks: !!head.alignment && (block.pool[1] ?? 1) === 1,
    about: !block.exact,
    blocks: [entry.block],
    at: seq,
    drawn: note ? cols : colLen,
    rowName: entry.row_dim?.name ?? "target",
    colName: entry.col_dim?.name ?? "source",
    rows,
    cols,
    rowLen,
    colLen,
    stored: storedIn(block, seq),
    words: rail?.words[number] ?? [],
    sound: soundOf(blocks[rail?.block ?? ""], number, rail?.cols?.[number] ?? 0),
    soundLabel: rail?.label ?? "",
    effects: entry.effects?.[seq] ?? null,
    value: (row, col) => block.at(seq, row, col),
    hidden: hides(entry, blocks, seq, colLen - rowLen, rowLen, colLen),
    rowLabel: (row) => of.rows[row] ?? String(row),
    colLabel: (col) => of.cols[col] ?? String(col),
  };
}

/** The sound of a sequence, 0 to 255; NaN where there is none. */
function soundOf(block: Block | undefined, seq: number, cols: number): Cells | null {
  const rows = block?.shape[1];
  return block && rows && cols ? { rows, cols, value: (row, col) => block.at(seq, row, col) || NaN } : null;
}

/** Whether a cell is masked; padding is not masked. */
function hides(
  { causal, mask }: MapEntry,
  blocks: Record<string, Block>,
  seq: number,
  shift: number,
  rowLen: number,
  colLen: number,
): Matrix["hidden"] {
  const block = mask === undefined ? null : blocks[mask]!;
  if (block) {
    const at = Math.min(seq, block.shape[0]! - 1);
    return (row, col) => row < rowLen && col < colLen && block.at(at, row, col) > 0;
  }
  return causal ? (row, col) => col > row + shift && row < rowLen && col < colLen : () => false;
}

/** The stored cells of one sequence of a block, for fast loops. */
function storedIn({ data, table, storedShape, pool }: Block, seq: number): Stored {
  const [, rows = 0, cols = 0] = storedShape,
    start = Math.floor(seq / (pool[0] ?? 1)) * rows * cols;
  return {
    rows,
    cols,
    down: pool[1] ?? 1,
    across: pool[2] ?? 1,
    value: table
      ? (row, col) => table[data[start + row * cols + col]!]!
      : (row, col) => data[start + row * cols + col]!,
  };
}

/** The mean of maps of equal sizes; null without maps, or if sizes differ. */
export function meanOf(frame: Frame<Head>, maps: number[], seq: number, label: string): Matrix | null {
  const all = maps.map((map) => matrixOf(frame, map, seq)).filter((one): one is Matrix => !!one);
  const [first] = all;
  if (!first || all.length < maps.length) return null;
  // If one of them has finer detail, the mean is as coarse as the others.
  const coarsest = all.reduce((most, one) =>
    one.stored.down * one.stored.across > most.stored.down * most.stored.across ? one : most,
  );
  const { rows, cols, down, across } = coarsest.stored;
  if (all.some((one) => one.rows !== first.rows || one.cols !== first.cols)) return null;
  const sums = new Float64Array(rows * cols);
  for (const { stored } of all.map((one) => ({ stored: coarser(one.stored, coarsest.stored) })))
    for (let row = 0, at = 0; row < rows; row++)
      for (let col = 0; col < cols; col++, at++) sums[at] = sums[at]! + stored.value(row, col);
  for (let at = 0; at < sums.length; at++) sums[at] = sums[at]! / all.length;
  return {
    ...first,
    label,
    note: "",
    remark: "",
    drawn: first.colLen,
    about: all.some(({ about }) => about),
    blocks: all.flatMap(({ blocks }) => blocks),
    sums: all.every((one) => one.sums),
    masked: all.every(({ masked }) => masked),
    stored: { rows, cols, down, across, value: (row, col) => sums[row * cols + col]! },
    value:
      down === 1 && across === 1
        ? (row, col) => sums[row * cols + col]!
        : (row, col) => sums[((row / down) | 0) * cols + ((col / across) | 0)]!,
    hidden: (row, col) => all.every((one) => one.hidden(row, col)),
  };
}

/** The largest of the cells that share a cell of another pooling. */
function coarser(stored: Stored, { rows, cols, down, across }: Stored): Stored {
  if (stored.down === down && stored.across === across) return stored;
  const most = new Float64Array(rows * cols).fill(NaN);
  for (let row = 0; row < stored.rows; row++)
    for (let col = 0; col < stored.cols; col++) {
      const at = Math.floor((row * stored.down) / down) * cols + Math.floor((col * stored.across) / across),
        value = stored.value(row, col);
      if (!(value <= most[at]!)) most[at] = value;
    }
  return { rows, cols, down, across, value: (row, col) => most[row * cols + col]! };
}

/** The map with the exact values of one row. */
export const withRow = (matrix: Matrix, exact: number, values: ArrayLike<number>): Matrix => ({
  ...matrix,
  about: false,
  value: (row, col) => (row === exact ? values[col]! : matrix.value(row, col)),
});

/** The word of a column; "" without one. */
export const wordAt = ({ words }: Matrix, col: number): string =>
  words.find(([start, end]) => col >= start && col < end)?.[2] ?? "";

/** The values of the first and the last colour. Without negative values the scale is a square root, so that small weights stay visible. */
export interface Scale {
  low: number;
  high: number;
  share(value: number): number;
}

/** The common scale of all maps: 0 to 1 for ordinary weights (so that colours do not change while rows arrive), else up to the largest value. */
export function scaleOf({ range, scale }: Head): Scale {
  let [low, high] = range ?? [0, 1];
  if (low === 0 && high > 0.2 && high <= 1.001) high = 1;
  if (high === low) high = low + 1;
  const span = high - low;
  return low < 0 || scale === "linear"
    ? { low, high, share: (value) => Math.max(0, value - low) / span }
    : { low, high, share: (value) => Math.sqrt(Math.max(0, value) / high) };
}

/** The number of rows with weights: up to the last one that has any. */
export function rowsComputed(matrix: Matrix): number {
  for (let row = matrix.rowLen; row > 0; row--)
    for (let col = 0; col < matrix.colLen; col++) if (!Number.isNaN(matrix.value(row - 1, col))) return row;
  return 0;
}

export interface Position {
  row: number;
  col: number;
}

export const isPadding = (matrix: Matrix, { row, col }: Position): boolean =>
  row >= matrix.rowLen || col >= matrix.colLen;

/** The number of rows and columns that share a value; 1 if all are known. */
export const shared = ({ about, stored }: Matrix): [rows: number, cols: number] =>
  about ? [stored.down, stored.across] : [1, 1];

/** The visible sources with the largest weights of a row. */
export const largest = (matrix: Matrix, row: number, count: number): number[] =>
  strongest(matrix.colLen, count, (col) => (matrix.hidden(row, col) ? NaN : matrix.value(row, col)), shared(matrix)[1]);

/** The positions of the `count` largest values, ties in order; in one pass, since it is called on every pointer move. */
export function strongest(length: number, count: number, value: (at: number) => number, each = 1): number[] {
  const found: number[] = [],
    values: number[] = [];
  for (let index = 0; index < length; index += each) {
    const own = value(index);
    if (!Number.isFinite(own) || (found.length === count && own <= values[count - 1]!)) continue;
    let at = found.length;
    while (at > 0 && values[at - 1]! < own) at--;
    found.splice(at, 0, index);
    values.splice(at, 0, own);
    if (found.length > count) [found.length, values.length] = [count, count];
  }
  return found;
}

/** Statistics of a row over its visible positions. */
export interface RowFacts {
  seen: number; // number of visible positions
  total: number;
  entropy: number; // in nats
  computed: boolean;
}

export function factsOf(matrix: Matrix, row: number): RowFacts {
  let seen = 0,
    total = 0,
    logs = 0,
    computed = false;
  for (let col = 0; col < matrix.colLen; col++) {
    if (matrix.hidden(row, col)) continue;
    seen++;
    const value = matrix.value(row, col);
    if (!Number.isFinite(value)) continue;
    computed = true;
    total += value;
    if (value > 0) logs += value * Math.log(value);
  }
  return { seen, total, entropy: total > 0 ? Math.log(total) - logs / total : NaN, computed };
}
