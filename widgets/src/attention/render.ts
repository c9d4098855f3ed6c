// The attention view in the page: choices, the map, what is under the cursor, and the same as a table.

import { image } from "../canvas";
import type { Table } from "../color";
import { sequential } from "../color";
import type { Context, Render } from "../context";
import { h, setOptions } from "../dom";
import { rowOf } from "../exact";
import type { Frame } from "../frame";
import type { Box, Scene } from "../pane";
import { elsewhere, flagged, PanedView } from "../paned";
import type { Bus } from "../selection";
import { draw } from "./draw";
import type { Head, Layout, Matrix, Position, Scale } from "./layout";
import { hit, layout, matrixOf, problem, rowsComputed, scaleOf, walk, withRow } from "./layout";
import { legend, sentence, table, tableSize, words } from "./parts";
import { Thumbs } from "./thumbs";

const MOST_HEIGHT = 620;

class AttentionView extends PanedView<Head, Position, Layout> {
  private matrix!: Matrix;
  private scale!: Scale;
  private cells: HTMLCanvasElement | null = null;
  private map = 0;
  private linkedCol: number | null = null;
  private readonly cols: Bus | null; // the axis of the sources

  private readonly mapSelect = h("select", { "aria-label": "map" });
  private readonly tableButton = h("button", { type: "button", "aria-pressed": "false", "data-do": "table" }, "Table");
  private readonly tableBox = h("div", {
    class: "rfnb-table",
    hidden: "",
    tabindex: "0",
    role: "region",
    "aria-label": "weights as a table",
  });
  private readonly thumbs = new Thumbs((map) => this.chooseMap(map));

  constructor(el: HTMLElement, ctx: Context, { axis, col_axis }: Head) {
    super(el, ctx, {
      name: "attention",
      title: "Attention",
      hint: "Point at a cell, or focus the map and use the arrow keys; + and − zoom.",
      mostHeight: MOST_HEIGHT,
    });
    this.stage.before(this.thumbs.element);
    this.stage.after(this.tableBox);
    this.tools.prepend(this.mapSelect);
    this.tools.append(this.tableButton);
    this.mapSelect.addEventListener("change", () => this.chooseMap(Number(this.mapSelect.value)));
    this.tableButton.addEventListener("click", () => this.toggleTable());
    this.cols = col_axis !== undefined && col_axis !== axis ? ctx.busOf(col_axis) : null;
    if (this.cols)
      this.listen(this.cols, ({ step }) => {
        this.linkedCol = step;
        this.pane.paintSoon();
      });
  }

  protected missing(frame: Frame<Head>): string | null {
    const { maps, live } = frame.head;
    return problem(frame) ?? (maps.some(({ seqs }) => seqs.length) ? null : `No weights${live ? " yet" : ""}.`);
  }

  protected sequences(): [string, boolean][] {
    const { maps, seqs } = this.frame.head;
    this.map = Math.min(this.map, maps.length - 1);
    const { seqs: of, notes } = maps[this.map]!;
    return of.map((index, at) => [seqs[index]!.label, !!notes?.[at]]);
  }

  protected open(): [string, string, string] {
    const { maps } = this.frame.head;
    this.scale = scaleOf(this.frame);
    this.matrix = matrixOf(this.frame, this.map, this.seq)!;
    this.el.dataset["map"] = String(this.map);
    const labels = maps.map(({ label, notes }) => flagged([label, !!notes]));
    setOptions(this.mapSelect, labels, this.map);
    const { note, remark, seq } = this.matrix;
    const others = maps.reduce((sum, { notes }) => sum + Object.keys(notes ?? {}).length, note ? -1 : 0);
    return [note && `${seq}: ${note}.`, remark, elsewhere(note, others, "map", "sequence")];
  }

  private chooseMap(map: number): void {
    this.map = map;
    this.choose(this.seq);
  }

  protected has({ row, col }: Position): boolean {
    return row < this.matrix.rows && col < this.matrix.cols;
  }

  protected lastStep(): number {
    return rowsComputed(this.matrix) - 1;
  }

  protected override redraw(): void {
    super.redraw();
    if (!this.drawable) return;
    this.thumbs.update(this.frame, this.seq, this.map, this.scale, this.colors);
    if (!this.tableBox.hidden) this.fillTable();
  }

