// A question that is answered in the view, by pointer or keys: a grid of cells to draw in or to pick, feedback on the answer, and the next step
// of a search. The page judges at once; a kernel judges too, and stores the answer.

import type { Context, Render, Rendered } from "../context";
import { onKeys } from "../cursor";
import { button, h, on, quiet, set, status } from "../dom";
import type { Frame } from "../frame";
import { Shell } from "../shell";
import { fixed } from "../number";
import { line, safe, visible } from "../visible_text";
import type { Board, Judged, QuestionHead, Step } from "./layout";
import { emptyBoard, judge, problem, weightAt } from "./layout";

const GLYPHS = ["", "✓", "✕", "○"],
  MARKS = ["", "right", "wrong", "missed"];
const TILTED = 2, // letters from which on a column's label is upright
  DENSE = 40; // columns from which on cells are small
const MOVES: Record<string, [number, number]> = {
  ArrowUp: [-1, 0],
  ArrowDown: [1, 0],
  ArrowLeft: [0, -1],
  ArrowRight: [0, 1],
};
const KEYS = "Arrows move, Space draws, with Shift on the way; Enter checks.";

class Question implements Rendered<QuestionHead> {
  private readonly grid = h("table.rfnb-question-grid", { role: "grid", "aria-multiselectable": true });
  private readonly check = button("Check", () => this.commit(), { "data-do": "check" });
  private readonly clear = button("Clear", () => this.change(() => emptyBoard(this.step)), { "data-do": "clear" });
  private readonly next = button("Next step", () => this.go(this.at + 1), { "data-do": "next" });
  private readonly said = status("div.rfnb-question-said");
  private readonly shell: Shell;
  private frame!: Frame<QuestionHead>;
  private known = ""; // the answer of the last frame
  private sent: string[] = []; // the answers given here, from the one that the kernel echoed last
  private boards: Board[] = [];
  private missed: (Board | null)[] = []; // by step, like in the head
  private judged: Judged | null = null;
  private at = 0;
  private row = 0;
  private col = 0;
  private paint: number | null = null; // the value drawn while a button is held down

  constructor(
    private readonly el: HTMLElement,
    private readonly ctx: Context,
  ) {
    const tools = h("div", this.check, " ", this.clear, " ", this.next, " ", quiet(KEYS)),
      scroll = h("div.rfnb-question-scroll", this.grid);
    this.shell = new Shell(el, [], h("div", scroll, tools, this.said));
    on(this.grid, "pointerdown", (event) => {
      const place = placeOf(event.target);
      if (!place || event.button) return;
      (event.target as Element).releasePointerCapture?.(event.pointerId); // so that a finger reaches other cells
      [this.row, this.col] = place;
      this.paint = 1 - this.board[this.row]![this.col]!;
      this.draw(this.paint);
    });
    on(this.grid, "pointerover", (event) => {
      const place = placeOf(event.target);
      if (!(event.buttons & 1)) this.paint = null;
      if (place && this.paint !== null && !this.step.size) this.draw(this.paint, place);
    });
    on(this.grid, "click", (event) => {
      const place = placeOf(event.target);
      if (!place || event.detail) return; // pointers have drawn already: this click comes from a screen reader
      [this.row, this.col] = place;
      this.draw(1 - this.board[this.row]![this.col]!);
    });
    on(this.grid, "focusin", ({ target }) => {
      [this.row, this.col] = placeOf(target) ?? [this.row, this.col];
    });
    onKeys(this.grid, (event) => this.key(event));
  }

