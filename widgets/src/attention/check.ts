// Describes what is wrong with one row of weights; rfnb/viz/attention/check.py decides which maps have such rows.

import { short } from "../number";
import type { Matrix } from "./matrix";

const CLOSE = 0.01,
  LEAST = 1e-4; // as in attention_check.py

/** The sum of a row's weights, and how much of it is on padding and on masked positions; null if there is none. */
export function sumOf(matrix: Matrix, row: number): { total: number; padding: number; masked: number } | null {
  let total = 0,
    padding = 0,
    masked = 0,
    computed = false;
  for (let col = 0; col < matrix.cols; col++) {
    const value = matrix.value(row, col);
    if (col < matrix.colLen && !Number.isNaN(value)) computed = true;
    if (!Number.isFinite(value)) continue;
    total += value;
    if (col >= matrix.colLen) padding += Math.abs(value);
    else if (matrix.hidden(row, col)) masked += Math.abs(value);
  }
  return computed ? { total, padding, masked } : null;
}

/** "" for a correct row. */
export function fault(matrix: Matrix, row: number): string {
  const sum = matrix.sums && !matrix.about && row < matrix.rowLen ? sumOf(matrix, row) : null;
  if (!sum) return "";
  if (sum.padding > LEAST) return `${short(sum.padding)} of this row is on padding`;
  if (sum.masked > LEAST) return `${short(sum.masked)} of this row is on masked positions`;
  return sum.total && Math.abs(sum.total - 1) > CLOSE ? `this row sums to ${short(sum.total)}, not to 1` : "";
}
