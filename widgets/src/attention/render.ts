// The attention view in the page: the overview of all maps, the chosen one as a map, text or arcs, and the row under the cursor.

import { image } from "../canvas";
import type { Table } from "../color";
import { diverging, greys, sequential } from "../color";
import type { Context, Render } from "../context";
import { button, coarse, h, on, region, select, set, setOptions, slider } from "../dom";
import { rowOf } from "../exact_values";
import type { Frame } from "../frame";
import { marked } from "../handles";
import { times } from "../list";
import type { Box, Grip, Scene } from "../pane";
import { elsewhere, flagged, PanedView } from "../pane_view";
import type { Bus } from "../selection";
import { Arcs } from "./arcs";
import { Card } from "./card";
import type { Cells } from "./draw";
import { draw, veilOf } from "./draw";
import type { Choice } from "./grid";
import { effectOf, offer, open } from "./handles";
import { BESIDE, Drag, isMovable } from "./drag";
import type { GhostRow } from "./ghost";
import { drawGhosts, ghostHeight, ghostRows } from "./ghost";
import { mapsAt, nearest, placeOf, telling } from "./grid";
import type { Layout } from "./layout";
import { hit, layout, mostWidth, walk } from "./layout";
import type { Head, Matrix, Position, Scale } from "./matrix";
import { matrixOf, meanOf, problem, rowsComputed, scaleOf, withRow } from "./matrix";
import { Overview } from "./overview";
import { HeadScale } from "./scale";
import { legend, sentence, table, tableSize, words } from "./parts";
import { TextMode } from "./text";
import { line } from "../visible_text";

const MOST_HEIGHT = 620,
  BESIDE_HEIGHT = 284, // of a view of two runs
  LEAST_MAIN = 420; // of the map's column, so that the text below fits
const MODES = { map: "Map", text: "Text", arcs: "Arcs", table: "Table" };
type Mode = keyof typeof MODES;

class AttentionView extends PanedView<Head, Position, Layout> {
  private matrix!: Matrix;
  private scale!: Scale;
  private cells: Cells | null = null;
  private sound: HTMLCanvasElement | null = null;
  private veil: Path2D | null = null;
  private choice: Choice = { layer: 0, head: 0, seq: 0, step: 0 };
  private maps: number[] = [0]; // the chosen one, or those of a mean
  private choices: { label: string; wrong: boolean; at: Choice }[] = [];
  private exactRow: { of: Matrix; row: number; made: Matrix } | null = null;
  private opened: Frame<Head> | null = null;
  private dark: boolean | null = null;
  private mode: Mode = "map";
  private linkedCol: number | null = null;
  private focusOn: ((col: number) => void) | null = null; // in the edited row
  private readonly drag: Drag;
  private whole: Matrix | null = null; // shown instead of the map while a weight is dragged
  private ghosts: GhostRow[] = []; // below the map
  private readonly cols: Bus | null; // the axis of the sources

  private readonly mapSelect = select("map", (index) => this.chooseMap(this.choices[index]?.at ?? this.choice));
  private readonly sliderText = h("output");
  private readonly slider = slider({ min: 0, step: 1 }, (step) => this.chooseMap({ ...this.choice, step }));
  private readonly sliderBox = h("label.rfnb-choice", this.slider, this.sliderText);
  private readonly places = h("span.rfnb-modes", { role: "group" }); // of an alignment, by name
  private readonly modeButtons = Object.entries(MODES).map(([mode, text]) =>
    button(text, () => this.show(mode === this.mode ? "map" : (mode as Mode)), {
      "aria-pressed": mode === "map",
      "data-do": mode,
    }),
  );
  private readonly tableBox = region("div.rfnb-table", "weights as a table");
  private readonly main = h("div.rfnb-attention-main");
  private readonly side = h("div.rfnb-attention-side");
  private readonly overview: Overview;
  private readonly head: HeadScale;
  private readonly card: Card;
  private readonly text: TextMode;
  private readonly arcs: Arcs;

