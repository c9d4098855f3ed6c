// From a `diff` spec to positions: a row for each path, a column for each step, coloured by the difference of two runs.

import type { Block } from "../block";
import type { AnyHead, Frame } from "../frame";
import type { Measure } from "../labels";
import { shorten } from "../labels";

export interface RowEntry {
  label: string;
  first: number | null;
  worst: number | null;
  differ: number;
  of: number;
}
export interface PairEntry {
  row: number;
  col: number;
  words: string;
  block?: string;
  name?: string;
  at?: string;
  dims?: [string, string];
  size?: [number, number];
  pool?: [number, number];
}
export interface Result {
  label: string;
  edits: string;
  a: string[];
  b: string[];
  scores: (number | null)[];
}
export interface Head extends AnyHead {
  names: [string, string];
  said: string;
  headline?: string; // of the first numeric difference
  hints: string[];
  limit: string;
  cols: string[];
  rows: RowEntry[];
  mark: [number, number] | null;
  pairs: PairEntry[];
  searches: string[];
  results: Result[];
  notes: string[];
  next: string[];
}

const LISTS = ["rows", "cols", "hints", "pairs", "searches", "results", "notes", "next", "names"] as const;

const isIndex = (value: unknown, { length }: unknown[]): boolean =>
  Number.isInteger(value) && (value as number) >= 0 && (value as number) < length;

/** The fault of a frame as a sentence; null if it can be drawn. In the words of rfnb/viz/diff/content.py. */
export function problem({ head, blocks }: Frame<Head>): string | null {
  const cannot = (why: string) => `This diff cannot be drawn: ${why}`;
  for (const name of LISTS) if (!Array.isArray(head[name])) return cannot(`its list of ${name} is missing.`);
  const { rows, cols, mark, names } = head;
  if (names.length !== 2) return cannot("it has no two names.");
  for (const name of ["log", "abs"]) {
    const shape = blocks[name]?.shape;
    if (!shape || shape.length !== 3 || shape[0] !== 1 || shape[1] !== rows.length || shape[2] !== cols.length)
      return cannot(`the array ${name} has no ${rows.length} paths in ${cols.length} steps.`);
  }
  const isPlace = (row: unknown, col: unknown) => isIndex(row, rows) && isIndex(col, cols);
  if (mark && !isPlace(mark[0], mark[1])) return cannot("the first difference has no place.");
  for (const [number, row] of rows.entries()) {
    if (typeof row?.label !== "string") return cannot(`path ${number} has no label.`);
    for (const at of [row.first, row.worst])
      if (typeof at === "number" && !isIndex(at, cols)) return cannot(`path ${number} is at no step.`);
  }
  for (const [number, pair] of head.pairs.entries()) {
    if (!isPlace(pair?.row, pair?.col)) return cannot(`pair ${number} is at no place.`);
    if (!pair.block) continue;
    const shape = blocks[pair.block]?.shape;
    if (shape?.length !== 3 || shape[0] !== 2 || !shape[1] || !shape[2])
      return cannot(`pair ${number} has no two values.`);
    for (const name of ["dims", "size", "pool"] as const)
      if (!Array.isArray(pair[name])) return cannot(`pair ${number} has no ${name}.`);
  }
  for (const [number, result] of head.results.entries()) {
    const count = (skipped: string) => result.edits.replaceAll(skipped, "").length;
    if (![result?.a, result?.b, result?.scores].every(Array.isArray) || typeof result.edits !== "string")
      return cannot(`result ${number} has no labels.`);
    if (count("i") !== result.a.length || count("d") !== result.b.length)
      return cannot(`result ${number} has edits of other labels.`);
  }
  return null;
}

/** The position of a difference on the colour ramp: 0 for none, 0.1 for a thousandth of the tolerance, 1 for 100,000 times the tolerance. */
export const share = (log: number): number =>
  log === -Infinity ? 0 : Math.min(1, Math.max(0.1, 0.1 + (0.9 * (log + 3)) / 8));

export const ROW = 20,
  LEAST = 3;
/** The maximal length of a bar in pixels: without steps there is one column, with bars instead of cells. */
export const BAR = 260;

