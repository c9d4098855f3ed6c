// From an `attention` spec to positions: pure geometry in CSS pixels, no page.

import type { Columns, Label } from "../axis";
import { cellSize, columns, labelsOf, LINE, widest } from "../axis";
import type { AnyHead, Frame } from "../frame";
import type { Measure } from "../labels";
import { drawn } from "../labels";
import { fault } from "./check";

interface DimEntry {
  name: string;
}
export interface MapEntry {
  label: string;
  row_dim: DimEntry;
  col_dim: DimEntry;
  block: string;
  seqs: number[];
  sums?: boolean;
  notes?: Record<string, string>;
  remark?: string;
}
export interface SeqEntry {
  label: string;
  rows: string[];
  cols: string[];
  row_len: number;
  col_len: number;
}
export interface Head extends AnyHead {
  col_axis?: string; // of the sources, where other views run over it
  fault?: string;
  best?: boolean;
  maps: MapEntry[];
  seqs: SeqEntry[];
}

/** One map of one sequence. Rows are targets, columns sources; beyond rowLen and colLen is padding. */
export interface Matrix {
  label: string;
  seq: string;
  rowName: string;
  colName: string;
  rows: number;
  cols: number;
  rowLen: number;
  colLen: number;
  drawn: number; // columns: with those of the padding where something is wrong
  sums: boolean;
  note: string;
  remark: string; // whether rows are meant to sum to 1; what is wrong; what is no fault
  value(row: number, col: number): number;
  about: boolean; // whether values are rounded, or several share one; what is said of them says so
  block: string;
  at: number; // the sequence in the block
  rowLabel(row: number): string;
  colLabel(col: number): string;
}

/** What is wrong with a frame, as a sentence; null if it can be drawn. */
export function problem(frame: Frame<Head>): string | null {
  const { maps, seqs, fault }: Partial<Head> = frame.head;
  if (fault) return fault;
  if (!Array.isArray(maps) || !Array.isArray(seqs)) return "This attention view has no list of maps and of sequences.";
  for (const map of maps) {
    const block = frame.blocks[map.block];
    if (!block || block.shape.length !== 3) return `Map ${map.label} has no array of sequence, target and source.`;
    if (!Array.isArray(map.seqs) || map.seqs.length > block.shape[0]! || map.seqs.some((seq) => !seqs[seq]))
      return `Map ${map.label} names sequences that are not there.`;
  }
  return null;
}

export function matrixOf({ head, blocks }: Frame<Head>, map: number, seq: number): Matrix | null {
  const entry = head.maps[map];
  const block = entry && blocks[entry.block];
  const of = entry && head.seqs[entry.seqs[seq] ?? -1];
  if (!entry || !block || !of) return null;
  const [, rows = 0, cols = 0] = block.shape;
  const note = entry.notes?.[seq] ?? "",
    colLen = Math.min(cols, of.col_len ?? cols);
  return {
    label: entry.label,
    seq: of.label,
    note,
    sums: !!entry.sums,
    remark: entry.remark ?? "",
    drawn: note ? cols : colLen,
    rowName: entry.row_dim?.name ?? "target",
    colName: entry.col_dim?.name ?? "source",
    rows,
    cols,
    rowLen: Math.min(rows, of.row_len ?? rows),
    colLen,
    value: (row, col) => block.at(seq, row, col),
    about: !block.exact,
    block: entry.block,
    at: seq,
    rowLabel: (row) => of.rows[row] ?? String(row),
    colLabel: (col) => of.cols[col] ?? String(col),
  };
}

/** The map with the exact values of one row. */
export const withRow = (matrix: Matrix, exact: number, values: ArrayLike<number>): Matrix => ({
  ...matrix,
  about: false,
  value: (row, col) => (row === exact ? values[col]! : matrix.value(row, col)),
});

/** Values from which colour 0 to which full colour goes. Without negative values the code is a square root: small weights stay visible. */
export interface Scale {
  low: number;
  high: number;
  share(value: number): number;
}

export function scaleOf(frame: Frame<Head>): Scale {
  let low = 0,
    high = 0;
  frame.head.maps.forEach((map, index) =>
    map.seqs.forEach((_, seq) => {
      const { data, shape, code } = frame.blocks[map.block]!,
        { rowLen, drawn } = matrixOf(frame, index, seq)!;
      if (code) {
        [low, high] = [Math.min(low, code.low), Math.max(high, code.high)];
        return;
      }
      const [, rows = 0, cols = 0] = shape;
      for (let row = 0; row < rowLen; row++) {
        const start = (seq * rows + row) * cols;
        for (let i = start; i < start + drawn; i++) {
          const value = data[i]!;
          if (value > high && value !== Infinity) high = value;
          else if (value < low && value !== -Infinity) low = value;
        }
      }
    }),
  );
  // Ordinary weights get the whole scale from 0 to 1, so that colours stay while rows arrive.
  if (low === 0 && high > 0.2 && high <= 1.001) high = 1;
  if (high === low) high = low + 1;
  const span = high - low;
  return low < 0
    ? { low, high, share: (value) => (value - low) / span }
    : { low, high, share: (value) => Math.sqrt(Math.max(0, value) / high) };
}