  constructor(el: HTMLElement, ctx: Context, { axis, col_axis }: Head) {
    super(el, ctx, {
      name: "attention",
      title: "Attention",
      hint: "Point at a cell, or focus the map and use the arrow keys; + and − zoom, 0 fits.",
      mostHeight: MOST_HEIGHT,
    });
    this.drag = new Drag(
      ctx,
      (matrix) => this.dragged(matrix),
      (change) => this.edits.keep(change),
    );
    this.head = new HeadScale(ctx, (change) => open(ctx, this.edits, change));
    this.overview = new Overview(
      ctx,
      (choice) => this.chooseMap(choice),
      () => this.head.keep(),
    );
    this.card = new Card(ctx, (head) => this.chooseMap({ ...this.choice, head }));
    this.text = new TextMode(this.cursor, () => this.pointed(this.cursor.at));
    this.arcs = new Arcs(ctx, this.cursor);
    const { main } = this;
    this.side.append(this.head.element, this.card.element);
    this.stage.before(h("div.rfnb-attention-body", this.side, main));
    main.append(this.stage, this.text.element, this.tableBox, this.notes, this.readout, this.edits.element);
    on(this.pane.element, "dblclick", () => this.cursor.pinned && this.focusOn?.(this.cursor.pinned.col));
    this.tools.prepend(this.mapSelect, this.sliderBox, this.places);
    this.tools.append(h("span.rfnb-modes", { role: "group", "aria-label": "shown as" }, ...this.modeButtons));
    this.cols = col_axis !== undefined && col_axis !== axis ? ctx.busOf(col_axis) : null;
    if (this.cols)
      this.listen(this.cols, ({ step }) => {
        this.linkedCol = step;
        this.pane.paintSoon();
      });
    const end = ctx.held?.listen(() => this.haunted());
    if (end) this.unlisten.push(end);
    this.listen(ctx.bus, ({ head }) => {
      const { heads } = this.frame.head;
      if (head === null || head === this.choice.head || head >= (heads?.length ?? 0)) return;
      const at = { ...this.choice, head };
      if (mapsAt(this.frame, at).length) this.chooseMap(at, true);
    });
  }

  protected missing(frame: Frame<Head>): string | null {
    const { maps, live } = frame.head;
    return problem(frame) ?? (maps.some(({ seqs }) => seqs.length) ? null : `No weights${live ? " yet" : ""}.`);
  }

  protected sequences(): [string, boolean][] {
    const { head } = this.frame,
      first = this.opened ? null : telling(this.frame);
    if (first !== null) {
      const [layer, column] = placeOf(head.maps[first]!, first);
      this.choice = { ...this.choice, layer, head: column };
    }
    this.choice = nearest(this.frame, this.choice);
    this.maps = mapsAt(this.frame, this.choice);
    const { seqs } = head.maps[this.maps[0]!]!;
    return seqs.map((index, at) => [head.seqs[index]!.label, this.maps.some((map) => !!head.maps[map]!.notes?.[at])]);
  }

  protected open(): [string, string, string] {
    const { head } = this.frame,
      { maps } = head;
    this.whole = null;
    this.choice.seq = this.seq;
    this.scale = scaleOf(head);
    this.el.classList.toggle("rfnb-heard", !!head.rail);
    const mean = this.maps.length > 1 ? meanOf(this.frame, this.maps, this.seq, this.nameOf(this.choice)) : null;
    const whole = mean ?? matrixOf(this.frame, this.maps[0]!, this.seq)!,
      { rows, cols, rowLen, colLen } = whole;
    const ends = this.ends(rowLen < rows || colLen < cols, !!whole.note);
    this.matrix = ends ? { ...whole, rows: rowLen, cols: colLen } : whole;
    this.el.dataset["map"] = this.maps.length > 1 ? "mean" : String(this.maps[0]);
    this.el.dataset["head"] = String(this.choice.head);
    this.choices = this.everyChoice();
    const chosen = this.choices.findIndex(({ at }) => at.layer === this.choice.layer && at.head === this.choice.head);
    setOptions(
      this.mapSelect,
      this.choices.map(({ label, wrong }) => flagged([label, wrong])),
      Math.max(0, chosen),
    );
    this.openSlider();
    const { note, remark, seq } = this.matrix;
    const others = maps.reduce((sum, { notes }) => sum + Object.keys(notes ?? {}).length, note ? -1 : 0);
    const causal = this.matrix.causal === "seen" ? "Nothing lies above the diagonal: taken as a causal mask." : "";
    const remarks = [remark && `${remark}.`, causal].filter(Boolean).join(" ");
    return [note && `${seq}: ${note}.`, remarks, elsewhere(note, others, "map", "sequence")];
  }

