// From a `dims` spec to a table of chips: distinct names, one column for each dim, texts. The same as rfnb/viz/dims/table.py.

import type { AnyHead, Frame } from "../frame";
import { times } from "../list";
import { exact, minus, percent, significant } from "../number";
import { visible } from "../visible_text";

export interface DimEntry {
  name: string;
  size: number | null;
  lengths: number[] | null;
  kind: string | null;
  id: number;
  origin?: string; // of a derived dim, in words
  clash?: boolean; // whether an error is about it
}
export interface Fold {
  first: number;
  rows: number;
  count: number;
}
export interface Stats {
  min: number | null;
  max: number | null;
  mean: number | null;
  nan: number;
  inf: number;
  valid: number;
  cells: number;
  padding_odd?: number;
}
export interface RowSpec {
  label: string;
  indent?: number;
  dims: number[];
  dtype?: string | null;
  device?: string | null;
  note?: string;
  sparse?: number | null;
  stats?: Stats | null;
  bytes?: number | null;
}
export interface DimsHead extends AnyHead {
  dims: DimEntry[];
  rows: RowSpec[];
  failure?: string | null;
  mend?: string; // the rule of an error, and the line to type
  folds?: Fold[]; // repeats among the rows
  table?: { dims: number[]; block: string; real: string; labels?: Record<string, string[]> } | null; // of a small tensor
}

export interface Chip {
  id: number;
  name: string;
  size: string;
  text: string;
  glyph: string;
  hue: number;
  kind: string;
  lengths: number[];
  waste: number;
  origin: string;
  clash: boolean;
}
export interface Row {
  label: string;
  indent: number;
  heading: boolean;
  cells: ({ chip: Chip; axis: number } | null)[];
  permuted: boolean;
  stored: string;
  dtype: string;
  device: string;
  bytes: string;
  note: string;
  sparse: Chip | null;
  padding: string;
  values: string;
  alarm: string;
}
export interface Layout {
  legend: Chip[];
  columns: number;
  rows: Row[];
}

export const GLYPHS = [..."●■▲◆★✚▼⬟"];
const OWN_COLUMNS = 6;

export function layout(head: DimsHead): Layout {
  const names = namesOf(head.dims);
  const chips = new Map(head.dims.map((entry, index) => [entry.id, chipOf(entry, names.get(entry.id)!, index)]));
  const columns = columnsOf(head.rows);
  const count = Math.max(-1, ...columns.values()) + 1;
  const rows = head.rows.map((row): Row => {
    const cells: Row["cells"] = new Array<null>(count).fill(null);
    row.dims.forEach((dim, axis) => {
      cells[columns.get(dim)!] = { chip: chips.get(dim)!, axis };
    });
    return {
      label: row.label,
      indent: row.indent ?? 0,
      heading: !row.dtype && !row.dims.length,
      cells,
      permuted: isPermuted(row, columns),
      stored: `[${row.dims.map((dim) => chips.get(dim)!.text).join(", ")}]`,
      dtype: row.dtype ?? "",
      device: row.device ?? "",
      bytes: bytesText(row.bytes),
      note: row.note ?? "",
      sparse: row.sparse == null ? null : chips.get(row.sparse)!,
      padding: paddingText(row.stats),
      values: minus(statsText(row.stats)),
      alarm: alarmText(row.stats),
    };
  });
  return { legend: [...chips.values()], columns: count, rows };
}

function chipOf(entry: DimEntry, name: string, index: number): Chip {
  const text = sizeText(entry, name);
  const lengths = entry.lengths ?? [];
  // After 8 dims the hues are shifted against the glyphs, so that the pair stays distinct.
  return {
    id: entry.id,
    name,
    size: text.slice(name.length),
    text,
    glyph: GLYPHS[entry.id % 8]!,
    hue: (index + 3 * Math.floor(index / 8)) % 8,
    kind: entry.kind ?? "",
    lengths,
    waste: waste(lengths),
    origin: entry.origin ?? "",
    clash: !!entry.clash,
  };
}

