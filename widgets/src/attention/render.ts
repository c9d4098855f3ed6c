// The attention view in the page: choices, the map, what is under the cursor, and the same as a table.

import { context, image } from "../canvas";
import { sequential } from "../color";
import type { Context, Render } from "../context";
import { h, setOptions, showNotes } from "../dom";
import type { Frame } from "../frame";
import { measurer } from "../labels";
import type { Scene, Spot } from "../pane";
import { Pane } from "../pane";
import type { Bus, Selection } from "../selection";
import { LOST, stepOf } from "../selection";
import { draw } from "./draw";
import type { Head, Layout, Matrix, Position, Scale } from "./layout";
import { hit, layout, matrixOf, problem, scaleOf, walk } from "./layout";
import { legend, readout, sentence, table } from "./parts";
import { Thumbs } from "./thumbs";

const MOST_HEIGHT = 620;
const HINT = "Point at a cell, or focus the map and use the arrow keys; + and − zoom.";

class AttentionView {
  private frame!: Frame;
  private matrix: Matrix | null = null;
  private scale: Scale = { low: 0, high: 1, share: (value) => value };
  private made: Layout | null = null;
  private cells: HTMLCanvasElement | null = null;
  private map = 0;
  private seq = 0;
  private zoom = 1;
  private pinned: Position | null = null;
  private hovered: Position | null = null;
  private linked: number | null = null;
  private lost = false; // whether a linked view points at another hypothesis than is drawn here
  private linkedCol: number | null = null;
  private readonly cols: Bus | null; // the axis of the sources, where other views run over it
  private readonly unlisten: (() => void)[];

  private readonly title = h("b", { class: "rfnb-title" });
  private readonly mapSelect = h("select", { "aria-label": "map" });
  private readonly seqSelect = h("select", { "aria-label": "sequence" });
  private readonly zoomOut = h("button", { type: "button", "aria-label": "zoom out" }, "−");
  private readonly zoomIn = h("button", { type: "button", "aria-label": "zoom in" }, "+");
  private readonly tableButton = h("button", { type: "button", "aria-pressed": "false", "data-do": "table" }, "Table");
  private readonly legend = h("span", { class: "rfnb-legend" });
  private readonly fault = h("p", { class: "rfnb-sentence", role: "alert" });
  private readonly readout = h("div", { class: "rfnb-readout", role: "status", "aria-live": "polite" });
  private readonly notes = h("div", { class: "rfnb-notes", role: "note" });
  private readonly tableBox = h("div", {
    class: "rfnb-table",
    hidden: "",
    tabindex: "0",
    role: "region",
    "aria-label": "weights as a table",
  });
  private readonly thumbs = new Thumbs((map) => this.choose(map, this.seq));
  private readonly pane: Pane;
  private readonly body: HTMLElement;

  constructor(
    private readonly el: HTMLElement,
    private readonly ctx: Context,
    colAxis: string | null,
  ) {
    this.pane = new Pane(
      {
        layout: (width) => this.place(width),
        paint: (g, scene) => this.paint(g, scene),
        hover: (spot) => this.hover(spot && this.at(spot)),
        click: (spot) => {
          const at = this.at(spot);
          if (at) this.pin(at, false);
        },
        key: (event) => this.key(event),
      },
      MOST_HEIGHT,
    );
    const tools = h(
      "span",
      { class: "rfnb-tools" },
      this.mapSelect,
      this.seqSelect,
      h("span", { class: "rfnb-zoom" }, this.zoomOut, this.zoomIn),
      this.tableButton,
    );
    this.body = h(
      "div",
      { class: "rfnb-attention" },
      this.thumbs.element,
      h("div", { class: "rfnb-stage" }, this.pane.element),
      this.tableBox,
      this.notes,
      this.readout,
    );
    el.append(h("div", { class: "rfnb-top" }, this.title, tools, this.legend), this.fault, this.body);
    this.mapSelect.addEventListener("change", () => this.choose(Number(this.mapSelect.value), this.seq));
    this.seqSelect.addEventListener("change", () => this.choose(this.map, Number(this.seqSelect.value)));
    this.zoomIn.addEventListener("click", () => this.zoomTo(1.5));
    this.zoomOut.addEventListener("click", () => this.zoomTo(1 / 1.5));
    this.tableButton.addEventListener("click", () => this.toggleTable());
    this.cols = colAxis === null ? null : ctx.busOf(colAxis);
    this.unlisten = [
      ctx.bus.listen((selection, origin) => {
        if (origin !== this) this.follow(selection);
      }),
    ];
    if (this.cols)
      this.unlisten.push(
        this.cols.listen((selection, origin) => {
          if (origin !== this) {
            this.linkedCol = selection.step;
            this.pane.paintSoon();
          }
        }),
      );
    ctx.onTheme(() => this.redraw());
  }