  private openSlider(): void {
    const { slider, alignment } = this.frame.head,
      several = !!slider && slider.labels.length > 1;
    this.sliderBox.hidden = !several || !!alignment;
    this.places.hidden = !several || !alignment;
    if (!slider) return;
    set(this.places, "aria-label", slider.name);
    this.places.replaceChildren(
      ...slider.labels.map((label, step) =>
        button(line(label), () => this.chooseMap({ ...this.choice, step }), {
          "aria-pressed": step === this.choice.step,
        }),
      ),
    );
    this.slider.max = String(slider.labels.length - 1);
    this.slider.value = String(this.choice.step);
    const text = `${slider.name} ${slider.labels[this.choice.step] ?? ""}`;
    this.sliderText.textContent = ` ${text}`;
    set(this.slider, "aria-label", slider.name);
    set(this.slider, "aria-valuetext", text);
    this.el.dataset["slider"] = String(this.choice.step);
  }

  private nameOf({ layer, head }: Choice): string {
    const { layers = [""], heads = [] } = this.frame.head;
    const parts = [
      layers[layer] ?? (layers.length > 1 ? "mean of the layers" : ""),
      heads[head] ?? (heads.length > 1 ? "mean of the heads" : ""),
    ];
    return parts.filter(Boolean).join(", ") || "weights";
  }

  /** The maps at this position of the slider, then the means. */
  private everyChoice(): { label: string; wrong: boolean; at: Choice }[] {
    const { head } = this.frame,
      { layers = [""], heads = head.maps.map(({ label }) => label) } = head;
    const own = (layer: number, column: number) => {
      const at = { ...this.choice, layer, head: column };
      const maps = mapsAt(this.frame, at);
      const mean = layer >= layers.length || column >= heads.length;
      const wrong = !mean && maps.some((map) => !!head.maps[map]!.notes);
      return maps.length > (mean ? 1 : 0) ? [{ label: this.nameOf(at), wrong, at }] : [];
    };
    const single = layers.flatMap((_, layer) => heads.flatMap((_, column) => own(layer, column)));
    const means = [
      ...(heads.length > 1 ? layers.flatMap((_, layer) => own(layer, heads.length)) : []),
      ...(layers.length > 1 ? heads.flatMap((_, column) => own(layers.length, column)) : []),
      ...(layers.length > 1 && heads.length > 1 ? own(layers.length, heads.length) : []),
    ];
    return [...single, ...means];
  }

  private chooseMap({ layer, head, seq, step }: Choice, quietly = false): void {
    const before = this.choice.head;
    this.choice = { layer, head, seq, step };
    this.choose(seq);
    if (!quietly && head !== before) this.ctx.bus.point({ head }, this);
  }

  protected offer(at: Position | null): void {
    const { edits, matrix, seq, slots, held } = this;
    this.focusOn = offer(
      {
        edits,
        held,
        matrix: at ? this.exactly(at.row) : matrix,
        seq,
        slots,
        last: this.lastStep(),
        palette: () => this.ctx.palette(),
      },
      at,
    );
  }

