// The branches view: all runs of a tree as lines over their steps, and any two of them side by side.

import type { Context, Render, Rendered } from "../context";
import { button, h, on, set } from "../dom";
import { prefixed } from "../exact_values";
import type { AnyHead, Frame } from "../frame";
import { pick } from "../group/render";
import { shorten } from "../labels";
import { showIn } from "../mount";
import { fixed, minus } from "../number";
import { Shell } from "../shell";
import { line } from "../visible_text";
import type { Edit, Head, Pair, Result, Two } from "./check";
import { problem } from "./check";
import { axis, chosenAfter, pairOf, rows, through } from "./layout";

const ENDS: Record<string, string> = { done: "●", failed: "✕", stopped: "■", paused: "‖", running: "▶" };
const EDITS: Record<string, string> = { s: "substituted", i: "inserted", d: "deleted" };
const SIDES = ["A | B", "A", "B", "A − B"];

class BranchesView implements Rendered<Head> {
  private frame!: Frame<Head>;
  private order: number[] = []; // the two chosen ones, the later one last
  private shown = new Map<string, number>(); // by view with sides: the displayed ones
  private parts: Rendered<AnyHead>[] = [];
  private readonly tree = h("table.rfnb-branches-tree");
  private readonly said = h("div.rfnb-branches-said", { role: "status" });
  private readonly results = h("div.rfnb-branches-results");
  private readonly views = h("div.rfnb-branches-views");
  private readonly shell: Shell;

  constructor(
    el: HTMLElement,
    private readonly ctx: Context,
  ) {
    const scroll = h("div.rfnb-branches-scroll", this.tree);
    const found = h("div.rfnb-branches-found", this.results, this.said);
    this.shell = new Shell(el, [], h("div.rfnb-branches", scroll, found, this.views));
    on(this.tree, "keydown", (event) => this.key(event));
  }

  update(frame: Frame<Head>): void {
    const { head } = frame;
    if (!this.shell.show(head.title ?? "Branches", problem(head))) return;
    this.frame = frame;
    this.order = this.order.filter((row) => row < head.branches.length);
    if (this.order.length < 2) this.order = [...(head.pair ?? [])];
    this.draw();
  }

  destroy(): void {
    this.end();
  }

  private end(): void {
    for (const part of this.parts.splice(0)) part.destroy();
    this.views.replaceChildren();
  }

  private get pair(): Pair | null {
    return this.order.length === 2 ? pairOf(this.frame.head, this.order as Two) : null;
  }

  private choose(row: number): void {
    this.order = chosenAfter(this.order, row);
    this.draw();
    this.tree.querySelectorAll("button")[row]?.focus();
  }

  private key(event: KeyboardEvent): void {
    const all = [...this.tree.querySelectorAll("button")],
      at = all.indexOf(event.target as HTMLButtonElement),
      to = { ArrowUp: at - 1, ArrowDown: at + 1, Home: 0, End: all.length - 1 }[event.key];
    if (to === undefined || !all[to]) return;
    all[to].focus();
    event.preventDefault();
  }

  private draw(): void {
    const { pair } = this;
    this.drawTree(pair?.of ?? (this.order as Two));
    this.said.replaceChildren(...(pair ? pair.said : [this.missing()]).map((text) => h("p", line(minus(text)))));
    this.results.replaceChildren(...(pair?.results ?? []).map(showResult));
    if (pair?.rest) this.results.append(h("p.rfnb-quiet", `and ${pair.rest} more sequences`));
    this.end();
    if (pair) this.showViews(pair.of);
  }

  /** The code to type for a pair that the page lacks. */
  private missing(): string {
    const [a, b] = this.order.map((row) => JSON.stringify(this.frame.head.branches[row]!.name));
    if (b === undefined) return "There is nothing to compare yet: a branch is made by branch = run.from_step(3).";
    return `This page does not have these two side by side: rf.show(rf.compare_runs(tree[${a}], tree[${b}]))`;
  }

  private drawTree(of: Two): void {
    const { branches } = this.frame.head,
      all = rows(branches);
    const body = branches.map((branch, row) => {
      const letter = "AB"[of.indexOf(row)] ?? "",
        name = h(
          "button.rfnb-branches-name",
          { type: "button", "aria-pressed": !!letter, title: line(branch.name) },
          ...(letter ? [h("b.rfnb-branches-letter", letter)] : []),
          shorten(line(branch.name), 24),
        );
      on(name, "click", () => this.choose(row));
      const { start, end, marks } = all[row]!,
        rail = h("div.rfnb-branches-rail", { "aria-hidden": "true" });
      const put = (kind: string, left: number, text = "") => {
        const mark = h("span", { class: `rfnb-branches-${kind}` }, text);
        mark.style.insetInlineStart = `${left}%`;
        rail.append(mark);
        return mark;
      };
      for (const { at, begins, ends } of through(all, row)) put(begins ? "begin" : ends ? "end" : "down", at);
      put(letter ? "line-chosen" : "line", start).style.width = `${end - start}%`;
      for (const at of marks) put("mark", at);
      put("state", end, ENDS[branch.state] ?? "○");
      return h(
        "tr",
        { "data-name": branch.name },
        h("th", { scope: "row", style: `padding-inline-start: ${Math.min(branch.depth, 8) * 14}px` }, name),
        h("td.rfnb-branches-way", rail),
        h("td", ...lines([branch.story, ...branch.changes])),
        h("td", ...lines(branch.outcome.map(minus))),
      );
    });
    const ticks = h("div.rfnb-branches-axis", { "aria-hidden": "true" });
    for (const { text, at } of axis(branches)) {
      const tick = h("span", text);
      tick.style.insetInlineStart = `${at}%`;
      ticks.append(tick);
    }
    const head = (text: string, ...more: Node[]) => h("th", { scope: "col" }, text, ...more);
    const what = ["compare two", "steps of all loops", "edits", "result"];
    this.tree.replaceChildren(
      ...(branches.length > 2
        ? [h("caption.rfnb-quiet", "Choose two by a click or Enter; arrow keys go up and down. A ring marks an edit.")]
        : []),
      h("thead", h("tr", ...what.map((text, at) => head(text, ...(at === 1 ? [ticks] : []))))),
      h("tbody", ...body),
    );
  }