  update(frame: Frame): void {
    const wrong = problem(frame);
    const first = !this.frame;
    this.frame = frame;
    const head = frame.head as unknown as Head;
    const nothing =
      wrong ?? (head.maps.some((map) => map.seqs.length) ? null : `No weights${head.live ? " yet" : ""}.`);
    this.title.textContent = head.title ?? "Attention";
    this.fault.textContent = nothing ?? "";
    this.fault.hidden = !nothing;
    this.body.hidden = this.legend.hidden = this.tableButton.hidden = this.zoomIn.parentElement!.hidden = !!nothing;
    this.mapSelect.hidden = this.seqSelect.hidden = true;
    if (nothing) return;
    this.scale = scaleOf(frame);
    this.choose(this.map, this.seq, first);
    if (first) this.pane.start();
  }

  destroy(): void {
    for (const end of this.unlisten) end();
    this.pane.destroy();
    this.el.replaceChildren();
  }

  /** Shows a map of a sequence; the nearest there is. */
  private choose(map: number, seq: number, quiet = false): void {
    const head = this.frame.head as unknown as Head;
    this.map = Math.min(map, head.maps.length - 1);
    const seqs = head.maps[this.map]!.seqs;
    const before = this.seq;
    this.seq = Math.max(0, Math.min(seq, seqs.length - 1));
    const flagged = (label: string, wrong: unknown) => (wrong ? `${label} !` : label),
      { notes } = head.maps[this.map]!;
    setOptions(
      this.mapSelect,
      head.maps.map((entry) => flagged(entry.label, entry.notes)),
      this.map,
    );
    setOptions(
      this.seqSelect,
      seqs.map((index, at) => flagged(head.seqs[index]!.label, notes?.[at])),
      this.seq,
    );
    this.matrix = matrixOf(this.frame, this.map, this.seq);
    if (this.matrix && this.pinned && (this.pinned.row >= this.matrix.rows || this.pinned.col >= this.matrix.cols))
      this.pinned = null;
    this.el.dataset["seq"] = String(this.seq);
    this.el.dataset["map"] = String(this.map);
    if (!quiet && before !== this.seq) this.ctx.bus.point({ seq: this.seq }, this);
    this.redraw();
  }

  private get cursor(): Position | null {
    return this.hovered ?? this.pinned;
  }

  private redraw(): void {
    const { matrix } = this;
    if (!matrix) return;
    const colors = sequential(this.ctx.palette().dark);
    this.pane.relayout();
    const computed = rowsComputed(matrix);
    this.el.dataset["step"] = String(computed - 1);
    legend(this.legend, colors, this.scale, {
      padding: matrix.rowLen < matrix.rows || matrix.colLen < matrix.cols,
      missing: computed < matrix.rowLen,
    });
    const { note, remark } = matrix,
      others = (this.frame.head as unknown as Head).maps.reduce(
        (sum, { notes }) => sum + Object.keys(notes ?? {}).length,
        note ? -1 : 0,
      );
    showNotes(
      this.notes,
      note && `${matrix.seq}: ${note}.`,
      remark,
      others &&
        `${note ? "Also" : "Something is wrong"} in ${others} other map${others > 1 ? "s" : ""} or sequence${others > 1 ? "s" : ""}, marked with “!”.`,
    );
    this.thumbs.update(this.frame, this.seq, this.map, this.scale, colors);
    if (!this.tableBox.hidden) table(this.tableBox, matrix);
    this.point();
  }

  /** The cells as an image. With more cells than pixels, the largest of each block is drawn: a peak is never lost. */
  private makeCells(matrix: Matrix, { cell, tall }: Layout, dark: boolean): HTMLCanvasElement | null {
    const ratio = globalThis.devicePixelRatio || 1;
    const most = (count: number, size: number) => (size * ratio < 1 ? Math.ceil(count * size * ratio) : 4096);
    const cells = { rows: matrix.rowLen, cols: matrix.drawn, value: matrix.value };
    return image(cells, sequential(dark), this.scale.share, {
      rows: most(matrix.rowLen, tall),
      cols: most(matrix.drawn, cell),
    });
  }

  private place(width: number): { width: number; height: number } {
    if (!this.matrix) return { width: 1, height: 1 };
    const font = `bold 11px ${this.ctx.palette().font}`;
    this.made = layout(this.matrix, {
      width,
      height: MOST_HEIGHT,
      zoom: this.zoom,
      measure: measurer(context(document.createElement("canvas")), font),
    });
    this.cells = null;
    this.el.dataset["cell"] = this.made.cell.toFixed(2);
    return this.made;
  }