  protected override get hint(): string {
    if (this.mode !== "map" || this.frame.head.compact) return "";
    if (this.ctx.run && this.matrix.effects?.held)
      return coarse()
        ? "Tap a cell: its edit becomes a branch."
        : "Point at a cell to see the result of its edit; a click or Enter makes it a branch.";
    return this.draggable
      ? `${coarse() ? "Tap a weight, then drag it" : "Drag a weight"} up or down to see the result of the run; dropping it keeps the result. ${super.hint}`
      : super.hint;
  }

  protected override grab(at: Position): Grip | null {
    const { seq, slots, held } = this;
    if (!held || this.mode !== "map" || at.row > this.lastStep()) return null;
    // A row of another hypothesis with the same parent as the best one shows the label of the best: a candidate's own label is not edited.
    const best = slots && this.isOfBest(at.row, slots) ? matrixOf(this.given, this.maps[0]!, seq) : null,
      name = (best ?? this.matrix).rowLabel(at.row);
    return this.drag.grab({ held, matrix: this.exactly(at.row), seq, slots, name }, at);
  }

  /** Whether a weight can be dragged here. */
  private get draggable(): boolean {
    const { held, matrix, slots } = this;
    return (
      !!this.ctx.run &&
      !!held &&
      times(this.lastStep() + 1, (row) => row).some((row) => isMovable(held, matrix, row, slots))
    );
  }

  private get held() {
    return this.maps.length > 1 ? undefined : this.frame.head.maps[this.maps[0]!]?.held;
  }

  /** Shows or removes the rows of ghosts below the map, which does not change. */
  private haunted(): void {
    if (!this.drawable || JSON.stringify(this.ghosts) === JSON.stringify(this.ghostsNow)) return;
    this.pane.relayout();
  }

  private get ghostsNow(): GhostRow[] {
    const { maps } = this.frame.head;
    return ghostRows(
      this.ctx.run ?? null,
      this.maps.map((map) => maps[map]!.held),
      this.seq,
    );
  }

  /** Draws the map with the dragged row; null: unchanged. */
  private dragged(matrix: Matrix | null): void {
    this.whole ??= this.matrix;
    this.matrix = matrix ?? this.whole;
    if (!matrix) this.whole = null;
    this.cells = null;
    this.el.dataset["dragged"] = matrix ? (this.drag.told?.words ?? "") : "";
    this.point();
  }

  protected override clicked(at: Position): void {
    super.clicked(at);
    this.openEffect(at);
  }

  protected override key(event: KeyboardEvent): boolean {
    if (event.key === "Enter" && this.cursor.pinned && this.matrix.effects) this.openEffect(this.cursor.pinned);
    else return super.key(event);
    return true;
  }

  private openEffect(at: Position): void {
    open(this.ctx, this.edits, effectOf(this.ctx, this.matrix.effects?.held, at));
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
    const { dark } = this.ctx.palette(),
      fresh = this.opened !== this.frame || this.dark !== dark;
    [this.opened, this.dark] = [this.frame, dark];
    const { alignment } = this.frame.head,
      several = !alignment && Overview.needed(this.frame.head, this.ctx.hasChooser());
    const rest = !!alignment || !!this.matrix.effects; // rows that are not weights
    for (const each of this.modeButtons) each.hidden = rest && ["text", "arcs"].includes(each.dataset["do"]!);
    this.card.element.hidden = !!alignment; // rows are not weights over the sources
    if (several !== (this.overview.element.parentElement === this.side)) {
      if (several) this.side.prepend(this.overview.element);
      else this.overview.element.remove();
    }
    this.side.parentElement!.classList.toggle("rfnb-alone", !several);
    this.side.hidden = !!this.frame.head.compact;
    if (several) this.overview.update(this.frame, this.choice, this.scale, this.colors, fresh);
    const name = this.nameOf(this.choice);
    this.head.show(this.held, name === "weights" ? "attention" : name, this.seq);
    this.showMode();
  }

  private widest = "";