export interface Layout {
  left: number;
  top: number;
  width: number;
  height: number;
  pitch: number;
}
export interface Position {
  row: number;
  col: number;
}

export function layout(
  { rows, cols }: Head,
  { width, zoom, measure }: { width: number; zoom: number; measure: Measure },
): Layout {
  const names = rows.map(({ label }) => measure(shorten(label, 32)));
  const left = Math.ceil(Math.min(Math.max(40, ...names) + 18, width / 2));
  const room = Math.max(60, width - left - 52);
  const pitch = Math.max(LEAST, Math.min(cols.length > 1 ? 30 : BAR, room / Math.max(1, cols.length))) * zoom;
  return { left, top: 24, pitch, width: left + cols.length * pitch + 50, height: 24 + rows.length * ROW + 4 };
}

export function hit({ left, top, pitch }: Layout, { rows, cols }: Head, x: number, y: number): Position | null {
  const row = Math.floor((y - top) / ROW),
    col = Math.floor((x - left) / pitch);
  return rows[row] && cols[col] !== undefined ? { row, col } : null;
}

/** The place that a key leads to; null for other keys. "f": the first difference; "n": the first difference of the next path with one. */
export function walk({ rows, cols, mark }: Head, at: Position | null, key: string): Position | null {
  const last = { row: rows.length - 1, col: cols.length - 1 };
  if (last.row < 0 || last.col < 0) return null;
  if (key === "f") return mark && { row: mark[0], col: mark[1] };
  if (key === "n") {
    const from = at?.row ?? -1;
    const order = rows.map((_, index) => (from + 1 + index) % rows.length);
    const row = order.find((index) => typeof rows[index]!.first === "number");
    return row === undefined ? null : { row, col: rows[row]!.first! };
  }
  const by: Record<string, [number, number]> = {
    ArrowUp: [-1, 0],
    ArrowDown: [1, 0],
    ArrowLeft: [0, -1],
    ArrowRight: [0, 1],
    PageUp: [-10, 0],
    PageDown: [10, 0],
    Home: [0, -1e9],
    End: [0, 1e9],
  };
  const way = by[key];
  if (!way) return null;
  if (!at) return mark ? { row: mark[0], col: mark[1] } : { row: 0, col: 0 };
  const within = (value: number, most: number) => Math.max(0, Math.min(most, value));
  return { row: within(at.row + way[0], last.row), col: within(at.col + way[1], last.col) };
}

/** The difference of two runs at a place, in words. As exact as the blocks. */
export function told({ head, blocks }: Frame<Head>, { row, col }: Position): string {
  const log = blocks["log"]!.at(0, row, col),
    most = blocks["abs"]!.at(0, row, col),
    about = blocks["log"]!.exact && blocks["abs"]!.exact ? "" : "about ";
  const place = `${shorten(head.rows[row]!.label, 60)}, ${where(head, col)}: `;
  if (Number.isNaN(log)) return `${place}nothing that both have`;
  if (log === -Infinity) return `${place}the same, bit for bit`;
  const number = (value: number) => String(Number(value.toPrecision(3)));
  const apart = Number.isFinite(most) && most ? `, at most ${about}${number(most)} apart` : "";
  if (log === Infinity) {
    if (about) return `${place}not the same`;
    if (Number.isFinite(most)) return `${place}not the same${apart}`;
    return `${place}${Number.isNaN(most) ? "NaN" : "infinity"} in only one of both`;
  }
  return `${place}${about}${number(10 ** log)} times the tolerance${apart}`;
}

export const where = ({ cols }: Head, col: number): string =>
  /^\d/.test(cols[col]!) ? `step ${cols[col]}` : cols[col] === "–" ? "outside of loops" : cols[col]!;

/** The two values at a place, if the page has them. */
export const pairAt = (head: Head, at: Position): PairEntry | undefined =>
  head.pairs.find(({ row, col }) => row === at.row && col === at.col);

export interface Values {
  rows: number;
  cols: number;
  a(row: number, col: number): number;
  b(row: number, col: number): number;
}

export const valuesOf = (block: Block): Values => ({
  rows: block.shape[1]!,
  cols: block.shape[2]!,
  a: (row, col) => block.at(0, row, col),
  b: (row, col) => block.at(1, row, col),
});
