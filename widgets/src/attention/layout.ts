// From an `attention` spec to positions: pure geometry in CSS pixels, no page.

import type { Frame } from "../frame";
import type { Measure } from "../labels";
import { drawn, shorten } from "../labels";
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
export interface Head {
  title?: string;
  fault?: string;
  best?: boolean;
  live?: boolean;
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
  rowLabel(row: number): string;
  colLabel(col: number): string;
}

/** What is wrong with a frame, as a sentence; null if it can be drawn. */
export function problem(frame: Frame): string | null {
  const { maps, seqs, fault } = frame.head as unknown as Partial<Head>;
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

export function matrixOf(frame: Frame, map: number, seq: number): Matrix | null {
  const head = frame.head as unknown as Head;
  const entry = head.maps[map];
  const block = entry && frame.blocks[entry.block];
  const of = entry && head.seqs[entry.seqs[seq] ?? -1];
  if (!entry || !block || !of) return null;
  const [, rows = 0, cols = 0] = block.shape;
  const start = seq * rows * cols,
    note = entry.notes?.[seq] ?? "",
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
    value: (row, col) => block.data[start + row * cols + col]!,
    rowLabel: (row) => of.rows[row] ?? String(row),
    colLabel: (col) => of.cols[col] ?? String(col),
  };
}

/** Values from which colour 0 to which full colour goes. Without negative values the code is a square root: small weights stay visible. */
export interface Scale {
  low: number;
  high: number;
  share(value: number): number;
}

export function scaleOf(frame: Frame): Scale {
  let low = 0,
    high = 0;
  (frame.head as unknown as Head).maps.forEach((map, index) =>
    map.seqs.forEach((_, seq) => {
      const { data, shape } = frame.blocks[map.block]!,
        { rowLen, drawn } = matrixOf(frame, index, seq)!;
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

export interface Label {
  index: number;
  text: string;
}
export interface Layout {
  cell: number;
  tall: number; // width and height of a cell; equal but for very long maps of few rows
  left: number;
  top: number;
  width: number;
  height: number;
  turn: "none" | "slanted" | "upright"; // of the column labels
  rows: Label[];
  cols: Label[]; // the labels that have room
  numbers: boolean; // whether cells have room for their value
}
export interface Options {
  width: number;
  height: number;
  zoom: number;
  measure: Measure;
}

export const CELL_MOST = 38,
  CELL_NUMBERS = 30,
  LINE = 13;
const MARGIN = 10,
  LONGEST = 120,
  LEAST = 96,
  SLANT = Math.SQRT1_2;

export function layout(matrix: Matrix, { width, height, zoom, measure }: Options): Layout {
  const rowTexts = texts(matrix.rowLen, (row) => rowText(matrix, row)),
    colTexts = texts(matrix.colLen, matrix.colLabel);
  const rowRoom = Math.min(LONGEST, longest(rowTexts, measure)),
    colRoom = Math.min(LONGEST, longest(colTexts, measure));
  const left = Math.ceil(Math.max(rowRoom, measure(matrix.rowName) + 14) + MARGIN);
  const rows = Math.max(1, matrix.rows),
    cols = Math.max(1, matrix.cols);
  const fit = (top: number, right: number) => {
    const [across, down] = [(width - left - right) / cols, (height - top - 4) / rows];
    // A few rows of very many columns would be a line: then cells are taller than wide, or wider than tall.
    return {
      cell: size(Math.max(Math.min(across, down), Math.min(across, LEAST / cols)), zoom),
      tall: size(Math.max(Math.min(across, down), Math.min(down, LEAST / rows)), zoom),
    };
  };
  // Level labels where they fit, then slanted, then upright and thinned.
  let turn: Layout["turn"] = "none",
    top = LINE * 2 + 8,
    right = 4;
  let { cell, tall } = fit(top, right);
  if (colRoom + 6 > cell) {
    turn = "slanted";
    top = Math.ceil(colRoom * SLANT) + LINE * 2 + 8;
    right = Math.ceil(colRoom * SLANT) + 4;
    ({ cell, tall } = fit(top, right));
    if (cell < LINE + 2) {
      turn = "upright";
      top = Math.ceil(colRoom) + LINE + 14;
      right = 8;
      ({ cell, tall } = fit(top, right));
    }
  }
  const label =
    (all: string[]) =>
    (index: number): Label => ({ index, text: all[index]! });
  return {
    cell,
    tall,
    left,
    top,
    turn,
    width: left + cols * cell + right,
    height: top + rows * tall + 4,
    rows: drawn(matrix.rowLen, tall, tall >= LINE - 2 ? tall : LINE + 3).map(label(rowTexts)),
    cols: drawn(matrix.colLen, cell, turn === "none" ? colRoom + 6 : LINE - 1).map(label(colTexts)),
    numbers: Math.min(cell, tall) >= CELL_NUMBERS,
  };
}

/** Whole pixels where that makes no visible difference in size: sharp cells. */
function size(fit: number, zoom: number): number {
  const cell = Math.min(CELL_MOST, Math.max(0.01, fit)) * zoom;
  return cell >= 4 ? Math.floor(cell) : cell;
}

/** The label of a row, with a mark if something is wrong with it. */
export const rowText = (matrix: Matrix, row: number): string =>
  (matrix.note && fault(matrix, row) ? "! " : "") + matrix.rowLabel(row);

const texts = (count: number, of: (index: number) => string): string[] =>
  Array.from({ length: count }, (_, index) => shorten(of(index)));

/** The widest text; of very many only the first, the longest by letters are measured. */
function longest(all: string[], measure: Measure): number {
  const some = all.length <= 200 ? all : [...new Set(all)].sort((a, b) => b.length - a.length).slice(0, 50);
  return some.reduce((most, text) => Math.max(most, measure(text)), 0);
}

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

export const isPadding = (matrix: Matrix, { row, col }: Position): boolean =>
  row >= matrix.rowLen || col >= matrix.colLen;

/** The sources with the largest weights of a row. */
export function largest(matrix: Matrix, row: number, count: number): number[] {
  const cols = Array.from({ length: matrix.colLen }, (_, col) => col).filter((col) =>
    Number.isFinite(matrix.value(row, col)),
  );
  return cols.sort((a, b) => matrix.value(row, b) - matrix.value(row, a)).slice(0, count);
}
