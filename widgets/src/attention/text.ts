// The tokens as running text, shaded by the weights of one row or column: readable where a map has too many cells.

import { times } from "../list";
import type { Table } from "../color";
import { css, inkOn } from "../color";
import type { Cursor } from "../cursor";
import { onKeys } from "../cursor";
import { h, on, onLeave, quiet, set } from "../dom";
import { visible } from "../visible_text";
import type { Matrix, Position, Scale } from "./matrix";
import { shared, strongest } from "./matrix";
import { inList } from "./parts";

const MOST = 4000,
  NUMBERED = 5,
  LINE = 40; // more than the height of a line
const RTL = /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]/u,
  LTR = /[A-Za-z\u00c0-\u024f\u0370-\u052f]/u;

let count = 0;

/** The tokens of one side; one of them can be chosen. */
class Side {
  readonly box: HTMLElement;
  readonly tokens: HTMLElement[];
  private fill = (_: HTMLElement, __: number): void => {};

  constructor(
    name: string,
    labels: string[],
    private readonly id: string,
    pick: (index: number, hover: boolean) => void,
  ) {
    this.tokens = labels.map((label, index) =>
      h(
        "span.rfnb-token",
        { role: "option", id: `${id}-${index}`, "aria-selected": "false" },
        h("bdi", visible(label)),
      ),
    );
    this.box = h(
      "div.rfnb-tokens",
      { role: "listbox", tabindex: "0", "aria-label": name, dir: directionOf(labels) },
      ...this.tokens.flatMap((token) => [token, " "]),
    );
    const at = (event: Event): number => {
      const token = (event.target as HTMLElement).closest?.(".rfnb-token");
      return token ? this.tokens.indexOf(token as HTMLElement) : -1;
    };
    on(this.box, "pointerover", (event) => at(event) >= 0 && pick(at(event), true));
    on(this.box, "click", (event) => at(event) >= 0 && pick(at(event), false));
    on(this.box, "scroll", () => this.paint());
  }

  /** Updates the visible tokens; of thousands, the others follow when they are scrolled to. */
  private paint(): void {
    const { box, tokens } = this,
      top = box.scrollTop - LINE,
      bottom = box.scrollTop + box.clientHeight + LINE;
    let [low, high] = [0, tokens.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (tokens[middle]!.offsetTop < top) low = middle + 1;
      else high = middle;
    }
    const seen: [HTMLElement, number][] = []; // reads come before writes, so that there is one reflow instead of one per token
    for (let index = low; index < tokens.length && tokens[index]!.offsetTop <= bottom; index++)
      seen.push([tokens[index]!, index]);
    for (const [token, index] of seen) this.fill(token, index);
  }

  mark(chosen: number | null): void {
    this.box.querySelector(".rfnb-chosen")?.classList.remove("rfnb-chosen");
    this.box.querySelector('[aria-selected="true"]')?.setAttribute("aria-selected", "false");
    const token = chosen === null ? undefined : this.tokens[chosen];
    if (!token) return this.box.removeAttribute("aria-activedescendant");
    token.classList.add("rfnb-chosen");
    set(token, "aria-selected", "true");
    set(this.box, "aria-activedescendant", `${this.id}-${chosen}`);
  }

  /** Shades each token by its value; the largest ones show their number (the first of `each` that share one), NaN and masked ones stay plain. */
  shade(
    values: (index: number) => number,
    colors: Table,
    scale: Scale,
    number: (value: number) => string,
    each = 1,
  ): void {
    const all = this.tokens.map((_, index) => values(index));
    const top = strongest(all.length, NUMBERED, (index) => (all[index]! > 0 ? all[index]! : NaN), each);
    this.fill = (token, index) => {
      const value = all[index]!,
        share = Number.isFinite(value) ? Math.min(1, Math.max(0, scale.share(value))) : 0;
      token.style.background = share > 0.02 ? css(colors, share) : "";
      token.style.color = share > 0.02 ? inkOn(colors, share) : "";
      token.style.borderBottomWidth = `${Math.round(share * 4)}px`;
      if (top.includes(index)) token.dataset["number"] = number(value);
      else delete token.dataset["number"];
    };
    this.paint();
  }

  plain(): void {
    this.fill = (token) => {
      token.removeAttribute("style");
      delete token.dataset["number"];
    };
    this.paint();
  }
}

export class TextMode {
  readonly element = h("div.rfnb-text", { hidden: "" });
  private readonly words = h("div.rfnb-quiet");
  private matrix: Matrix | null = null;
  private rows: Side | null = null;
  private cols: Side | null = null;
  private colors!: Table;
  private scale!: Scale;
  private by: "row" | "col" = "row";
  private built = "";

  constructor(
    private readonly cursor: Cursor<Position>,
    private readonly again: () => void, // calls `point` for the same place
  ) {
    onKeys(this.element, (event) => this.key(event));
    onLeave(this.element, () => this.cursor.hover(null));
  }