/** The visible rows while these folds are open: of closed folds only the first repeat. */
export function seenRows(folds: Fold[], count: number, open: Set<number>): { row: number; fold: Fold | null }[] {
  const hidden = new Set<number>(),
    at = new Map(folds.map((fold) => [fold.first, fold]));
  for (const { first, rows, count: times } of folds)
    if (!open.has(first)) for (let row = first + rows; row < first + rows * times; row++) hidden.add(row);
  const all = times(count, (row) => ({ row, fold: at.get(row) ?? null }));
  return all.filter(({ row }) => !hidden.has(row));
}

/** The values of a small tensor as tables, with named coordinates; "" past the end of a sequence. */
export function valueTables(frame: Frame<DimsHead>, names: Map<number, string>): { title: string; rows: string[][] }[] {
  const { table } = frame.head,
    values = table && frame.blocks[table.block],
    real = table && frame.blocks[table.real];
  if (!table || !values || !real || values.data.length !== real.data.length) return [];
  const dims = table.dims.map((dim) => names.get(dim) ?? "?"),
    shape = values.shape.slice();
  if (shape.length !== dims.length) return [];
  const labels = dims.map((_, dim) => table.labels?.[dim] ?? []);
  if (shape.length === 1) {
    shape.unshift(1);
    dims.unshift("");
    labels.unshift([]);
  }
  const called = (dim: number, at: number) => {
    const label = labels.at(dim)![at];
    return label === undefined ? String(at) : visible(label);
  };
  const width = shape.at(-1)!,
    height = shape.at(-2)!,
    outer = values.data.length / Math.max(1, width * height);
  return times(outer, (place) => {
    const top = [`${dims.at(-1)} →`, ...times(width, (column) => called(-1, column))];
    const rows = times(height, (row) => [
      dims.at(-2) ? `${dims.at(-2)} ${called(-2, row)}` : "",
      ...times(width, (column) => {
        const index = (place * height + row) * width + column;
        return real.value(index) ? exact(values.value(index)) : "";
      }),
    ]);
    return { title: shape.length > 2 ? `${dims[0]} ${called(0, place)}` : "", rows: [top, ...rows] };
  });
}

/** The name of each dim by id; different dims with equal names become time#1, time#2. */
export function namesOf(entries: DimEntry[]): Map<number, string> {
  const seen = new Map<string, number>();
  const total = new Map<string, number>();
  for (const { name } of entries) total.set(name, (total.get(name) ?? 0) + 1);
  return new Map(
    entries.map(({ name, id }) => {
      seen.set(name, (seen.get(name) ?? 0) + 1);
      return [id, total.get(name)! > 1 ? `${name}#${seen.get(name)}` : name];
    }),
  );
}

/** `batch=3`, `time<=7`, `time=?`. */
export function sizeText(entry: DimEntry, name: string): string {
  return entry.lengths?.length ? `${name}<=${Math.max(...entry.lengths)}` : `${name}=${entry.size ?? "?"}`;
}

/** The column of each dim, such that rows with equal order align; with many dims, those that never occur together share columns. */
export function columnsOf(rows: RowSpec[]): Map<number, number> {
  const order = orderOf(rows);
  if (order.length <= OWN_COLUMNS) return new Map(order.map((dim, column) => [dim, column]));
  const column = new Map<number, number>();
  for (const dim of order) {
    const using = rows.map((row) => row.dims).filter((dims) => dims.includes(dim));
    const taken = new Set(using.flat().flatMap((other) => column.get(other) ?? []));
    const before = using
      .flatMap((dims) => dims.slice(0, dims.indexOf(dim)))
      .flatMap((other) => (column.has(other) ? column.get(other)! + 1 : []));
    let place = Math.max(0, ...before);
    while (taken.has(place)) place++;
    column.set(dim, place);
  }
  return column;
}

/** All dims, such that as many rows as possible have theirs in this order; earlier rows count more. */
function orderOf(rows: RowSpec[]): number[] {
  const follow = new Map<number, Set<number>>();
  for (const { dims } of new Map(rows.map((row) => [row.dims.join(), row])).values()) {
    for (const dim of dims) if (!follow.has(dim)) follow.set(dim, new Set());
    if (dims.some((dim, axis) => dims.slice(axis + 1).some((later) => leads(follow, later, dim)))) continue;
    dims.slice(1).forEach((later, axis) => follow.get(dims[axis]!)!.add(later));
  }
  const order: number[] = [];
  for (let left = [...follow.keys()]; left.length; left = left.filter((dim) => dim !== order[order.length - 1])) {
    order.push(left.find((dim) => !left.some((other) => follow.get(other)!.has(dim)))!);
  }
  return order;
}