  update(frame: Frame<QuestionHead>): void {
    if (!this.shell.show(visible(frame.head.title ?? ""), problem(frame))) return;
    const { answer, name, revealed, form, steps, missed } = frame.head,
      known = JSON.stringify([name, answer, revealed]);
    this.frame = frame;
    set(this.el, "data-form", form);
    for (const [at, board] of (Array.isArray(missed) ? missed : []).entries()) this.missed[at] ??= board;
    if (known === this.known) return;
    this.known = known;
    // An answer given here comes back, perhaps after later ones: the drawing may have continued since.
    const echo = revealed ? -1 : this.sent.indexOf(JSON.stringify(answer));
    this.sent = echo < 0 ? [] : this.sent.slice(echo);
    if (echo >= 0) return;
    const given = this.isShown ? steps.map(({ solution }) => solution) : answer.slice(0, steps.length);
    this.boards = given.map((board, at) =>
      emptyBoard(steps[at]!).map((row, r) => row.map((_, c) => +!!board?.[r]?.[c])),
    );
    this.at = this.isShown ? 0 : Math.max(0, given.length - 1);
    this.show(answer.length > 0);
  }

  private get head(): QuestionHead {
    return this.frame.head;
  }

  private get step(): Step {
    return this.head.steps[this.at]!;
  }

  /** Whether the board is not an answer. */
  private get isShown(): boolean {
    return this.head.revealed && !this.head.answer.length;
  }

  private get board(): Board {
    return (this.boards[this.at] ??= emptyBoard(this.step));
  }

  private cellAt(row: number, col: number): HTMLElement | null {
    return this.grid.querySelector(`[data-at="${row},${col}"]`);
  }

  /** Draws in the cell of the cursor, and on the way to another one: fast pointers skip cells. */
  private draw(value: number, [toRow, toCol] = [this.row, this.col]): void {
    const { row, col } = this,
      count = Math.max(Math.abs(toRow - row), Math.abs(toCol - col)),
      on = new Set<string>();
    for (let at = 0; at <= count; at++) {
      const share = count ? at / count : 0;
      on.add(`${Math.round(row + share * (toRow - row))},${Math.round(col + share * (toCol - col))}`);
    }
    [this.row, this.col] = [toRow, toCol];
    this.change((board) => board.map((cells, r) => cells.map((old, c) => (on.has(`${r},${c}`) ? value : old))));
    this.cellAt(toRow, toCol)?.focus();
  }

  private change(make: (board: Board) => Board): void {
    this.boards = [...this.boards.slice(0, this.at), make(this.board)]; // later steps depended on another choice
    if (this.judged) this.show();
    else this.fill();
  }

  private key(event: KeyboardEvent): boolean {
    const { key, shiftKey } = event,
      move = MOVES[key],
      { board } = this;
    if (event.ctrlKey) return false;
    if (key === "Enter") this.commit();
    else if (key === " ") this.draw(1 - board[this.row]![this.col]!);
    else if (move || key === "Home" || key === "End") {
      const value = board[this.row]![this.col]!;
      this.row = clamp(this.row + (move?.[0] ?? 0), board.length);
      this.col =
        key === "Home" ? 0 : clamp(key === "End" ? Infinity : this.col + (move?.[1] ?? 0), board[this.row]!.length);
      if (shiftKey && move && !this.step.size) this.draw(value);
      this.fill();
      this.cellAt(this.row, this.col)?.focus();
    } else return false;
    return true;
  }

  private commit(): void {
    if (this.isShown) return;
    this.show(true);
    if (!this.next.hidden) this.next.focus();
    const boards = this.boards.slice(0, this.at + 1);
    this.sent.push(JSON.stringify(boards));
    void this.ctx.held?.do({ do: "answer", boards }).then((said) => {
      if (said) this.said.textContent = line(said);
    });
  }

  private go(at: number): void {
    this.at = at;
    this.row = this.col = 0;
    this.show();
    this.cellAt(0, 0)?.focus();
  }

  /** The feedback on the board; less for the first wrong answer than for others. */
  private judge(): Judged {
    const { frame, at, board, missed } = this,
      before = missed[at],
      first = !frame.head.revealed && (!before || JSON.stringify(before) === JSON.stringify(board)),
      made = judge(frame, at, board, first);
    if (made.whole && !made.passed) missed[at] ??= board;
    return made;
  }

