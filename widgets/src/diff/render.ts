// The diff view in the page: the summary, steps by paths, and below them the values at the cursor.

import { prepare } from "../canvas";
import { sequential } from "../color";
import type { Context, Render } from "../context";
import { button, coarse, h, on, onResize, quiet, set, table as grid, twin } from "../dom";
import type { Frame } from "../frame";
import { shorten } from "../labels";
import { ramp } from "../legend";
import { minus, short } from "../number";
import type { Box, Scene } from "../pane";
import { PanedView } from "../pane_view";
import { line, safe, visible } from "../visible_text";
import { cellAt, difference, draw, drawGrowth, drawPair, panels } from "./draw";
import type { Head, Layout, PairEntry, Position, Result, Values } from "./layout";
import { hit, layout, pairAt, problem, ROW, told, valuesOf, walk, where } from "./layout";

const GROWTH = 92;

class DiffView extends PanedView<Head, Position, Layout> {
  private readonly first = button("First", () => this.go("f"), {
    title: "the first difference (f)",
    "data-do": "first",
  });
  private readonly next = button("Next path", () => this.go("n"), {
    title: "the next path that differs, where it does first (n)",
    "data-do": "next",
  });
  private readonly table = twin("paths as a table", () => this.paths());
  private readonly said = h("div.rfnb-diff-said");
  private readonly sentence = h("p.rfnb-diff-words");
  private readonly growth = h("canvas", { role: "img" });
  private readonly maps = h("canvas", { role: "img" });
  private readonly value = h("p.rfnb-quiet");
  private readonly card = h("div.rfnb-diff-card", this.sentence, this.growth, this.maps, this.value);
  private readonly below = h("div.rfnb-diff-below");
  private values: Values | null = null;
  private asked = "";
  private readonly unwatch: () => void;

  constructor(el: HTMLElement, ctx: Context) {
    super(el, ctx, {
      name: "diff",
      title: "Diff",
      hint: "Point at a step of a path, or focus the picture and use the arrow keys.",
      mostHeight: 420,
    });
    this.tools.append(this.first, this.next, this.table.toggle);
    this.stage.before(this.said);
    this.readout.after(this.table.box, this.card, this.below);
    for (const name of ["pointermove", "pointerdown"] as const) on(this.maps, name, (event) => this.tellCell(event));
    this.unwatch = onResize(this.card, () => this.paintCard());
    ctx.onTheme(() => this.paintCard());
  }

  override destroy(): void {
    this.unwatch();
    super.destroy();
  }

  protected override get hint(): string {
    return this.frame.head.mark && !coarse()
      ? `${super.hint.slice(0, -1)}; f goes to the first difference, n to the next path.`
      : super.hint;
  }

  protected missing(frame: Frame<Head>): string | null {
    const { head } = frame;
    return problem(frame) ?? (head.rows.length && head.cols.length ? null : head.said);
  }

  protected sequences(): [string, boolean][] {
    return [];
  }

  protected open(): [string, string, string] {
    const { head } = this.frame,
      { said, headline, hints, limit, mark } = head;
    this.said.replaceChildren(
      h("p", h("b", line(minus(typeof headline === "string" && headline ? headline : said)))),
      ...(hints.length ? [h("ul", ...hints.map((hint) => h("li", line(hint))))] : []),
      quiet(limit),
    );
    this.first.hidden = !mark;
    this.next.hidden = !mark;
    this.below.replaceChildren(...this.more(head));
    this.table.fill();
    this.asked = "";
    this.ends(false, false);
    return ["", head.notes.map(line).join(" "), ""];
  }

  /** Searches, results with their edits, and the next line to type. */
  private more({ searches, results, next, names }: Head): Node[] {
    const made: Node[] = [];
    if (searches.length && !results.length) made.push(h("pre", searches.map(safe).join("\n")));
    else if (searches.length)
      made.push(
        h(
          "pre",
          searches
            .filter((text) => !text.startsWith("  "))
            .map(safe)
            .join("\n"),
        ),
      );
    made.push(...results.map((result) => edits(result, names)));
    if (next.length) made.push(h("pre.rfnb-diff-next", next.map(safe).join("\n")));
    return made;
  }

