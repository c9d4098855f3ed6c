// The distribution view in the page: a row for each step, and below them the best labels of the step under the cursor as bars.

import { css, sequential } from "../color";
import type { Context, Render } from "../context";
import { button, coarse, h, twin } from "../dom";
import type { Frame } from "../frame";
import { shorten } from "../labels";
import { key } from "../legend";
import { short } from "../number";
import type { Box, Scene as Sight } from "../pane";
import { elsewhere, PanedView } from "../pane_view";
import { draw, shareOf } from "./draw";
import type { Head, Layout, Position, Scene } from "./layout";
import { hit, layout, madeOf, nextWrong, problem, ROW, sceneOf, summary, walk } from "./layout";
import { stepsTable } from "./table";
import { words } from "./words";

class DistributionView extends PanedView<Head, Position, Layout> {
  private scene!: Scene;
  private readonly next = button("next wrong", () => this.go("w"), { title: "the next step with a wrong label (w)" });
  private readonly table = twin("steps as a table", () => stepsTable(this.scene));
  private readonly card = h("div.rfnb-distribution-card");

  constructor(el: HTMLElement, ctx: Context) {
    super(el, ctx, {
      name: "distribution",
      title: "Output",
      hint: "Point at a label, or focus the rows and use the arrow keys.",
      mostHeight: 480,
    });
    this.tools.append(this.next, this.table.toggle);
    this.readout.after(this.card, this.table.box);
  }

  protected override get hint(): string {
    const wrong = this.frame.head.reference && nextWrong(this.scene, -1) !== null && !coarse();
    return wrong ? `${super.hint.slice(0, -1)}; w goes to the next wrong label.` : super.hint;
  }

  protected missing(frame: Frame<Head>): string | null {
    const { seqs, live } = frame.head;
    return problem(frame) ?? (seqs.length ? null : `No steps${live ? " yet" : ""}.`);
  }

  protected sequences(): [string, boolean][] {
    return this.frame.head.seqs.map(({ label, note }) => [label, !!note]);
  }

  protected open(): [string, string, string] {
    const { head } = this.frame,
      entry = head.seqs[this.seq]!;
    this.scene = sceneOf(this.frame, this.seq);
    this.table.fill();
    this.next.hidden = !head.reference;
    this.next.disabled = nextWrong(this.scene, -1) === null;
    const others = head.seqs.filter(({ note }, seq) => note && seq !== this.seq).length;
    const said = [summary(head, entry), madeOf(head)].filter(Boolean).join("; ");
    return [
      entry.note ? `${entry.label}: ${entry.note}.` : "",
      `${said}.`,
      elsewhere(entry.note ?? "", others, "sequence"),
    ];
  }

  protected has({ step }: Position): boolean {
    return step < this.scene.rows.length;
  }

  protected lastStep(): number {
    return this.scene.rows.length - 1;
  }

  protected drawLegend(): void {
    this.legend.replaceChildren(
      ...(this.scene.reference ? [key("frame", "the reference")] : []),
      key("padding", "all others"),
    );
  }

  protected layout(width: number): Layout {
    const { scene, zoom, measure } = this;
    return layout(scene, { width, zoom, measure });
  }

  protected paint(g: CanvasRenderingContext2D, sight: Sight): void {
    const { scene, made, linked, pane, cursor } = this,
      palette = this.ctx.palette();
    const colors = sequential(palette.dark);
    draw(g, sight, { scene, made, palette, colors, cursor: cursor.at, linked, focused: pane.focused });
  }

  protected hit(x: number, y: number): Position | null {
    return hit(this.made, this.scene, x, y);
  }

  protected walk(pressed: string): Position | null {
    return walk(this.scene, this.cursor.at, pressed);
  }

  protected boxOf({ step, item }: Position): Box {
    const { left, top, bar } = this.made,
      { best, rest } = this.scene.rows[step]!;
    const before = best.slice(0, item).reduce((sum, { prob }) => sum + prob, 0) * bar;
    return {
      x: left + before,
      y: top + step * ROW,
      width: Math.min(120, (best[item]?.prob ?? rest) * bar),
      height: ROW + 2,
    };
  }

  protected stepOf({ step }: Position): number {
    return step;
  }

  protected words(at: Position): (Node | string)[] {
    return words(this.scene, at);
  }

  protected override pointed(at: Position | null): void {
    const step = at?.step ?? this.linked ?? 0,
      row = this.scene.rows[step]; // always one, so that nothing below it jumps
    if (!row) return this.card.replaceChildren();
    const colors = sequential(this.ctx.palette().dark);
    const line = (label: string, prob: number, mark: string) => {
      const bar = h("span.rfnb-distribution-bar");
      bar.style.width = `${(100 * prob).toFixed(2)}%`;
      bar.style.background = css(colors, shareOf(prob));
      return h(
        "tr",
        h("th", { scope: "row" }, h("bdi", shorten(label, 24)), mark),
        h("td", short(prob)),
        h("td.rfnb-distribution-track", bar),
      );
    };
    const marks = row.best.map((_, item) => (item === row.rank - 1 ? " = reference" : ""));
    this.card.replaceChildren(
      h(
        "table",
        h(
          "caption",
          `The best labels of ${this.scene.stepName} ${step}${row.name === String(step) ? "" : ` (${shorten(row.name)})`}`,
        ),
        h("tbody", ...row.best.slice(0, 10).map(({ label, prob }, item) => line(label, prob, marks[item]!))),
      ),
    );
  }

  protected describe(at: Position | null) {
    const { rows, seq, stepName, vocabName, size } = this.scene,
      { head } = this.frame;
    const said = summary(head, seq);
    const text = at ? words(this.scene, at).map((part) => (typeof part === "string" ? part : part.textContent)) : [];
    const cols = Math.max(1, ...rows.slice(at?.step ?? 0, (at?.step ?? 0) + 1).map(({ best }) => best.length + 1));
    return {
      label: `Output of ${seq.label}: ${vocabName} with ${size} labels over ${rows.length} ${stepName}${said && `, ${said}`}`,
      cell: at && { row: at.step, col: at.item, rows: rows.length, cols, text: text.join("") },
      data: { row: String(at?.step ?? ""), col: String(at?.item ?? "") },
    };
  }
}

export const render: Render<Head> = (el, frame, ctx) => {
  const view = new DistributionView(el, ctx);
  view.update(frame);
  return view;
};