/** Whether `end` must come after `start`. */
function leads(follow: Map<number, Set<number>>, start: number, end: number): boolean {
  const seen = new Set<number>();
  const todo = [start];
  for (let at = todo.pop(); at !== undefined; at = todo.pop()) {
    for (const dim of follow.get(at) ?? [])
      if (!seen.has(dim)) {
        seen.add(dim);
        todo.push(dim);
      }
  }
  return seen.has(end);
}

/** Whether the axes of a row are not in the order of the columns. */
export function isPermuted(row: RowSpec, columns: Map<number, number>): boolean {
  const places = row.dims.map((dim) => columns.get(dim)!);
  return places.some((place, index) => index > 0 && place < places[index - 1]!);
}

/** The fraction of padding cells, 0 to 1. */
export function waste(lengths: number[]): number {
  const cells = lengths.length * Math.max(0, ...lengths);
  return cells ? 1 - lengths.reduce((sum, length) => sum + length, 0) / cells : 0;
}

/** `42 kB`: three digits, decimal units. */
export function bytesText(count: number | null | undefined): string {
  if (count == null) return "";
  let value = count;
  const units = ["B", "kB", "MB", "GB", "TB"];
  while (value >= 999.5 && units.length > 1) {
    value /= 1000;
    units.shift();
  }
  return `${units[0] === "B" || value >= 99.5 ? value.toFixed(0) : String(Number(value.toPrecision(3)))} ${units[0]}`;
}

/** Three significant digits; integers, and the integer part from 100 to a million, are complete. */
export function numberText(value: number | null): string {
  if (value === null) return "-";
  const size = Math.abs(value);
  if ((Number.isInteger(value) || size >= 99.95) && size < 1e6) return value.toFixed(0);
  const rounded = significant(value, 3);
  return size >= 1e-4 && size < 1e6 ? String(rounded) : rounded.toExponential().replace(/e([+-])(\d)$/, "e$10$2");
}

/** `min -1 mean 0.1 max 2`; a single value alone. */
export function statsText(stats: Stats | null | undefined): string {
  if (!stats) return "";
  if (!stats.valid) return "no values";
  const one = stats.valid === 1 && stats.mean !== null;
  const parts = one
    ? [`value ${numberText(stats.mean)}`]
    : (["min", "mean", "max"] as const).flatMap((name) =>
        stats[name] === null ? [] : [`${name} ${numberText(stats[name])}`],
      );
  return parts.join(" ");
}

/** `1 NaN 2 inf`, or "". */
export function alarmText(stats: Stats | null | undefined): string {
  return stats ? [stats.nan && `${stats.nan} NaN`, stats.inf && `${stats.inf} inf`].filter(Boolean).join(" ") : "";
}

export function paddingText(stats: Stats | null | undefined): string {
  return !stats || stats.cells === stats.valid
    ? ""
    : `${percent(1 - stats.valid / stats.cells)} padding${stats.padding_odd ? ` with ${stats.padding_odd} NaN or inf` : ""}`;
}

/** The fault of the head of a `dims` spec as a sentence; null if it can be drawn. */
export function problem(head: DimsHead | null): string | null {
  if (!head || !Array.isArray(head.dims) || !Array.isArray(head.rows))
    return "These dims cannot be drawn: the lists of dims and rows are missing.";
  const ids = new Set(head.dims.map((entry) => entry?.id));
  for (const [index, row] of head.rows.entries()) {
    if (!Array.isArray(row?.dims)) return `These dims cannot be drawn: row ${index} has no list of dims.`;
    for (const dim of [...row.dims, ...(row.sparse == null ? [] : [row.sparse])]) {
      if (!ids.has(dim))
        return `These dims cannot be drawn: row ${index} names dim ${dim}, which is not in the list of dims.`;
    }
  }
  for (const { first, rows, count } of head.folds ?? [])
    if (!(first >= 0 && rows > 0 && count > 0 && first + rows * count <= head.rows.length))
      return "These dims cannot be drawn: rows are folded that are not there.";
  return null;
}
