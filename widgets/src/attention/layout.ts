// From an `attention` spec to positions: pure geometry in CSS pixels, without a page.

import type { Columns, Label } from "../axis";
import { cellSize, columns, labelsOf, LINE, widest } from "../axis";
import type { Measure } from "../labels";
import { drawn, telling } from "../labels";
import { fault } from "./check";
import type { Matrix, Position } from "./matrix";

export interface Layout extends Columns {
  tall: number; // height of a cell; equal to its width but for very long maps of few rows
  y(row: number): number; // top of a row, below the header
  rail: number; // height of the header above the columns; a part of top
  left: number;
  width: number;
  height: number;
  rows: Label[]; // the labels that fit
  numbers: boolean; // whether values fit into cells
}
export interface Options {
  width: number;
  height: number;
  zoom: number;
  measure: Measure;
}

export const SOUND = 90,
  WORDS = 18; // the heights of a sound and of words above the columns
const MARGIN = 10,
  FEW = 64,
  LEAST = 96,
  READABLE = 15, // a row of labels over the frames of a sound
  THIN = 0.3, // of a row: one of blanks
  CELL_NUMBERS = 30,
  CELL_LABELS = 12;

export function layout(matrix: Matrix, { width, height, zoom, measure }: Options): Layout {
  const texts = labelsOf(matrix.rowLen, (row) => rowText(matrix, row));
  const left = Math.ceil(Math.max(widest(texts, measure), measure(matrix.rowName) + 14) + MARGIN);
  const rail = (matrix.sound ? SOUND + 4 : 0) + (matrix.words.length ? WORDS : 0);
  const rows = Math.max(1, matrix.rows),
    cols = Math.max(1, matrix.cols);
  const thin = matrix.blanks ? Math.ceil(rows / 2) : 0,
    whole = rows - thin * (1 - THIN); // the equivalent number of rows of full height
  const made = columns(labelsOf(matrix.colLen, matrix.colLabel), measure, (top, right) => {
    const [across, down] = [(width - left - right) / cols, (height - top - rail - 4) / whole];
    // A few rows with very many columns would be a line: then cells are taller than wide, or wider than tall.
    return {
      cell: cellSize(Math.max(Math.min(across, down), Math.min(across, LEAST / cols)), zoom),
      tall: cellSize(Math.max(Math.min(across, down), Math.min(down, rail ? READABLE : LEAST / rows)), zoom),
    };
  });
  const { cell, tall, right } = made,
    top = made.top + rail;
  const low = thin && Math.max(1, Math.round(tall * THIN)),
    y = thin ? (row: number) => Math.ceil(row / 2) * low + Math.floor(row / 2) * tall : (row: number) => row * tall;
  const shown = thin
    ? drawn(rows - thin, low + tall, LINE).map((label) => 2 * label + 1)
    : telling(texts, tall, tall >= LINE - 2 ? tall : LINE + 3);
  return {
    ...made,
    y,
    rail,
    top,
    left,
    width: left + cols * cell + right,
    height: top + y(rows) + 4,
    rows: shown.map((index) => ({ index, text: texts[index]! })),
    numbers: Math.min(cell, tall) >= (matrix.effects ? CELL_LABELS : CELL_NUMBERS) && !matrix.about,
  };
}

/** The maximal width of a picture with few columns, so that its neighbours are close to it; null: unlimited. */
export function mostWidth(matrix: Matrix, options: Options): number | null {
  return matrix.cols > FEW ? null : layout(matrix, { ...options, width: 1e5 }).width;
}

/** The label of a row, with a mark for a faulty one. */
export const rowText = (matrix: Matrix, row: number): string =>
  (matrix.note && fault(matrix, row) ? "! " : "") + matrix.rowLabel(row);

/** The cell at a point of the content; null outside and in the labels. */
export function hit(made: Layout, matrix: Matrix, x: number, y: number): Position | null {
  const col = Math.floor((x - made.left) / made.cell),
    row = rowAt(made, y - made.top);
  if (row < 0 || col < 0 || row >= matrix.rows || col >= matrix.cols) return null;
  return made.cell < 1 || made.tall < 1
    ? peak(matrix, row, col, Math.ceil(1 / made.tall), Math.ceil(1 / made.cell))
    : { row, col };
}

/** The row at a height below the header: in a pair of a thin row and a full one, the latter begins where the former ends. */
export function rowAt({ y }: Layout, at: number): number {
  const pair = 2 * Math.floor(at / y(2));
  return at - y(pair) < y(1) ? pair : pair + 1;
}

/** The largest of the cells that share a pixel: the drawn one. */
function peak(matrix: Matrix, row: number, col: number, down: number, across: number): Position {
  let best = { row, col };
  for (let r = row; r < Math.min(matrix.rows, row + down); r++) {
    for (let c = col; c < Math.min(matrix.cols, col + across); c++)
      if (matrix.value(r, c) > matrix.value(best.row, best.col)) best = { row: r, col: c };
  }
  return best;
}

/** The place that a key leads to; null for other keys. */
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
