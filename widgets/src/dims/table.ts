// The chips of a dims view: the legend of dims, and the table with a row for each tensor.

import { percent } from "../number";
import { button, h, quiet, set } from "../dom";
import type { Chip, Fold, Row } from "./layout";

const MOST_BARS = 48,
  MANY = 8,
  APART = 4; // columns: with more, the dims of a row are packed together
const ROLES: Record<string, string> = {
  thead: "rowgroup",
  tbody: "rowgroup",
  tr: "row",
  row: "rowheader",
  col: "columnheader",
  td: "cell",
};

function chipElement(chip: Chip, axis: number | null): HTMLElement {
  const ragged = chip.lengths.length ? " rfnb-dims-ragged" : "";
  const say = [
    chip.clash && ", clashes",
    chip.kind && `, ${chip.kind} dim`,
    chip.origin && `, ${chip.origin}`,
    chip.lengths.length && `, lengths ${chip.lengths.slice(0, 12).join(" ")}${chip.lengths.length > 12 ? " …" : ""}`,
  ]
    .filter(Boolean)
    .join("");
  const element = h(
    "span",
    {
      class: `rfnb-dims-chip rfnb-hue-${chip.hue}${ragged}${chip.clash ? " rfnb-dims-clash" : ""}`,
      tabindex: "-1",
      "data-dim": chip.id,
      "data-text": chip.text,
      "data-say": say,
      title: chip.text + say,
      role: "img",
      "aria-label": `dim ${chip.text}${axis === null ? "" : `, axis ${axis}`}${say}`,
    },
    h("i", { "aria-hidden": "true" }, chip.glyph),
    h("b", chip.name),
    h("span.rfnb-dims-size", chip.size.replace("<=", "≤").replace(/^=/, " ")),
  );
  if (axis !== null) element.append(h("span.rfnb-dims-axis", `axis ${axis}`));
  return element;
}

function legendItem(chip: Chip): HTMLElement {
  const item = h("li", chipElement(chip, null));
  if (chip.clash) item.append(h("strong.rfnb-dims-alarm", "≠ clashes"));
  if (chip.kind) item.append(quiet(chip.kind));
  if (chip.origin) item.append(quiet(chip.origin));
  if (chip.lengths.length) {
    const top = Math.max(1, ...chip.lengths);
    const shown = chip.lengths.slice(0, MOST_BARS);
    const bars = h(
      "span",
      {
        class: `rfnb-dims-bars rfnb-hue-${chip.hue}`,
        role: "img",
        "aria-label": `lengths ${shown.join(", ")}`,
        title: `lengths ${shown.join(", ")}`,
      },
      ...shown.map((length) => {
        const bar = h("span");
        bar.style.height = `${Math.max(1, (18 * length) / top)}px`;
        return bar;
      }),
    );
    const more = chip.lengths.length > shown.length ? `+${chip.lengths.length - shown.length} ` : "";
    item.append(bars, quiet(`${more}${percent(chip.waste)} of the cells are padding`));
  }
  return item;
}

const devices = (rows: Row[]): string[] => [...new Set(rows.flatMap((row) => row.device || []))];

const dtypes = (rows: Row[]): string[] => [...new Set(rows.flatMap((row) => row.dtype || []))];

/** A common device is given once; with many rows also a common dtype, which would take a column. */
export function saidOnce(rows: Row[]): HTMLElement[] {
  const [device, dtype] = [devices(rows), dtypes(rows)];
  const said = [
    ...(device.length === 1 ? [` on ${device[0]}`] : []),
    ...(dtype.length === 1 && rows.length > MANY ? [` ${dtype[0]}`] : []),
  ];
  return said.length ? [quiet(said.join(","))] : [];
}

/** The legend of dims; with many, the chips in the rows suffice, and the descriptions are folded. */
export function legendOf(chips: Chip[]): HTMLElement {
  const list = h("ul.rfnb-dims-legend", { "aria-label": "dims" }, ...chips.map(legendItem)),
    alarm = chips.some(({ clash }) => clash);
  return chips.length > MANY
    ? h("details", alarm ? { open: "" } : {}, h("summary", `${chips.length} dims`), list)
    : list;
}

/** Tables of values: a row ends where its sequence ends. */
export function valueTable({ title, rows: [top, ...rows] }: { title: string; rows: string[][] }): HTMLElement {
  const cell = (text: string) =>
    h("td", { class: text === "" ? "rfnb-dims-past" : /^[-−+]?[\d.]/.test(text) ? "" : "rfnb-dims-alarm" }, text);
  const lines = rows.map((row) => h("tr", h("th", { scope: "row" }, row[0]!), ...row.slice(1).map(cell)));
  const heads = top!.map((text) => h("th", { scope: "col" }, text));
  return h(
    "table.rfnb-dims-values-table",
    ...(title ? [h("caption", title)] : []),
    h("thead", h("tr", ...heads)),
    h("tbody", ...lines),
  );
}