  private paths(): HTMLElement {
    const { head, blocks } = this.frame,
      { rows } = head,
      most = blocks["abs"]!;
    const at = (col: number | null) => (typeof col === "number" ? where(head, col) : "–");
    return grid(
      `Paths of ${head.names.map((name) => shorten(name, 40)).join(" and ")}`,
      ["path", "first difference", "largest", "there", "steps that differ"],
      rows.map(({ label, first, worst, differ, of }, row) => [
        shorten(label, 60),
        at(first),
        typeof worst === "number" ? `${most.exact ? "" : "about "}${short(most.at(0, row, worst))}` : "–",
        at(worst),
        `${differ} of ${of}`,
      ]),
    );
  }

  protected has({ row, col }: Position): boolean {
    return row < this.frame.head.rows.length && col < this.frame.head.cols.length;
  }

  protected lastStep(): number {
    return this.frame.head.cols.length - 1;
  }

  protected drawLegend(): void {
    const colors = sequential(this.ctx.palette().dark);
    this.legend.replaceChildren(
      quiet("difference, in tolerances"),
      ramp(colors, ["0", "1", "10⁵"], "0: the same, bit for bit; 1: as much as the tolerance"),
      quiet("▪ more than the tolerance"),
    );
  }

  protected layout(width: number): Layout {
    const { zoom, measure } = this;
    return layout(this.frame.head, { width, zoom, measure });
  }

  protected paint(g: CanvasRenderingContext2D, scene: Scene): void {
    const { made, linked, pane, cursor } = this,
      { head, blocks } = this.frame;
    const log = blocks["log"]!;
    draw(g, scene, { head, log, made, palette: this.ctx.palette(), cursor: cursor.at, linked, focused: pane.focused });
  }

  protected hit(x: number, y: number): Position | null {
    return hit(this.made, this.frame.head, x, y);
  }

  protected walk(pressed: string): Position | null {
    return walk(this.frame.head, this.cursor.at, pressed);
  }

  protected boxOf({ row, col }: Position): Box {
    const { left, top, pitch } = this.made;
    return { x: left + col * pitch, y: top + row * ROW, width: Math.max(3, pitch), height: ROW + 2 };
  }

  protected stepOf({ col }: Position): number {
    return col;
  }

  protected words(at: Position): string[] {
    return [told(this.frame, at)];
  }

  protected override pointed(at: Position | null): void {
    const { head, blocks } = this.frame,
      shown = at ?? (head.mark ? { row: head.mark[0], col: head.mark[1] } : null); // there is always one, so that nothing below jumps
    this.card.hidden = !shown;
    if (!shown) return;
    const key = `${shown.row}/${shown.col}`;
    if (key === this.asked) return;
    this.asked = key;
    const pair = pairAt(head, shown),
      block = pair?.block && blocks[pair.block];
    this.show(shown, pair ?? null, block ? valuesOf(block) : null);
    if (block || Number.isNaN(blocks["log"]!.at(0, shown.row, shown.col))) return;
    void this.bring(shown, key);
  }

  /** Requests the two values of a place from the kernel if the page lacks them. */
  private async bring(at: Position, key: string): Promise<void> {
    const { exact } = this.ctx,
      name = `pair/${key}`;
    const size = await exact.ask({ block: `${name}/size`, start: [0], size: [3] });
    if (key !== this.asked) return;
    const values = size && (await exact.ask({ block: name, start: [0, 0, 0], size: [2, size[0]!, size[1]!] }));
    if (key !== this.asked) return;
    const [rows, cols] = size ? [size[0]!, size[1]!] : [0, 0];
    if (!values)
      this.value.textContent = "Both values are in the kernel, which has none for this position or does not answer.";
    else
      this.show(at, null, {
        rows,
        cols,
        a: (row, col) => values[row * cols + col]!,
        b: (row, col) => values[(rows + row) * cols + col]!,
      });
  }