  /** The views of a pair, in the order of the frame; folded ones are drawn when they are opened. */
  private showViews([a, b]: Two): void {
    this.frame.head.parts.forEach(({ kind, head }, index) => {
      if (head.pair?.[0] !== a || head.pair[1] !== b) return;
      const section = h(`section.rfnb-part.rfnb-branches-${kind}`);
      if (!head.folded) {
        this.views.append(section);
        this.showSides(section, index, [a, b]);
        return;
      }
      const fold = h("details.rfnb-fold", h("summary", line(head.title ?? "")));
      on(fold, "toggle", () => {
        if (!fold.open || section.parentElement) return;
        fold.append(section);
        this.showSides(section, index, [a, b]);
      });
      this.views.append(fold);
    });
  }

  private show(root: HTMLElement, index: number): void {
    const { head, blocks } = this.frame,
      { kind, head: own } = head.parts[index]!,
      prefix = `${index}/`,
      shown = showIn(
        root,
        prefixed(this.ctx.exact, () => prefix),
      );
    this.parts.push(shown);
    shown.update({ kind, head: own, blocks: pick(blocks, prefix) });
  }

  /** A view of the pair, with a button for each side if it has sides. */
  private showSides(section: HTMLElement, index: number, [a, b]: Two): void {
    const { parts } = this.frame.head,
      { key, same, title = "" } = parts[index]!.head,
      sides = [a, b].map((side) => parts.findIndex(({ head }) => head.side === side && head.key === key)),
      box = h("div.rfnb-branches-sides");
    const one = (which: number) => {
      const root = h("div.rfnb-root.rfnb-branches-side"),
        letter = { [sides[0]!]: "A", [sides[1]!]: "B" }[which];
      box.append(h("div.rfnb-branches-of", ...(letter ? [h("b", letter)] : []), root));
      this.show(root, which);
    };
    section.append(box);
    if (sides.includes(-1)) return one(index);
    const name = key ?? String(index);
    let mine: Rendered<AnyHead>[] = [];
    const turn = (at: number) => {
      this.shown.set(name, at);
      buttons.forEach((each, number) => set(each, "aria-pressed", number === at));
      for (const part of mine) part.destroy();
      this.parts = this.parts.filter((part) => !mine.includes(part));
      box.replaceChildren();
      const from = this.parts.length;
      for (const which of [sides, [sides[0]!], [sides[1]!], [index]][at]!) one(which);
      mine = this.parts.slice(from);
    };
    const buttons = SIDES.map((text, at) => button(text, () => turn(at), { "data-do": text }));
    box.before(h("div.rfnb-tools", { role: "group", "aria-label": `${title}: which side` }, ...buttons));
    turn(this.shown.get(name) ?? (same ? 1 : 3));
  }
}

const lines = (texts: string[]): HTMLElement[] => texts.map((text) => h("div", line(String(text))));

/** Both results below each other, position by position; differences are framed and named. */
function showResult({ label, same, scores, counts: found, columns, more, only }: Result): HTMLElement {
  const counts = Object.entries(EDITS).flatMap(([letter, word]) =>
    found?.[letter] ? [`${found[letter]} ${word}`] : [],
  );
  const said = [
    ...(same ? ["the same"] : counts.length ? counts : [only ? `only in ${only}` : "not aligned"]),
    ...scores.flatMap((score, side) => (score === null ? [] : [`score ${"AB"[side]} ${fixed(score, 3)}`])),
    ...(more && columns.length ? [`${more} more columns`] : []),
  ];
  const row = (name: string, text: (edit: Edit) => string) =>
    h(
      "tr",
      h("th", { scope: "row" }, name),
      ...columns.map((edit) =>
        h("td", { "data-edit": edit[2] }, h("bdi", name ? shorten(text(edit), 16) : text(edit))),
      ),
    );
  const cells = columns.length
    ? [
        h(
          "div.rfnb-branches-scroll",
          { tabindex: 0, role: "group", "aria-label": `${line(label)}, aligned` },
          h(
            "table.rfnb-branches-edits",
            row("A", ([a, , edit]) => (edit === "i" ? "–" : a)),
            row("B", ([, b, edit]) => (edit === "d" ? "–" : b)),
            row("", ([, , edit]) => (EDITS[edit] ?? "").slice(0, 3)),
          ),
        ),
      ]
    : [];
  return h("div", h("p", h("b", line(label)), `: ${said.join(", ")}`), ...cells);
}

export const render: Render<Head> = (el, frame, ctx) => {
  const view = new BranchesView(el, ctx);
  view.update(frame);
  return view;
};
