// The dims view in the page: a legend of dims, then one row of chips for each tensor; pointing at a chip highlights its dim everywhere.

import type { Render } from "../context";
import { Cursor, onKeys } from "../cursor";
import { button, h, on, onLeave, onResize, quiet, set, status } from "../dom";
import type { Frame } from "../frame";
import type { DimsHead, Fold } from "./layout";
import { layout, namesOf, problem, seenRows, valueTables } from "./layout";
import { legendOf, rowTable, saidOnce, valueTable } from "./table";

const MOST_ROWS = 18,
  FEW = 6; // fewer rows take hardly more space than the note about them

class DimsView {
  private readonly box = h("div.rfnb-dims");
  private readonly readout = status("div.rfnb-dims-readout");
  private readonly all = button("All rows", () => this.unfold(!this.box.classList.contains("rfnb-dims-whole")), {
    "data-do": "all",
    "aria-pressed": false,
  });
  private readonly open = new Set<number>(); // folds, by their first row
  private frame!: Frame<DimsHead>;
  private needs = 0; // width of the rows with a column for each dim
  private tight = false;
  private readonly end: () => void;
  private readonly cursor = new Cursor<DOMStringMap>(() => this.point());

  constructor(private readonly root: HTMLElement) {
    root.append(this.box);
    on(this.box, "pointerover", (event) => this.cursor.hover(chipAt(event.target)?.dataset ?? null));
    onLeave(this.box, () => this.cursor.hover(null));
    on(this.box, "focusin", ({ target }) => {
      const low = (element: Element) => element.getBoundingClientRect().bottom,
        box = (target as Element).closest(".rfnb-dims-scroll");
      if (box && low(target as Element) > low(box)) this.unfold(true); // Tab moved the focus to a hidden row
      this.cursor.pin(chipAt(target)?.dataset ?? null);
    });
    on(this.box, "focusout", () => this.cursor.pin(null));
    onKeys(this.box, (event) => this.walk(event));
    this.end = onResize(this.box, () => this.fit());
  }

  /** If dims in columns are too wide, those of a row are packed together, so that nothing is cut off. */
  private fit(): void {
    const rows = this.box.querySelector(".rfnb-dims-scroll");
    if (!rows) return;
    if (!this.tight) this.needs = rows.scrollWidth;
    const tight = this.needs > rows.clientWidth + 1;
    if (tight === this.tight) return;
    this.tight = tight;
    this.update(this.frame);
  }

  update(frame: Frame<DimsHead>): void {
    const { head } = frame,
      wrong = problem(head);
    if (frame !== this.frame) this.tight = false;
    this.frame = frame;
    if (wrong) {
      this.box.replaceChildren(h("p", { role: "alert" }, wrong));
      return;
    }
    const { legend, rows, columns } = layout(head);
    this.root.dataset["dims"] = String(legend.length);
    this.root.dataset["rows"] = String(rows.length);
    const title = [head.title ?? "Dims", ...saidOnce(rows), ...(head.live ? [quiet(" running")] : [])];
    const seen = seenRows(head.folds ?? [], rows.length, this.open),
      values = valueTables(frame, namesOf(head.dims)),
      turn = ({ first }: Fold) => {
        if (!this.open.delete(first)) this.open.add(first);
        this.update(this.frame);
        this.box.querySelector<HTMLElement>(`[data-fold="${first}"]`)?.focus();
      };
    const many = seen.length > MOST_ROWS + FEW;
    this.all.textContent = `All ${seen.length} rows`;
    this.box.replaceChildren(
      ...(head.failure ? [h("pre.rfnb-dims-failure", { role: "alert" }, head.failure)] : []),
      h("div.rfnb-dims-title", ...title),
      legendOf(legend),
      ...(rows.length
        ? [
            h(
              `div.rfnb-dims-scroll${many ? ".rfnb-dims-cut" : ""}`,
              rowTable(rows, columns, seen, this.open, turn, this.tight),
            ),
          ]
        : []),
      ...(many ? [this.all] : []),
      ...(values.length ? [h("div.rfnb-dims-scroll", ...values.map(valueTable))] : []),
      ...(head.mend ? [h("pre.rfnb-dims-failure", head.mend)] : []),
      this.readout,
    );
    this.chips()[0]?.setAttribute("tabindex", "0");
    this.cursor.pin(null);
    this.fit();
  }

  /** Many rows are cut off, so that the wheel scrolls the page; a click or a key that leads there shows all. */
  private unfold(whole: boolean): void {
    this.box.classList.toggle("rfnb-dims-whole", whole);
    set(this.all, "aria-pressed", whole);
  }

  destroy(): void {
    this.end();
    this.root.replaceChildren();
  }

  private chips(): HTMLElement[] {
    return [...this.box.querySelectorAll<HTMLElement>("[data-dim]")];
  }

  /** Highlights all occurrences of the dim under the cursor. */
  private point(): void {
    const { at } = this.cursor,
      id = at?.["dim"];
    this.root.dataset["cursor"] = id ?? "";
    this.box.classList.toggle("rfnb-dims-pointing", !!at);
    const same = this.chips().filter((chip) => chip.classList.toggle("rfnb-dims-same", chip.dataset["dim"] === id));
    const count = same.filter((chip) => chip.closest("table")).length,
      rows = this.box.querySelectorAll("tr[data-tensor]").length;
    this.readout.textContent = at ? `${at["text"]}${at["say"]}: in ${count} of ${rows} rows` : "";
  }

  /** Arrow keys move the focus from chip to chip; Tab leaves the view. */
  private walk({ key, target }: KeyboardEvent): boolean {
    const here = chipAt(target);
    if (!here) return false;
    const chips = this.chips(),
      index = chips.indexOf(here);
    const walks: Record<string, () => HTMLElement | undefined> = {
      ArrowRight: () => chips[index + 1],
      ArrowLeft: () => chips[index - 1],
      Home: () => chips[0],
      End: () => chips.at(-1),
      ArrowDown: () => sameColumn(here, 1),
      ArrowUp: () => sameColumn(here, -1),
    };
    const to = walks[key]?.();
    if (!to) return false;
    if (to.closest("tbody")) this.unfold(true);
    here.tabIndex = -1;
    to.tabIndex = 0;
    to.focus();
    return true;
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

export const render: Render<DimsHead> = (el, frame) => {
  const view = new DimsView(el);
  view.update(frame);
  return view;
};