  private show(at: Position, pair: PairEntry | null, values: Values | null): void {
    const { head } = this.frame;
    this.values = values;
    this.sentence.textContent = pair ? line(pair.words) : "";
    const dims = pair?.dims?.map((dim, axis) => dim && `${dim}=${pair.size![axis]}`).filter(Boolean);
    const of = dims?.length ? `${dims.map(line).join(" by ")}${pair!.at && `, at ${line(pair!.at)}`}` : "";
    const pooled = pair?.pool && Math.max(...pair.pool) > 1 ? "Each block of cells shows its largest difference." : "";
    this.value.textContent = [of && `${of}.`, pooled].filter(Boolean).join(" ");
    const path = shorten(head.rows[at.row]!.label, 60);
    set(this.growth, "aria-label", `How much ${path} differs over ${head.cols.length} steps`);
    set(
      this.maps,
      "aria-label",
      `${head.names.map((name) => shorten(name, 40)).join(", ")} and their difference at ${path}`,
    );
    this.paintCard(at);
  }

  private paintCard(at = this.cursor.at ?? this.place()): void {
    const width = this.card.clientWidth || 600,
      { values } = this;
    if (!at || !this.drawable) return;
    const { head, blocks } = this.frame,
      log = blocks["log"]!,
      palette = this.ctx.palette();
    const steps = head.cols.filter((_, col) => !Number.isNaN(log.at(0, at.row, col))).length;
    this.growth.hidden = steps < 2;
    const size = { width: Math.min(width, 640), height: GROWTH };
    const curve = steps > 1 && prepare(this.growth, size.width, size.height);
    if (curve) drawGrowth(curve, size, (col) => log.at(0, at.row, col), head.cols.length, at.col, palette);
    this.maps.hidden = !values;
    const maps = values && prepare(this.maps, width, panels(values, width).height);
    if (maps) drawPair(maps, values!, head.names, width, palette);
  }

  private place(): Position | null {
    const { mark } = this.frame.head;
    return mark && { row: mark[0], col: mark[1] };
  }

  /** The cell of a map under the pointer, with both values. */
  private tellCell(event: PointerEvent): void {
    const { values } = this;
    if (!values) return;
    const box = this.maps.getBoundingClientRect(),
      width = this.card.clientWidth || 600,
      cell = cellAt(values, width, event.clientX - box.left, event.clientY - box.top);
    if (!cell) return;
    const { row, col } = cell;
    const [a, b] = [values.a(row, col), values.b(row, col)];
    const [one, other] = this.frame.head.names;
    const at = values.rows > 1 ? `${row}, ${col}` : String(col);
    this.value.textContent = `Cell ${at}: ${short(a)} in ${line(one)}, ${short(b)} in ${line(other)}, ${short(difference(a, b))} apart.`;
  }

  protected describe(at: Position | null) {
    const { head } = this.frame,
      { rows, cols } = head;
    const text = at ? told(this.frame, at) : "";
    return {
      label: `Differences of ${rows.length} paths over ${cols.length} steps. ${line(head.said)}`,
      cell: at && { row: at.row, col: at.col, rows: rows.length, cols: cols.length, text },
      data: { row: String(at?.row ?? ""), col: String(at?.col ?? "") },
    };
  }
}

const EDITS: Record<string, string> = { "=": "the same", s: "another label", i: "one more", d: "one less" };

/** Two results, aligned label by label. */
function edits({ label, edits: made, a, b, scores }: Result, names: [string, string]): HTMLElement {
  const left = [[...a], [...b]],
    rows = names.map((name, side) => {
      const cells = [...made].map((edit) => {
        const text = edit === (side ? "d" : "i") ? "–" : visible(left[side]!.shift()!);
        return h(`td.rfnb-edit-${edit === "=" ? "same" : edit}`, { title: EDITS[edit]! }, h("bdi", text));
      });
      const score = scores[side];
      return h(
        "tr",
        h("th", { scope: "row" }, line(name)),
        ...cells,
        h("td.rfnb-quiet", score === null ? "" : short(score!)),
      );
    });
  const count = [...made].filter((edit) => edit !== "=").length;
  const caption = `${line(label)}: ${count} ${count === 1 ? "label differs" : "labels differ"}`;
  return h(
    "div.rfnb-diff-result",
    { tabindex: 0, role: "group", "aria-label": caption },
    h("table", h("caption", caption), h("tbody", ...rows)),
  );
}

export const render: Render<Head> = (el, frame, ctx) => {
  const view = new DiffView(el, ctx);
  view.update(frame);
  return view;
};