  /** The table, of exact values as soon as they are there. */
  private fillTable(): void {
    const { matrix } = this;
    table(this.tableBox, matrix);
    if (!matrix.about) return;
    const [rows, cols] = tableSize(matrix);
    void this.ctx.exact.ask({ block: matrix.block, start: [matrix.at, 0, 0], size: [1, rows, cols] }).then((values) => {
      if (values && matrix === this.matrix && !this.tableBox.hidden)
        table(this.tableBox, { ...matrix, about: false, value: (row, col) => values[row * cols + col]! });
    });
  }

  /** The map with the exact values of a row, if they are there; else they are asked for, and what is said follows. */
  private exactly(row: number): Matrix {
    const { matrix, frame, ctx } = this;
    if (!matrix.about || row >= matrix.rows) return matrix;
    const values = rowOf(ctx.exact, matrix.block, frame.blocks[matrix.block]!, matrix.at, row, () => this.point());
    return values ? withRow(matrix, row, values) : matrix;
  }

  protected drawLegend(): void {
    legend(this.legend, this.colors, this.scale, this.matrix);
  }

  private get colors(): Table {
    return sequential(this.ctx.palette().dark);
  }

  protected layout(width: number): Layout {
    this.cells = null;
    const { matrix, zoom, measure } = this,
      made = layout(matrix, { width, height: MOST_HEIGHT, zoom, measure });
    this.el.dataset["cell"] = made.cell.toFixed(2);
    return made;
  }

  protected paint(g: CanvasRenderingContext2D, scene: Scene): void {
    const { matrix, made, scale, colors, linked, linkedCol } = this;
    this.cells ??= this.makeCells();
    draw(g, scene, {
      matrix,
      made,
      scale,
      colors,
      palette: this.ctx.palette(),
      cells: this.cells,
      cursor: this.cursor.at,
      linked,
      linkedCol,
      focused: this.pane.focused,
    });
  }

  /** The cells as an image. With more cells than pixels, the largest of each block is drawn: a peak is never lost. */
  private makeCells(): HTMLCanvasElement | null {
    const { rowLen, drawn, value } = this.matrix,
      ratio = globalThis.devicePixelRatio || 1;
    const most = (count: number, size: number) => (size * ratio < 1 ? Math.ceil(count * size * ratio) : 4096);
    const room = { rows: most(rowLen, this.made.tall), cols: most(drawn, this.made.cell) };
    return image({ rows: rowLen, cols: drawn, value }, this.colors, this.scale.share, room);
  }

  protected hit(x: number, y: number): Position | null {
    return hit(this.made, this.matrix, x, y);
  }

  protected walk(key: string, far: boolean): Position | null {
    return walk(this.matrix, this.cursor.at, key, far);
  }

  /** A cell with its neighbours, and room for a slanted label. */
  protected boxOf({ row, col }: Position): Box {
    const { left, top, cell, tall, turn } = this.made;
    return {
      x: left + (col - 1) * cell - 2,
      y: top + (row - 1) * tall - 2,
      width: cell * 3 + (turn === "slanted" ? 40 : 4),
      height: tall * 3 + 4,
    };
  }

  protected stepOf({ row }: Position): number {
    return row;
  }

  protected override tell(): void {
    super.tell();
    this.linkedCol = null;
    this.cols?.point({ step: this.cursor.at?.col ?? null }, this);
  }

  protected words(at: Position): (Node | string)[] {
    return words(this.exactly(at.row), at);
  }

  protected describe(at: Position | null) {
    const { label, seq, rows, cols, rowLen, colLen, rowName, colName } = this.matrix;
    return {
      label: `${label}, ${seq}: ${rowLen} ${rowName} by ${colLen} ${colName} positions`,
      cell: at && { ...at, rows, cols, text: sentence(this.exactly(at.row), at) },
      data: { row: String(at?.row ?? ""), col: String(at?.col ?? "") },
    };
  }

  private toggleTable(): void {
    const shown = this.tableBox.hidden;
    this.tableBox.hidden = !shown;
    this.stage.hidden = shown;
    this.tableButton.setAttribute("aria-pressed", String(shown));
    this.redraw();
  }
}

export const render: Render<Head> = (el, frame, ctx) => {
  const view = new AttentionView(el, ctx, frame.head);
  view.update(frame);
  return view;
};