  /** Places the row card beside the map, at any page width. */
  private hug(): void {
    this.main.style.maxWidth = this.mode === "map" ? this.widest : "";
  }

  private show(mode: Mode): void {
    this.mode = mode;
    this.hug();
    this.el.dataset["mode"] = mode;
    for (const button of this.modeButtons) set(button, "aria-pressed", button.dataset["do"] === mode);
    this.redraw();
  }

  private showMode(): void {
    const { mode, matrix } = this;
    this.stage.hidden = mode !== "map";
    this.tableBox.hidden = mode !== "table";
    if (mode === "table") this.fillTable();
    this.text.show(mode === "text" ? matrix : null, this.colors, this.scale);
    if (mode === "arcs") this.stage.after(this.arcs.element);
    else this.arcs.element.remove();
    this.arcs.show(mode === "arcs" ? matrix : null);
    this.pointed(this.cursor.at);
  }

  /** The table, with exact values as soon as they arrive. */
  private fillTable(): void {
    const { matrix } = this;
    table(this.tableBox, matrix);
    if (!matrix.about || matrix.blocks.length > 1) return;
    const [block] = matrix.blocks as [string];
    const [rows, cols] = tableSize(matrix);
    void this.ctx.exact.ask({ block, start: [matrix.at, 0, 0], size: [1, rows, cols] }).then((values) => {
      if (values && matrix === this.matrix && this.mode === "table")
        table(this.tableBox, { ...matrix, about: false, value: (row, col) => values[row * cols + col]! });
    });
  }

  /** The map with the exact values of a row, if available; otherwise they are requested, and the text follows. */
  private exactly(row: number): Matrix {
    const { matrix, frame, ctx } = this;
    if (!matrix.about || row >= matrix.rows) return matrix;
    if (this.exactRow?.of === matrix && this.exactRow.row === row) return this.exactRow.made;
    const rows = matrix.blocks.map((name) =>
      rowOf(ctx.exact, name, frame.blocks[name]!, matrix.at, row, () => {
        this.point();
        this.offerAgain();
      }),
    );
    if (rows.some((values) => !values)) return matrix;
    const mean = Float64Array.from(
      { length: matrix.cols },
      (_, col) => rows.reduce((sum, values) => sum + values![col]!, 0) / rows.length,
    );
    const made = withRow(matrix, row, rows.length > 1 ? mean : rows[0]!);
    this.exactRow = { of: matrix, row, made };
    return made;
  }

  protected override pointed(at: Position | null): void {
    const row = at?.row ?? this.linked;
    const { heads = [] } = this.frame.head;
    this.card.show(row === null ? this.matrix : this.exactly(row), row, at?.col ?? null, {
      colors: this.colors,
      scale: this.scale,
      head: this.choice.head,
      names: heads,
      others: () =>
        heads.flatMap((_, head) => {
          const [map] = mapsAt(this.frame, { ...this.choice, head });
          const matrix =
            map === undefined || this.choice.layer >= (this.frame.head.layers?.length ?? 1)
              ? null
              : matrixOf(this.frame, map, this.seq);
          return matrix ? [{ head, matrix }] : [];
        }),
    });
    if (this.mode === "text") this.text.point(at, at && this.exactly(at.row));
    if (this.mode === "arcs") this.arcs.point(at);
  }

  protected drawLegend(): void {
    legend(this.legend, this.colors, this.scale, this.matrix);
  }

  private get colors(): Table {
    return (this.frame.head.signed ? diverging : sequential)(this.ctx.palette().dark);
  }

