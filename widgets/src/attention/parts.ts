// The parts of the attention view around the map: the legend, the table, and the description of the cell under the cursor.

import type { Table } from "../color";
import { h, quiet, table as tableOf } from "../dom";
import { times } from "../list";
import { exact, rough, share, short } from "../number";
import { shorten } from "../labels";
import { key, ramp } from "../legend";
import { fault } from "./check";
import type { Matrix, Position, Scale } from "./matrix";
import { isPadding, largest, rowsComputed, wordAt } from "./matrix";

const MOST_CELLS = 40000;

/** The value of a cell, with "about" if the page has less precision than the kernel. */
export function told(matrix: Matrix, value: number): string {
  if (Number.isNaN(value)) return "NaN";
  return matrix.about ? `about ${rough(value)}` : exact(value);
}

/** Two digits, for lists; more if they would be zeros. */
export function digits(value: number): string {
  const size = Math.abs(value);
  return size && (size < 0.01 || size >= 100) ? rough(value) : share(value);
}

export const inList = (matrix: Matrix, value: number): string => `${matrix.about ? "about " : ""}${digits(value)}`;

/** The colour scale with its numbers and the position of uniform weights, and the marks of cells without weights if there are any. */
export function legend(element: HTMLElement, colors: Table, scale: Scale, matrix: Matrix): void {
  const { low, high } = scale;
  const linear = scale.share((low + high) / 2) === 0.5,
    numbers = [low, linear ? (low + high) / 2 : high / 4, high].map(short);
  const title = linear ? "linear colours" : "square-root colours: small weights stay visible";
  const box = ramp(colors, numbers, title);
  const even = 1 / Math.max(1, matrix.colLen),
    uniform = matrix.sums && matrix.colLen > 1 && low >= 0 && !matrix.masked; // with a mask it differs from row to row
  if (uniform && even < high) {
    const mark = h("i.rfnb-even", { title: `uniform weights: 1/${matrix.colLen}` });
    mark.style.left = `${(100 * scale.share(even)).toFixed(1)}%`;
    box.firstElementChild!.append(mark);
  }
  element.replaceChildren(box);
  if (uniform) element.append(h("span.rfnb-key", `▴ uniform 1/${matrix.colLen}`));
  if (high !== 1 && low >= 0) element.append(h("span.rfnb-key", `full colour is ${short(high)}, not 1`));
  if (matrix.rowLen < matrix.rows || matrix.colLen < matrix.cols) element.append(key("padding", "padding"));
  if (matrix.masked) element.append(matrix.causal ? key("causal", "causal mask") : key("masked", "masked"));
  if (rowsComputed(matrix) < matrix.rowLen) element.append(key("missing", "NaN, not computed"));
  if (matrix.self) element.append(h("span.rfnb-key", "self-attention"));
}

/** The cell in one sentence. */
export function sentence(matrix: Matrix, at: Position): string {
  const place = `${matrix.rowName} ${at.row}, ${matrix.colName} ${at.col}`;
  const value = matrix.value(at.row, at.col);
  if (isPadding(matrix, at)) return `${place}: padding${onPadding(value, matrix)}`;
  if (matrix.hidden(at.row, at.col)) return `${place}: masked${onPadding(value, matrix)}`;
  const names = `${matrix.rowName} “${matrix.rowLabel(at.row)}” (${at.row}) to ${matrix.colName} “${matrix.colLabel(at.col)}” (${at.col})`;
  const wrong = fault(matrix, at.row),
    word = wordAt(matrix, at.col);
  const comes = comesOf(matrix, at);
  return `${names}${word && `, in “${word}”`}: ${told(matrix, value)}${comes && `; ${comes}`}${wrong && `; ${wrong}`}`;
}

/** Values in cells that should be empty; zeros are not mentioned, nor is NaN in correct maps. */
const onPadding = (value: number, matrix: Matrix): string =>
  matrix.about
    ? ""
    : value || (matrix.note && Number.isNaN(value))
      ? `, with ${Number.isNaN(value) ? "NaN" : told(matrix, value)} on it`
      : "";