  private paint(g: CanvasRenderingContext2D, scene: Scene): void {
    const { matrix, made } = this;
    if (!matrix || !made) return;
    const palette = this.ctx.palette();
    this.cells ??= this.makeCells(matrix, made, palette.dark);
    draw(g, scene, {
      matrix,
      made,
      scale: this.scale,
      colors: sequential(palette.dark),
      palette,
      cells: this.cells,
      cursor: this.cursor,
      linked: this.linked,
      linkedCol: this.linkedCol,
      focused: this.pane.focused,
    });
  }

  private at({ x, y, left, top }: Spot): Position | null {
    const { made, matrix } = this;
    if (!made || !matrix || x < made.left || y < made.top) return null;
    return hit(made, matrix, x + left, y + top);
  }

  private hover(at: Position | null): void {
    if (at?.row === this.hovered?.row && at?.col === this.hovered?.col) return;
    this.hovered = at;
    this.point();
    this.tell();
  }

  private pin(at: Position | null, reveal: boolean): void {
    this.pinned = at;
    this.hovered = null;
    const { made } = this;
    if (at && made && reveal) {
      // with its neighbours, and room for a slanted label
      const [wide, high] = [made.cell * 2 + (made.turn === "slanted" ? 40 : 4), made.tall * 2 + 4];
      this.pane.reveal(
        made.left + (at.col - 1) * made.cell - 2,
        made.top + (at.row - 1) * made.tall - 2,
        wide + made.cell,
        high + made.tall,
        made,
      );
    }
    this.point();
    this.tell();
  }

  /** Linked views point at the same target; called only when the person moved the cursor. */
  private tell(): void {
    this.linked = this.linkedCol = null;
    this.lost = false;
    this.ctx.bus.point({ step: this.cursor?.row ?? null }, this);
    this.cols?.point({ step: this.cursor?.col ?? null }, this);
  }

  /** The cursor moved: readout and canvas follow. */
  private point(): void {
    const { matrix, cursor } = this;
    if (!matrix) return;
    this.el.dataset["row"] = cursor ? String(cursor.row) : "";
    this.el.dataset["col"] = cursor ? String(cursor.col) : "";
    readout(this.readout, matrix, cursor, this.lost ? LOST : HINT);
    this.pane.say(
      `${matrix.label}, ${matrix.seq}: ${matrix.rowLen} ${matrix.rowName} by ${matrix.colLen} ${matrix.colName} positions`,
      cursor && { ...cursor, rows: matrix.rows, cols: matrix.cols, text: sentence(matrix, cursor) },
    );
    this.pane.paintSoon();
  }

  /** A linked view points somewhere. */
  private follow(selection: Selection): void {
    const { seq } = selection,
      { best } = this.frame.head as unknown as Head,
      step = stepOf(selection, best);
    this.linked = step;
    this.lost = selection.step !== step;
    this.el.dataset["linked"] = step === null ? "" : String(step);
    if (seq !== null && seq !== this.seq && this.matrix) this.choose(this.map, seq, true);
    this.point();
  }

  private key(event: KeyboardEvent): boolean {
    if (event.key === "+" || event.key === "=") {
      this.zoomTo(1.5);
      return true;
    }
    if (event.key === "-") {
      this.zoomTo(1 / 1.5);
      return true;
    }
    if (event.key === "Escape") {
      this.pin(null, false);
      return true;
    }
    const to = this.matrix && walk(this.matrix, this.cursor, event.key, event.ctrlKey);
    if (to) this.pin(to, true);
    return !!to;
  }

  private zoomTo(factor: number): void {
    this.zoom = Math.min(64, Math.max(0.25, this.zoom * factor));
    if (Math.abs(this.zoom - 1) < 0.05) this.zoom = 1;
    this.redraw();
    const { made, cursor } = this;
    if (made && cursor)
      this.pane.reveal(
        made.left + cursor.col * made.cell,
        made.top + cursor.row * made.tall,
        made.cell,
        made.tall,
        made,
      );
  }

  private toggleTable(): void {
    const shown = this.tableBox.hidden;
    this.tableBox.hidden = !shown;
    this.pane.element.parentElement!.hidden = shown;
    this.tableButton.setAttribute("aria-pressed", String(shown));
    if (shown && this.matrix) table(this.tableBox, this.matrix);
    else this.pane.relayout();
  }
}

/** How many rows have weights: all before the last one that has any. */
function rowsComputed(matrix: Matrix): number {
  for (let row = matrix.rowLen; row > 0; row--)
    for (let col = 0; col < matrix.colLen; col++) if (!Number.isNaN(matrix.value(row - 1, col))) return row;
  return 0;
}

export const render: Render = (el, frame, ctx) => {
  const { axis, col_axis: cols } = frame.head;
  const view = new AttentionView(el, ctx, typeof cols === "string" && cols !== axis ? cols : null);
  view.update(frame);
  return view;
};
