// The dims view in the page: a legend of dims, then one row of chips per tensor; pointing at a chip marks the same dim everywhere.

import type { Render } from "../context";
import { h } from "../dom";
import type { Chip, DimsHead, Row } from "./layout";
import { layout, problem } from "./layout";

const MOST_BARS = 48;

export const render: Render = (el, frame) => {
  const view = new DimsView(el);
  const update = ({ head }: typeof frame) => view.update(head as unknown as DimsHead);
  update(frame);
  return { update, destroy: () => view.destroy() };
};

export class DimsView {
  private readonly box = h("div", { class: "rfnb-dims" });
  private readonly readout = h("div", { class: "rfnb-dims-readout", role: "status", "aria-live": "polite" });
  private byKeyboard = false;

  constructor(private readonly root: HTMLElement) {
    root.setAttribute("data-kind", "dims");
    root.append(this.box);
    this.box.addEventListener("pointerover", (event) => this.point(chipAt(event.target)));
    this.box.addEventListener("pointerleave", () => this.point(null));
    this.box.addEventListener("focusin", (event) => {
      this.byKeyboard = true;
      this.point(chipAt(event.target));
    });
    this.box.addEventListener("focusout", () => {
      this.byKeyboard = false;
      this.point(null);
    });
    this.box.addEventListener("keydown", (event) => this.walk(event));
  }

  /** Shows a spec; a bad one becomes a sentence. */
  update(head: DimsHead): void {
    const wrong = problem(head);
    if (wrong) {
      this.box.replaceChildren(h("p", { role: "alert" }, wrong));
      return;
    }
    const made = layout(head);
    this.root.setAttribute("data-dims", String(made.legend.length));
    this.root.setAttribute("data-rows", String(made.rows.length));
    this.box.replaceChildren(
      ...(head.failure ? [h("pre", { class: "rfnb-dims-failure", role: "alert" }, head.failure)] : []),
      h(
        "div",
        { class: "rfnb-dims-title" },
        head.title ?? "Dims",
        ...oneDevice(made.rows),
        ...(head.live ? [h("span", { class: "rfnb-dims-quiet" }, " running")] : []),
      ),
      h("ul", { class: "rfnb-dims-legend", "aria-label": "dims" }, ...made.legend.map(legendItem)),
      ...(made.rows.length ? [h("div", { class: "rfnb-dims-scroll" }, rowTable(made.rows, made.columns))] : []),
      this.readout,
    );
    const [first] = this.chips();
    first?.setAttribute("tabindex", "0");
    this.readout.textContent = "";
  }

  destroy(): void {
    this.root.replaceChildren();
  }

  private chips(): HTMLElement[] {
    return [...this.box.querySelectorAll<HTMLElement>("[data-dim]")];
  }

  /** Marks all occurrences of the dim of a chip. */
  private point(chip: HTMLElement | null): void {
    const focused = this.byKeyboard ? chipAt(this.box.querySelector(":focus")) : null;
    const id = (chip ?? focused)?.dataset["dim"] ?? null;
    this.root.setAttribute("data-cursor", id ?? "");
    this.box.classList.toggle("rfnb-dims-pointing", id !== null);
    let count = 0;
    for (const other of this.chips()) {
      const same = other.dataset["dim"] === id;
      other.classList.toggle("rfnb-dims-same", same);
      if (same && other.closest("table")) count++;
    }
    const of = (chip ?? focused)?.dataset;
    this.readout.textContent = of
      ? `${of["text"]}${of["say"] ?? ""}: in ${count} of ${this.box.querySelectorAll("tr[data-tensor]").length} rows`
      : "";
  }

  /** Arrow keys move the focus from chip to chip; Tab leaves the view. */
  private walk(event: KeyboardEvent): void {
    const here = chipAt(event.target);
    if (!here) return;
    const chips = this.chips();
    const index = chips.indexOf(here);
    const to =
      event.key === "ArrowRight"
        ? chips[index + 1]
        : event.key === "ArrowLeft"
          ? chips[index - 1]
          : event.key === "Home"
            ? chips[0]
            : event.key === "End"
              ? chips[chips.length - 1]
              : event.key === "ArrowDown"
                ? sameColumn(here, 1)
                : event.key === "ArrowUp"
                  ? sameColumn(here, -1)
                  : undefined;
    if (!to) return;
    event.preventDefault();
    event.stopPropagation();
    here.setAttribute("tabindex", "-1");
    to.setAttribute("tabindex", "0");
    to.focus();
  }
}

const chipAt = (target: EventTarget | null): HTMLElement | null =>
  target instanceof Element ? target.closest<HTMLElement>("[data-dim]") : null;