/** `seen`: the visible rows; `turn` opens or closes a fold. */
export function rowTable(
  all: Row[],
  columns: number,
  seen: { row: number; fold: Fold | null }[],
  open: Set<number>,
  turn: (fold: Fold) => void,
  tight: boolean, // no space for a column for each dim
): HTMLElement {
  const rows = all;
  const any = (what: (row: Row) => unknown) => rows.some((row) => Boolean(what(row)));
  const shown = {
    dtype: any((row) => row.dtype) && !(rows.length > MANY && dtypes(rows).length === 1),
    device: devices(rows).length > 1,
    bytes: any((row) => row.bytes),
    values: any((row) => row.values),
  };
  const together = tight || columns > APART;
  const noted = rows.some((row) => !row.heading && remarks(row).length);
  const heads: [string, number][] = [
    ["tensor", 1],
    ["dims", together ? 1 : columns],
    ...(["dtype", "device", "bytes", "values"] as const).flatMap((name): [string, number][] =>
      shown[name] ? [[name, 1]] : [],
    ),
    ...(noted ? ([["notes", 1]] as [string, number][]) : []),
  ];
  const top = h(
    "tr",
    ...heads.flatMap(([head, span]) => (span ? [h("th", { scope: "col", colspan: span }, head)] : [])),
  );
  const body = seen.map(({ row: number, fold }) => {
    const row = rows[number]!;
    const label = h("th", { scope: "row" }, row.label);
    label.style.paddingLeft = `${4 + row.indent * 16}px`;
    if (fold) {
      const last = rows[fold.first + (fold.count - 1) * fold.rows]!.label,
        is = open.has(fold.first);
      label.append(
        " ",
        button(`× ${fold.count}`, () => turn(fold), {
          "aria-expanded": is,
          "data-fold": fold.first,
          "aria-label": `× ${fold.count}: ${row.label} to ${last} are alike`,
          title: `${row.label} to ${last} are alike${is ? "" : "; opens"}`,
        }),
      );
    }
    if (row.heading) {
      const note = row.note ? [h("td.rfnb-quiet", { colspan: columns + 5 }, row.note)] : [];
      if (!note.length) label.colSpan = columns + 6; // an empty cell would be an empty line in rows shown as blocks
      return h("tr.rfnb-dims-heading", label, ...note);
    }
    const chips = row.cells.flatMap((cell) =>
      cell ? [chipElement(cell.chip, row.permuted ? cell.axis : null), " "] : [],
    );
    const apart = row.cells.map((cell) =>
      h(
        "td.rfnb-dims-cell",
        cell
          ? chipElement(cell.chip, row.permuted ? cell.axis : null)
          : h("span.rfnb-dims-missing", { "aria-hidden": "true" }, "·"),
      ),
    );
    const texts = (["dtype", "device", "bytes", "values"] as const).flatMap((name) => (shown[name] ? [name] : []));
    const said = texts.map((name) => h("td", { class: `rfnb-dims-${name}` }, row[name]));
    return h(
      "tr",
      { "data-tensor": row.label, "data-permuted": row.permuted },
      label,
      ...(together ? [h("td.rfnb-dims-cell", ...chips)] : apart),
      ...said,
      ...(noted ? [h("td.rfnb-quiet.rfnb-dims-remarks", ...remarks(row))] : []),
    );
  });
  const table = h("table", { role: "table" }, h("thead", top), h("tbody", ...body));
  // In narrow pages these are blocks, which screen readers treat as a table only with explicit roles.
  for (const element of table.querySelectorAll("thead, tbody, tr, th, td"))
    set(element, "role", ROLES[element.getAttribute("scope") ?? element.localName]!);
  return table;
}

function remarks(row: Row): HTMLElement[] {
  const out: HTMLElement[] = [];
  const add = (...parts: (Node | string)[]) => {
    out.push(h("span.rfnb-dims-remark", ...parts));
  };
  if (row.alarm) add(h("strong.rfnb-dims-alarm", `⚠ ${row.alarm}`));
  if (row.note) add(row.note);
  if (!row.cells.some(Boolean)) add("scalar");
  if (row.permuted) add(h("span", { title: `stored as ${row.stored}` }, "⇄ other order"));
  if (row.sparse) add("indices into ", chipElement(row.sparse, null));
  if (row.padding) add(row.padding);
  return out;
}