  protected layout(width: number): Layout {
    this.cells = null;
    const { matrix, zoom, measure } = this,
      height = this.frame.head.compact ? BESIDE_HEIGHT : MOST_HEIGHT,
      beside = this.ctx.run && this.frame.head.maps[this.maps[0]!]!.held ? BESIDE : 0,
      { width: wide, ...others } = layout(matrix, { width: width - beside, height, zoom, measure }),
      map = { ...others, width: wide + beside },
      ghosts = (this.ghosts = this.ghostsNow),
      made = { ...map, height: map.height + ghostHeight(map, ghosts) },
      most = mostWidth(matrix, { width, height, zoom, measure });
    this.widest = most === null ? "" : `${Math.max(LEAST_MAIN, most + beside + 20)}px`;
    this.hug();
    this.veil = veilOf(matrix, made);
    this.el.dataset["ghosts"] = ghosts.map(({ label }) => label).join(" ");
    this.el.dataset["cell"] = made.cell.toFixed(2);
    const pixels = { rows: 64, cols: Math.ceil(made.width * (globalThis.devicePixelRatio || 1)) };
    this.sound = matrix.sound && image(matrix.sound, greys(this.ctx.palette().dark), (value) => value / 255, pixels);
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
      sound: this.sound,
      veil: this.veil,
      cursor: this.cursor.at,
      linked,
      linkedCol,
      focused: this.pane.focused,
      editedSteps: marked(this.frame.head.hands),
    });
    const below = made.top + made.y(matrix.rows) + 4;
    drawGhosts(g, scene, made, below, this.ghosts, { colors, scale, palette: this.ctx.palette() });
    this.drag.draw(g, scene, made, this.whole ?? matrix, this.ctx.palette());
  }

  /** The stored cells as an image. With more cells than pixels, the largest value of each block is drawn, so that no peak is lost. */
  private makeCells(): Cells | null {
    const { rowLen, drawn, masked, hidden, stored } = this.matrix,
      { down, across } = stored,
      ratio = globalThis.devicePixelRatio || 1;
    const most = (count: number, size: number) => (size * ratio < 1 ? Math.ceil(count * size * ratio) : 4096);
    const room = { rows: most(rowLen, this.made.tall), cols: most(drawn, this.made.cell) };
    const last = (row: number) => Math.min(rowLen, (row + 1) * down) - 1;
    const value = masked
      ? (row: number, col: number) =>
          hidden(row * down, col * across) && hidden(last(row), col * across) ? NaN : stored.value(row, col)
      : stored.value;
    const cells = { rows: Math.ceil(rowLen / down), cols: Math.ceil(drawn / across), value };
    const canvas = image(cells, this.colors, this.scale.share, room);
    return canvas && { canvas, rows: cells.rows * down, cols: cells.cols * across };
  }

  protected hit(x: number, y: number): Position | null {
    return hit(this.made, this.matrix, x, y);
  }

  protected walk(key: string, far: boolean): Position | null {
    return walk(this.matrix, this.cursor.at, key, far);
  }

  /** A cell with its neighbours, and space for a slanted label. */
  protected boxOf({ row, col }: Position): Box {
    const { left, top, cell, tall, turn, y } = this.made;
    return {
      x: left + (col - 1) * cell - 2,
      y: top + y(row) - tall - 2,
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
    const { told } = this.drag;
    if (told) return [told.refused ?? told.words ?? ""];
    return words(this.exactly(at.row), at);
  }

  protected describe(at: Position | null) {
    const { label, seq, rows, cols, rowLen, colLen, rowName, colName, self, soundLabel } = this.matrix;
    const sides = `${rowLen} ${rowName} by ${colLen} ${colName} positions${self ? ", self-attention" : ""}${soundLabel && `, above them a ${soundLabel}`}`;
    return {
      label: `${label}, ${seq}: ${sides}`,
      cell: at && { ...at, rows, cols, text: sentence(this.exactly(at.row), at) },
      data: { row: String(at?.row ?? ""), col: String(at?.col ?? "") },
    };
  }

  override destroy(): void {
    this.drag.stop();
    this.head.destroy();
    this.overview.destroy();
    this.card.destroy();
    this.arcs.destroy();
    super.destroy();
  }
}

export const render: Render<Head> = (el, frame, ctx) => {
  const view = new AttentionView(el, ctx, frame.head);
  view.update(frame);
  return view;
};
