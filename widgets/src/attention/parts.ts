// The parts of the attention view around the map: legend, table, and what is under the cursor in words.

import type { Table } from "../color";
import { h, quiet } from "../dom";
import { exact, rough, short } from "../number";
import { shorten } from "../labels";
import { key, ramp } from "../legend";
import { fault } from "./check";
import type { Matrix, Position, Scale } from "./layout";
import { isPadding, largest, rowsComputed } from "./layout";

const MOST_CELLS = 40000;

/** The colour scale with its numbers, and the marks of what holds no weight if there is any. */
export function legend(element: HTMLElement, colors: Table, { low, high }: Scale, matrix: Matrix): void {
  const numbers = [low, low < 0 ? (low + high) / 2 : high / 4, high].map(short);
  const title = low < 0 ? "linear colours" : "square-root colours: small weights stay visible";
  element.replaceChildren(ramp(colors, numbers, title));
  if (matrix.rowLen < matrix.rows || matrix.colLen < matrix.cols) element.append(key("padding", "padding"));
  if (rowsComputed(matrix) < matrix.rowLen) element.append(key("missing", "not computed"));
}

/** A value as text: exactly, or that it is about that. */
const said = (value: number, { about }: Matrix): string => (about ? `about ${rough(value)}` : exact(value));

/** The cell in one sentence. */
export function sentence(matrix: Matrix, at: Position): string {
  const place = `${matrix.rowName} ${at.row}, ${matrix.colName} ${at.col}`;
  const value = matrix.value(at.row, at.col);
  if (isPadding(matrix, at)) return `${place}: padding${onPadding(value, matrix)}`;
  const names = `${matrix.rowName} “${matrix.rowLabel(at.row)}” (${at.row}) to ${matrix.colName} “${matrix.colLabel(at.col)}” (${at.col})`;
  const wrong = fault(matrix, at.row);
  return `${names}: ${Number.isNaN(value) ? "not computed" : said(value, matrix)}${wrong && `; ${wrong}`}`;
}

/** What lies where nothing should; zeros go without saying, so does NaN where all is as it should be. */
const onPadding = (value: number, { note, about }: Matrix): string =>
  about ? "" : value || (note && Number.isNaN(value)) ? `, with ${exact(value)} on it` : "";

/** The cell under the cursor, and where else its row looks. */
export function words(matrix: Matrix, at: Position): (Node | string)[] {
  const value = matrix.value(at.row, at.col),
    wrong = fault(matrix, at.row);
  const warned = wrong ? [h("span", { class: "rfnb-wrong" }, ` ! ${wrong}`)] : [];
  if (isPadding(matrix, at)) {
    const place = `${matrix.rowName} ${at.row}, ${matrix.colName} ${at.col}`;
    return [`${place}: padding, past the end of ${matrix.seq}${onPadding(value, matrix)}`, ...warned];
  }
  const token = (name: string, label: string, index: number) => [
    quiet(`${name} `),
    h("b", {}, shorten(label, 40)),
    quiet(` ${index}`),
  ];
  const top = largest(matrix, at.row, 3).map(
    (col) => `${shorten(matrix.colLabel(col))} ${matrix.value(at.row, col).toFixed(2)}`,
  );
  const others = h(
    "span",
    { class: "rfnb-quiet rfnb-others" },
    `most of this row${matrix.about ? ", about" : ""}: ${top.join(", ")}`,
  );
  return [
    ...token(matrix.rowName, matrix.rowLabel(at.row), at.row),
    "  →  ",
    ...token(matrix.colName, matrix.colLabel(at.col), at.col),
    "  ",
    h("b", { class: "rfnb-value" }, Number.isNaN(value) ? "not computed" : said(value, matrix)),
    ...(top.length > 1 ? ["; ", others] : []),
    ...warned,
  ];
}

/** How many rows and columns a table has. */
export function tableSize(matrix: Matrix): [rows: number, cols: number] {
  const cols = Math.min(matrix.colLen, 200);
  return [Math.min(matrix.rowLen, Math.max(1, Math.floor(MOST_CELLS / Math.max(1, cols)))), cols];
}

/** The same numbers as an HTML table. */
export function table(element: HTMLElement, matrix: Matrix): void {
  const [rows, cols] = tableSize(matrix);
  const head = h(
    "tr",
    {},
    h("th", { scope: "col" }, `${matrix.rowName} ↓ ${matrix.colName} →`),
    ...Array.from({ length: cols }, (_, col) => h("th", { scope: "col" }, shorten(matrix.colLabel(col)))),
  );
  const body = Array.from({ length: rows }, (_, row) =>
    h(
      "tr",
      {},
      h("th", { scope: "row" }, shorten(matrix.rowLabel(row))),
      ...Array.from({ length: cols }, (_, col) => {
        const value = matrix.value(row, col);
        return h(
          "td",
          { title: said(value, matrix) },
          Number.isNaN(value)
            ? "–"
            : matrix.about
              ? `≈ ${rough(value)}`
              : Math.abs(value) < 1000
                ? value.toFixed(4)
                : short(value),
        );
      }),
    ),
  );
  const left =
    rows < matrix.rowLen || cols < matrix.colLen
      ? ` (the first ${rows} × ${cols} of ${matrix.rowLen} × ${matrix.colLen})`
      : "";
  element.replaceChildren(
    h(
      "table",
      {},
      h("caption", {}, `${matrix.label}, ${matrix.seq}${left}${matrix.about ? ": about, rounded" : ""}`),
      h("thead", {}, head),
      h("tbody", {}, ...body),
    ),
  );
}