export interface Layout extends Columns {
  tall: number; // height of a cell; equal to its width but for very long maps of few rows
  left: number;
  width: number;
  height: number;
  rows: Label[]; // the labels that have room
  numbers: boolean; // whether cells have room for their value
}
export interface Options {
  width: number;
  height: number;
  zoom: number;
  measure: Measure;
}

const MARGIN = 10,
  LEAST = 96,
  CELL_NUMBERS = 30;

export function layout(matrix: Matrix, { width, height, zoom, measure }: Options): Layout {
  const texts = labelsOf(matrix.rowLen, (row) => rowText(matrix, row));
  const left = Math.ceil(Math.max(widest(texts, measure), measure(matrix.rowName) + 14) + MARGIN);
  const rows = Math.max(1, matrix.rows),
    cols = Math.max(1, matrix.cols);
  const made = columns(labelsOf(matrix.colLen, matrix.colLabel), measure, (top, right) => {
    const [across, down] = [(width - left - right) / cols, (height - top - 4) / rows];
    // A few rows of very many columns would be a line: then cells are taller than wide, or wider than tall.
    return {
      cell: cellSize(Math.max(Math.min(across, down), Math.min(across, LEAST / cols)), zoom),
      tall: cellSize(Math.max(Math.min(across, down), Math.min(down, LEAST / rows)), zoom),
    };
  });
  const { cell, tall, top, right } = made;
  const shown = drawn(matrix.rowLen, tall, tall >= LINE - 2 ? tall : LINE + 3);
  return {
    ...made,
    left,
    width: left + cols * cell + right,
    height: top + rows * tall + 4,
    rows: shown.map((index) => ({ index, text: texts[index]! })),
    numbers: Math.min(cell, tall) >= CELL_NUMBERS && !matrix.about,
  };
}

/** The label of a row, with a mark if something is wrong with it. */
export const rowText = (matrix: Matrix, row: number): string =>
  (matrix.note && fault(matrix, row) ? "! " : "") + matrix.rowLabel(row);

export interface Position {
  row: number;
  col: number;
}

/** The cell at a point of the content; null outside and in the labels. */
export function hit(made: Layout, matrix: Matrix, x: number, y: number): Position | null {
  const col = Math.floor((x - made.left) / made.cell),
    row = Math.floor((y - made.top) / made.tall);
  if (row < 0 || col < 0 || row >= matrix.rows || col >= matrix.cols) return null;
  return made.cell < 1 || made.tall < 1
    ? peak(matrix, row, col, Math.ceil(1 / made.tall), Math.ceil(1 / made.cell))
    : { row, col };
}

/** The largest of the cells that share a pixel, the one that is drawn. */
function peak(matrix: Matrix, row: number, col: number, down: number, across: number): Position {
  let best = { row, col };
  for (let r = row; r < Math.min(matrix.rows, row + down); r++) {
    for (let c = col; c < Math.min(matrix.cols, col + across); c++)
      if (matrix.value(r, c) > matrix.value(best.row, best.col)) best = { row: r, col: c };
  }
  return best;
}

/** Where a key leads; null if it does not walk. */
export function walk(matrix: Matrix, at: Position | null, key: string, far: boolean): Position | null {
  if (!matrix.rows || !matrix.cols) return null;
  const { row, col } = at ?? { row: 0, col: 0 };
  const lastRow = matrix.rows - 1,
    lastCol = matrix.cols - 1;
  const to: Record<string, [number, number]> = {
    ArrowLeft: [row, col - 1],
    ArrowRight: [row, col + 1],
    ArrowUp: [row - 1, col],
    ArrowDown: [row + 1, col],
    Home: [far ? 0 : row, 0],
    End: [far ? lastRow : row, lastCol],
    PageUp: [row - 10, col],
    PageDown: [row + 10, col],
  };
  const target = to[key];
  if (!target) return null;
  if (!at) return key === "End" ? { row: lastRow, col: lastCol } : { row: 0, col: 0 };
  return { row: Math.min(lastRow, Math.max(0, target[0])), col: Math.min(lastCol, Math.max(0, target[1])) };
}

/** How many rows have weights: all before the last one that has any. */
export function rowsComputed(matrix: Matrix): number {
  for (let row = matrix.rowLen; row > 0; row--)
    for (let col = 0; col < matrix.colLen; col++) if (!Number.isNaN(matrix.value(row - 1, col))) return row;
  return 0;
}

export const isPadding = (matrix: Matrix, { row, col }: Position): boolean =>
  row >= matrix.rowLen || col >= matrix.colLen;

/** The sources with the largest weights of a row. */
export function largest(matrix: Matrix, row: number, count: number): number[] {
  const cols = Array.from({ length: matrix.colLen }, (_, col) => col).filter((col) =>
    Number.isFinite(matrix.value(row, col)),
  );
  return cols.sort((a, b) => matrix.value(row, b) - matrix.value(row, a)).slice(0, count);
}