  /** Shows the tokens of a matrix; null hides them. */
  show(matrix: Matrix | null, colors: Table, scale: Scale): void {
    this.element.hidden = !matrix;
    this.matrix = matrix;
    if (!matrix) return;
    Object.assign(this, { colors, scale });
    const lists = [matrix.rowLen, matrix.colLen].map((length, side) =>
      times(Math.min(MOST, length), (index) => (side ? matrix.colLabel(index) : matrix.rowLabel(index))),
    ) as [string[], string[]];
    const built = JSON.stringify([lists, matrix.rowName, matrix.colName, matrix.self]);
    if (built === this.built) return;
    this.built = built;
    const id = `rfnb-text-${++count}`;
    this.rows = new Side(matrix.rowName, lists[0], `${id}-r`, (index, hover) => this.pick("row", index, hover));
    this.cols = new Side(matrix.colName, lists[1], `${id}-c`, (index, hover) => this.pick("col", index, hover));
    const more = Math.max(matrix.rowLen, matrix.colLen) > MOST ? [quiet(`the first ${MOST} tokens`)] : [];
    const heading = (text: string) => h("div.rfnb-text-heading", text);
    this.element.replaceChildren(
      this.words,
      heading(`${matrix.rowName} (looks)`),
      this.rows.box,
      heading(`${matrix.colName} (is looked at)`),
      this.cols.box,
      ...more,
    );
  }

  /** The chosen token follows the cursor. `exact`: the matrix with the exact values of its row, where there are some. */
  point(at: Position | null, exact: Matrix | null): void {
    const { rows, cols } = this,
      matrix = this.by === "row" ? (exact ?? this.matrix) : this.matrix;
    if (!this.matrix || !matrix || !rows || !cols) return;
    const number = (value: number) => inList(matrix, value),
      [down, across] = shared(matrix);
    const place = at ?? { row: matrix.causal ? matrix.rowLen - 1 : 0, col: 0 }; // the first can see only itself
    if (this.by === "row") {
      const { row } = place;
      rows.plain();
      rows.mark(row);
      cols.mark(null);
      cols.shade(
        (col) => (matrix.hidden(row, col) ? NaN : matrix.value(row, col)),
        this.colors,
        this.scale,
        number,
        across,
      );
      this.words.textContent = `Where ${matrix.rowName} “${visible(matrix.rowLabel(row))}” (${row}) looks. Point at a ${matrix.colName} to see what looks at it.`;
    } else {
      const { col } = place;
      cols.plain();
      cols.mark(col);
      rows.mark(null);
      rows.shade(
        (row) => (matrix.hidden(row, col) ? NaN : matrix.value(row, col)),
        this.colors,
        this.scale,
        number,
        down,
      );
      this.words.textContent = `What looks at ${matrix.colName} “${visible(matrix.colLabel(col))}” (${col}). Point at a ${matrix.rowName} to see where it looks.`;
    }
  }

  private pick(by: "row" | "col", index: number, hover: boolean): void {
    const at = this.cursor.at ?? { row: 0, col: 0 };
    const changed = this.by !== by;
    this.by = by;
    const to =
      by === "row"
        ? { row: index, col: Math.min(at.col, this.matrix!.colLen - 1) }
        : { row: Math.min(at.row, this.matrix!.rowLen - 1), col: index };
    if (hover) this.cursor.hover(to);
    else this.cursor.pin(to);
    if (changed) this.again();
  }

  private key(event: KeyboardEvent): boolean {
    const { matrix } = this;
    const side =
      (event.target as HTMLElement) === this.rows?.box
        ? "row"
        : (event.target as HTMLElement) === this.cols?.box
          ? "col"
          : null;
    if (!matrix || !side || event.ctrlKey) return false;
    if (event.key === "Escape") {
      this.cursor.pin(null);
      return true;
    }
    const last = Math.min(MOST, side === "row" ? matrix.rowLen : matrix.colLen) - 1,
      now = this.cursor.at?.[side] ?? -1,
      flip = (side === "row" ? this.rows : this.cols)!.box.dir === "rtl" ? -1 : 1;
    const to = {
      ArrowRight: now + flip,
      ArrowLeft: now - flip,
      ArrowDown: now + 10,
      ArrowUp: now - 10,
      Home: 0,
      End: last,
    }[event.key];
    if (to === undefined) return false;
    const index = Math.max(0, Math.min(last, to));
    this.pick(side, index, false);
    (side === "row" ? this.rows : this.cols)!.tokens[index]?.scrollIntoView?.({ block: "nearest" });
    return true;
  }
}

/** "rtl" where most tokens with letters are written from right to left. */
export function directionOf(labels: string[]): "ltr" | "rtl" {
  let balance = 0;
  for (const label of labels) balance += RTL.test(label) ? 1 : LTR.test(label) ? -1 : 0;
  return balance > 0 ? "rtl" : "ltr";
}