/** The result of a cell's edit in a map of effects; "" in others. */
const comesOf = ({ effects, value }: Matrix, { row, col }: Position): string =>
  effects
    ? (effects.said[row]?.[col] ?? "") ||
      (Number.isNaN(value(row, col)) ? (effects.labels[row]?.[col] ? "it cannot be done here" : "still to come") : "")
    : "";

/** The cell under the cursor, and the other large weights of its row. */
export function words(matrix: Matrix, at: Position): (Node | string)[] {
  const value = matrix.value(at.row, at.col),
    wrong = fault(matrix, at.row);
  const warned = wrong ? [h("span.rfnb-wrong", ` ! ${wrong}`)] : [];
  if (isPadding(matrix, at)) {
    const place = `${matrix.rowName} ${at.row}, ${matrix.colName} ${at.col}`;
    return [`${place}: padding, past the end of ${matrix.seq}${onPadding(value, matrix)}`, ...warned];
  }
  const masked = matrix.hidden(at.row, at.col),
    word = wordAt(matrix, at.col);
  const token = (name: string, label: string, index: number) => [
    quiet(`${name} `),
    h("b", shorten(label, 40)),
    ...(label === String(index) ? [] : [quiet(` ${index}`)]),
  ];
  const top = largest(matrix, at.row, 3).map(
    (col) => `${shorten(matrix.colLabel(col))} ${digits(matrix.value(at.row, col))}`,
  );
  const others = h(
    "span.rfnb-quiet.rfnb-others",
    `most of this row${matrix.about ? ", about" : ""}: ${top.join(", ")}`,
  );
  return [
    ...token(matrix.rowName, matrix.rowLabel(at.row), at.row),
    "  →  ",
    ...token(matrix.colName, matrix.colLabel(at.col), at.col),
    ...(word ? [quiet(" in "), h("b", shorten(word, 40))] : []),
    "  ",
    h(
      "b.rfnb-value",
      masked ? `masked${onPadding(value, matrix)}` : matrix.effects && Number.isNaN(value) ? "" : told(matrix, value),
    ),
    ...(matrix.effects ? ["  ", comesOf(matrix, at)] : top.length > 1 ? ["; ", others] : []),
    ...warned,
  ];
}

function inTable(matrix: Matrix, row: number, col: number): string {
  const value = matrix.value(row, col);
  if (matrix.hidden(row, col) && !value) return "masked";
  if (Number.isNaN(value)) return "–";
  if (matrix.about) return `≈ ${rough(value)}`;
  return Math.abs(value) < 1000 && (!value || Math.abs(value) >= 5e-5) ? value.toFixed(4) : short(value);
}

/** The numbers of rows and columns of a table. */
export function tableSize(matrix: Matrix): [rows: number, cols: number] {
  const cols = Math.min(matrix.colLen, 200);
  return [Math.min(matrix.rowLen, Math.max(1, Math.floor(MOST_CELLS / Math.max(1, cols)))), cols];
}

/** The same numbers as an HTML table. */
export function table(element: HTMLElement, matrix: Matrix): void {
  const [rows, cols] = tableSize(matrix);
  const heads = [`${matrix.rowName} ↓ ${matrix.colName} →`, ...times(cols, (col) => shorten(matrix.colLabel(col)))];
  const body = times(rows, (row): [string, ...HTMLTableCellElement[]] => [
    shorten(matrix.rowLabel(row)),
    ...times(cols, (col) => {
      const value = matrix.value(row, col);
      return h("td", { title: matrix.hidden(row, col) ? "masked" : told(matrix, value) }, inTable(matrix, row, col));
    }),
  ]);
  const left =
    rows < matrix.rowLen || cols < matrix.colLen
      ? ` (the first ${rows} × ${cols} of ${matrix.rowLen} × ${matrix.colLen})`
      : "";
  element.replaceChildren(
    tableOf(`${matrix.label}, ${matrix.seq}${left}${matrix.about ? ": about, rounded" : ""}`, heads, body),
  );
}