  /** Builds the grid: for another step, or with feedback. */
  private show(judged = false): void {
    const { cols, steps, asked } = this.head,
      { rows, names, size, solution } = this.step,
      had = this.grid.contains(active(this.el)),
      wide = cols.length > DENSE,
      result = (this.judged = judged ? this.judge() : null);
    this.row = clamp(this.row, rows.length);
    this.col = clamp(this.col, solution[this.row]!.length);
    set(this.el, "data-step", this.at);
    this.grid.toggleAttribute("data-dense", wide);
    this.grid.toggleAttribute(
      "data-tilted",
      cols.some((label) => visible(label).length > TILTED),
    );
    const heads = size
      ? [h("th", { scope: "col" }, `step ${this.at + (this.head.first ?? 0)}: ${size} stay`)]
      : cols.map((label, c) => h("th", { scope: "col" }, h("span", wide && c % 5 ? "" : visible(label))));
    const body = solution.map((row, r) =>
      h(
        "tr",
        { role: "row" },
        h("th", { role: "rowheader" }, visible(rows[r]!)),
        ...row.map((_, c) => h("td", { role: "gridcell", "data-at": `${r},${c}` })),
        ...(result?.notes[r]
          ? [h("td", { "aria-label": `agreement in ${line(names[r]!)}` }, quiet(result.notes[r]!))]
          : []),
      ),
    );
    this.grid.replaceChildren(h("thead", h("tr", ...(size ? [] : [h("td")]), ...heads)), h("tbody", ...body));
    set(this.grid, "aria-label", line(asked));
    this.fill();
    const last = this.at === steps.length - 1;
    this.check.hidden = this.clear.hidden = this.isShown;
    this.next.hidden = last || !(result?.passed || this.isShown);
    this.said.textContent = result
      ? safe(result.message) + (result.passed && last && size ? "\nThat was the last step." : "")
      : this.isShown
        ? "Shown, not answered: this is the right answer."
        : "";
    for (const element of [this.said, this.el]) set(element, "data-passed", result ? result.passed : "");
    if (had) this.cellAt(this.row, this.col)?.focus();
  }

  /** Updates the cells and the cursor. */
  private fill(): void {
    const { head, judged, board } = this,
      { names, texts, after } = this.step,
      weighed = head.form === "alignment" && (judged?.told || this.isShown);
    for (const cell of this.grid.querySelectorAll<HTMLElement>("[data-at]")) {
      const [r, c] = placeOf(cell)!,
        mark = judged?.marks[r]?.[c] ?? 0,
        drawn = board[r]![c]!,
        text = texts && (judged?.told ? after! : texts)[r]![c]!;
      set(cell, "aria-selected", !!drawn);
      set(cell, "tabindex", r === this.row && c === this.col ? 0 : -1);
      set(cell, "data-mark", mark);
      cell.textContent = line(`${text ?? ""} ${GLYPHS[mark]}`.trim());
      let words = line(`${names[r]}, ${text ?? head.col_names[c]}: ${drawn ? "" : "not "}${text ? "picked" : "drawn"}`);
      if (weighed) {
        const weight = weightAt(head, this.frame.blocks, r, c);
        set(cell, "data-weight", weight);
        cell.style.setProperty("--weight", `${100 * weight}%`);
        words += `, weight ${fixed(weight, 2)}`;
      }
      set(cell, "aria-label", mark ? `${words}, ${MARKS[mark]}` : words);
    }
  }

  destroy(): void {}
}

const active = (el: HTMLElement): Element | null => (el.getRootNode() as Document | ShadowRoot).activeElement;
const clamp = (at: number, size: number): number => Math.max(0, Math.min(size - 1, at));
function placeOf(target: EventTarget | null): [number, number] | null {
  const at = (target as Element | null)?.closest?.<HTMLElement>("[data-at]")?.dataset["at"];
  return at ? (at.split(",").map(Number) as [number, number]) : null;
}

export const render: Render<QuestionHead> = (el, frame, ctx) => {
  const view = new Question(el, ctx);
  view.update(frame);
  return view;
};