/** The next chip above or below in the same column; from the legend into the table and back. */
function sameColumn(chip: HTMLElement, direction: 1 | -1): HTMLElement | undefined {
  const box = chip.closest(".rfnb-dims")!;
  const cell = chip.closest("td");
  if (!cell) return direction > 0 ? (box.querySelector<HTMLElement>("td [data-dim]") ?? undefined) : undefined;
  const index = (cell as HTMLTableCellElement).cellIndex;
  for (let row: Element | null = cell.parentElement!; row;) {
    row = direction > 0 ? row.nextElementSibling : row.previousElementSibling;
    const found = (row as HTMLTableRowElement | null)?.cells[index]?.querySelector<HTMLElement>("[data-dim]");
    if (found) return found;
  }
  return direction < 0 ? (box.querySelector<HTMLElement>("li [data-dim]") ?? undefined) : undefined;
}

function chipElement(chip: Chip, axis: number | null): HTMLElement {
  const ragged = chip.lengths.length ? " rfnb-dims-ragged" : "";
  const say = [
    chip.kind && `, ${chip.kind} dim`,
    chip.lengths.length && `, lengths ${chip.lengths.slice(0, 12).join(" ")}${chip.lengths.length > 12 ? " …" : ""}`,
  ]
    .filter(Boolean)
    .join("");
  const element = h(
    "span",
    {
      class: `rfnb-dims-chip rfnb-hue-${chip.hue}${ragged}`,
      tabindex: "-1",
      "data-dim": String(chip.id),
      "data-text": chip.text,
      "data-say": say,
      title: chip.text + say,
    },
    h("i", { "aria-hidden": "true" }, chip.glyph),
    h("b", {}, chip.name),
    h("span", { class: "rfnb-dims-size" }, chip.size.replace("<=", "≤").replace(/^=/, " ")),
  );
  if (axis !== null) element.append(h("sup", { title: `axis ${axis}` }, String(axis)));
  return element;
}

function legendItem(chip: Chip): HTMLElement {
  const item = h("li", {}, chipElement(chip, null));
  if (chip.kind) item.append(h("span", { class: "rfnb-dims-quiet" }, chip.kind));
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
    item.append(
      bars,
      h("span", { class: "rfnb-dims-quiet" }, `${more}${(100 * chip.waste).toFixed(0)} % of the cells are padding`),
    );
  }
  return item;
}

const devices = (rows: Row[]): string[] => [...new Set(rows.flatMap((row) => row.device || []))];

/** Where all tensors are on one device, it is said once. */
function oneDevice(rows: Row[]): HTMLElement[] {
  const all = devices(rows);
  return all.length === 1 ? [h("span", { class: "rfnb-dims-quiet" }, ` on ${all[0]}`)] : [];
}

function rowTable(rows: Row[], columns: number): HTMLElement {
  const any = (what: (row: Row) => unknown) => rows.some((row) => Boolean(what(row)));
  const shown = {
    dtype: any((row) => row.dtype),
    device: devices(rows).length > 1,
    bytes: any((row) => row.bytes),
    values: any((row) => row.values),
  };
  const heads: [string, number][] = [
    ["tensor", 1],
    ["dims", columns],
    ...(["dtype", "device", "bytes", "values"] as const).flatMap((name): [string, number][] =>
      shown[name] ? [[name, 1]] : [],
    ),
    ["", 1],
  ];
  const top = h(
    "tr",
    {},
    ...heads.flatMap(([head, span]) => (span ? [h("th", { scope: "col", colspan: String(span) }, head)] : [])),
  );
  const body = rows.map((row) => {
    const label = h("th", { scope: "row" }, row.label);
    label.style.paddingLeft = `${4 + row.indent * 16}px`;
    if (row.heading)
      return h(
        "tr",
        { class: "rfnb-dims-heading" },
        label,
        h("td", { colspan: String(columns + 5), class: "rfnb-dims-quiet" }, row.note),
      );
    const cells = row.cells.map((cell) =>
      h(
        "td",
        { class: "rfnb-dims-cell" },
        cell
          ? chipElement(cell.chip, row.permuted ? cell.axis : null)
          : h("span", { class: "rfnb-dims-missing", "aria-hidden": "true" }, "·"),
      ),
    );
    const texts = (["dtype", "device", "bytes", "values"] as const).flatMap((name) => (shown[name] ? [name] : []));
    const said = texts.map((name) => h("td", { class: `rfnb-dims-${name}` }, row[name]));
    return h(
      "tr",
      { "data-tensor": row.label, "data-permuted": String(row.permuted) },
      label,
      ...cells,
      ...said,
      h("td", { class: "rfnb-dims-quiet rfnb-dims-remarks" }, ...remarks(row)),
    );
  });
  return h("table", {}, h("thead", {}, top), h("tbody", {}, ...body));
}

function remarks(row: Row): HTMLElement[] {
  const out: HTMLElement[] = [];
  const add = (...parts: (Node | string)[]) => {
    out.push(h("span", { class: "rfnb-dims-remark" }, ...parts));
  };
  if (row.alarm) add(h("strong", { class: "rfnb-dims-alarm" }, `⚠ ${row.alarm}`));
  if (row.note) add(row.note);
  if (!row.cells.some(Boolean)) add("scalar");
  if (row.permuted) add(h("span", { title: `stored as ${row.stored}` }, "⇄ other order"));
  if (row.sparse) add("indices into ", chipElement(row.sparse, null));
  if (row.padding) add(row.padding);
  return out;
}
