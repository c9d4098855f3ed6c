// The base of views that are one scrollable picture with a cursor, a chooser for the sequence and a zoom: attention and states.

import { context } from "./canvas";
import type { Context, Rendered } from "./context";
import { Cursor } from "./cursor";
import { button, coarse, h, onSight, quiet, select, set, setOptions, showNotes, status, steady } from "./dom";
import type { AnyHead, Frame } from "./frame";
import type { Marks } from "./handles";
import { EditPanel } from "./handles";
import type { Measure } from "./labels";
import { measurer } from "./labels";
import type { Box, Cell, Grip, Placed, Scene, Spot, Tap } from "./pane";
import { Pane } from "./pane";
import { followed, followsOne } from "./hypothesis";
import type { Bus, Hypothesis, Selection } from "./selection";
import { Shell } from "./shell";

const LOST = "The hypothesis under the pointer is not shown here; a click on it shows it.",
  NOT_THERE = "The page has only the best hypothesis; the chosen one is in the kernel, which does not answer.";
const TAP = "Tap a place; the arrows below the picture continue from there.",
  FINGER = [0, -10, 10, -20, 20]; // pixels beside the chosen place from which a finger can drag it
const ZOOM = 1.5,
  ZOOM_LEAST = 0.25,
  ZOOM_MOST = 256;

interface PanedHead extends AnyHead {
  best?: boolean; // whether the picture shows the best hypothesis
  hands?: Marks; // the edits; "hands" is the name on the wire, also in saved pages
  slots_of_best?: Record<"before" | "after", number[][]>; // by sequence and step
}
interface Options {
  name: string; // the kind
  title: string; // if the head has none
  hint: string; // shown when there is no cursor
  mostHeight: number;
  taps?: Tap[]; // keys besides the arrow keys
}

/** `P`: a place for the cursor. `L`: the layout of the picture. */
export abstract class PanedView<H extends PanedHead, P, L extends Placed> implements Rendered<H> {
  protected frame!: Frame<H>;
  protected made!: L;
  protected seq = 0;
  protected zoom = 1;
  protected padding = false; // whether positions after the end of the sequence are drawn
  protected linked: number | null = null; // the step selected in a linked view
  protected given!: Frame<H>; // as received, for the best hypothesis
  private chosen: Hypothesis | null = null; // another one to show instead
  private drawn: Hypothesis | null = null; // the same once its rows have arrived
  private notThere = false; // whether the chosen one cannot be shown
  private lost = false; // whether the selection is in another hypothesis than the displayed one
  private started = false;
  private ended = false;
  private near = true; // whether it is near the visible area
  private behind = false; // text and drawing have not been updated yet
  private offered: P | null = null; // the place that the edit panel is for
  protected readonly unlisten: (() => void)[] = [];

  private readonly seqSelect = select("sequence", (seq) => this.choose(seq));
  private readonly zoomOut = button("−", () => this.zoomBy(1 / ZOOM), { "aria-label": "zoom out" });
  private readonly zoomIn = button("+", () => this.zoomBy(ZOOM), { "aria-label": "zoom in" });
  private readonly zoomFit = button("fit", () => this.zoomBy(1 / this.zoom), {
    "aria-label": "zoom to fit",
    title: "all of it",
  });
  protected readonly notes = h("div.rfnb-notes", { role: "note" });
  protected readonly readout = status();
  protected readonly legend = h("span.rfnb-legend");
  private readonly paddingButton = button(
    "Padding",
    () => {
      this.padding = !this.padding;
      this.choose(this.seq, true);
    },
    { "data-do": "padding", title: "positions after the end of the sequence" },
  );
  protected readonly tools = h(
    "span.rfnb-tools",
    this.seqSelect,
    h("span.rfnb-zoom", this.zoomOut, this.zoomFit, this.zoomIn),
    this.paddingButton,
  );
  protected readonly cursor = new Cursor<P>(() => {
    this.tell();
    this.point();
    if (this.cursor.pinned !== this.offered) this.offerAgain(); // not at places that the pointer only passes
  });
  protected readonly edits: EditPanel;
  protected readonly pane: Pane;
  protected readonly stage: HTMLElement;
  private readonly shell: Shell;

  protected constructor(
    protected readonly el: HTMLElement,
    protected readonly ctx: Context,
    private readonly options: Options,
  ) {
    const at = ({ x, y, left, top }: Spot): P | null =>
      x < this.made.left || y < this.made.top ? null : this.hit(x + left, y + top);
    this.pane = new Pane(
      {
        layout: (width) => {
          this.made = this.layout(width);
          if (this.drawable) this.drawLegend(); // also after a resize
          return this.made;
        },
        paint: (g, scene) => this.paint(g, scene),
        hover: (spot) => this.cursor.hover(spot && at(spot)),
        click: (spot) => {
          const place = at(spot);
          if (place) this.clicked(place);
        },
        key: (event) => this.key(event),
        grab: (spot) => {
          // A finger drags only the chosen place; elsewhere it scrolls.
          const place = ctx.run && (spot.touch ? this.chosenNear(spot) : at(spot));
          return place ? this.grab(place) : null;
        },
      },
      options.mostHeight,
      undefined,
      options.taps,
    );
    this.stage = h("div.rfnb-stage", this.pane.element, this.pane.pad);
    this.edits = new EditPanel(ctx, () => this.offerAgain());
    const body = h("div", { class: `rfnb-${options.name}` }, this.stage, this.notes, this.readout, this.edits.element);
    this.shell = new Shell(el, [this.tools, this.legend], body);
    if (ctx.hasChooser()) ({ seq: this.seq, hypothesis: this.chosen } = { ...ctx.bus.now, seq: ctx.bus.now.seq ?? 0 });
    this.listen(ctx.bus, (selection) => this.follow(selection));
    ctx.onTheme(() => this.redraw());
    this.unlisten.push(
      steady(this.readout),
      onSight(el, (near) => {
        this.near = near;
        if (this.behind) this.point();
      }),
    );
  }

  /** The fault that prevents drawing a frame, as a sentence. */
  protected abstract missing(frame: Frame<H>): string | null;
  /** The labels of the sequences, and whether each has a fault. */
  protected abstract sequences(): [label: string, wrong: boolean][];
  /** Shows the chosen sequence; returns its faults and remarks, as sentences for `showNotes`. */
  protected abstract open(): [wrong: string, remark: string, more: string];
  /** Whether a place still exists in the chosen sequence. */
  protected abstract has(place: P): boolean;
  protected abstract layout(width: number): L;
  protected abstract paint(g: CanvasRenderingContext2D, scene: Scene): void;
  protected abstract drawLegend(): void;
  /** The last step that has values. */
  protected abstract lastStep(): number;
  /** The place at a point of the content. */
  protected abstract hit(x: number, y: number): P | null;
  protected abstract walk(key: string, far: boolean): P | null;
  /** The rectangle of a place in the content, with the surroundings that should be visible. */
  protected abstract boxOf(place: P): Box;
  protected abstract stepOf(place: P): number;
  protected abstract words(place: P): (Node | string)[];
  /** The texts of the picture and of the place for screen readers; and the attributes of `el` with the cursor's position. */
  protected abstract describe(place: P | null): { label: string; cell: Cell | null; data: Record<string, string> };

  update(frame: Frame<H>): void {
    this.given = frame;
    this.drawn = null;
    this.display(frame);
    if (this.chosen && followsOne(frame)) void this.take(this.chosen);
  }

  /** Shows a frame: the received one, or that of another hypothesis. */
  protected display(frame: Frame<H>): void {
    this.frame = frame;
    if (!this.shell.show(frame.head.title ?? this.options.title, this.missing(frame))) return;
    this.choose(this.seq, true);
    if (!this.started) this.pane.start();
    this.started = true;
  }

  destroy(): void {
    this.ended = true;
    for (const end of this.unlisten) end();
    this.edits.destroy();
    this.pane.destroy();
    this.el.replaceChildren();
  }

  /** Listens to the selection of other views on an axis. */
  protected listen(bus: Bus, heard: (selection: Selection) => void): void {
    this.unlisten.push(bus.listen((selection, origin) => origin !== this && this.drawable && heard(selection)));
  }

  /** Whether the picture ends with the sequence: not if values after its end have a fault, or were requested. */
  protected ends(padded: boolean, wrong: boolean): boolean {
    this.paddingButton.hidden = !padded || wrong;
    set(this.paddingButton, "aria-pressed", this.padding);
    return padded && !wrong && !this.padding;
  }

  /** Shows a sequence, or the nearest existing one. */
  protected choose(seq: number, quietly = false): void {
    const all = this.sequences(),
      before = this.seq;
    this.seq = Math.max(0, Math.min(seq, all.length - 1));
    this.el.dataset["seq"] = String(this.seq);
    setOptions(this.seqSelect, this.ctx.hasChooser() ? [] : all.map(flagged), this.seq);
    showNotes(this.notes, ...this.open());
    if (this.cursor.pinned && !this.has(this.cursor.pinned)) this.cursor.pinned = null;
    if (this.cursor.hovered && !this.has(this.cursor.hovered)) this.cursor.hovered = null;
    if (!quietly && before !== this.seq) this.ctx.bus.point({ seq: this.seq }, this);
    this.redraw();
    this.edits.mark(this.frame.head.hands);
    this.offerAgain();
  }

  /** Offers the edits at the chosen place. */
  protected offer(_: P | null): void {}

  /** Updates the edits after the chosen place or its values have changed. */
  protected offerAgain(): void {
    this.offered = this.cursor.pinned;
    if (this.drawable) this.offer(this.offered);
  }

  /** The slots of the displayed hypothesis, before and after the choice of each step; null without hypotheses. */
  protected get slots(): Pick<Hypothesis, "before" | "after"> | null {
    const { slots_of_best: best } = this.frame.head;
    if (!best) return null;
    return this.drawn ?? { before: best.before[this.seq] ?? [], after: best.after[this.seq] ?? [] };
  }

  /** Whether a row of the displayed hypothesis was also computed for the best one. */
  protected isOfBest(row: number, { before }: Pick<Hypothesis, "before">): boolean {
    return this.given.head.slots_of_best?.before[this.seq]?.[row] === before[row];
  }

  /** The drag that edits a held run at a place, if any. */
  protected grab(_: P): Grip | null {
    return null;
  }

  /** The text without a cursor. */
  protected get hint(): string {
    return coarse() ? TAP : this.options.hint;
  }

  /** The chosen place, if a finger is near it: a finger hides its target. */
  private chosenNear({ x, y, left, top }: Spot): P | null {
    const pinned = JSON.stringify(this.cursor.pinned),
      near = (right: number, down: number) => JSON.stringify(this.hit(x + left + right, y + top + down)) === pinned;
    return FINGER.some((right) => FINGER.some((down) => near(right, down))) ? this.cursor.pinned : null;
  }

  protected clicked(place: P): void {
    this.cursor.pin(place);
  }

  protected redraw(): void {
    if (!this.drawable) return;
    this.el.dataset["step"] = String(this.lastStep());
    // Not `disabled`: the button in use would lose the focus.
    set(this.zoomFit, "aria-disabled", this.zoom === 1);
    set(this.zoomOut, "aria-disabled", this.zoom <= ZOOM_LEAST);
    set(this.zoomIn, "aria-disabled", this.zoom >= ZOOM_MOST);
    this.pane.relayout();
    this.point();
  }

  protected get measure(): Measure {
    return measurer(context(document.createElement("canvas")), `bold 11px ${this.ctx.palette().font}`);
  }

  protected get drawable(): boolean {
    return !!this.frame && !this.missing(this.frame);
  }

  /** Selects the step in linked views; called only when the person moved the cursor. */
  protected tell(): void {
    this.linked = null;
    this.lost = false;
    const { at } = this.cursor;
    this.ctx.bus.point({ step: at && this.stepOf(at) }, this);
  }

  /** Updates text and drawing after the cursor moved. */
  protected point(): void {
    const { at } = this.cursor;
    this.behind = false;
    const { label, cell, data } = this.describe(at);
    Object.assign(this.el.dataset, data);
    this.readout.replaceChildren(
      ...(at ? this.words(at) : [quiet(this.notThere ? NOT_THERE : this.lost ? LOST : this.hint)]),
    );
    this.pane.say(label, cell);
    this.pane.paintSoon();
    this.pointed(at);
  }

  /** Updates content beside the picture that follows the cursor. */
  protected pointed(_: P | null): void {}

  /** Follows the selection of a linked view; views of the best hypothesis lack the steps of others. */
  private follow(selection: Selection): void {
    const { seq, hypothesis } = selection;
    if (hypothesis !== this.chosen && followsOne(this.given)) void this.take(hypothesis);
    this.mark(selection);
    if (seq !== null && seq !== this.seq) this.choose(seq, true);
    if (this.near) this.point();
    else this.behind = true; // of many linked views only the visible ones are updated
  }

  /** Highlights the step selected in a linked view, if it belongs to the displayed hypothesis. */
  private mark({ step, lost, hypothesis }: Selection): void {
    const other = lost || hypothesis !== this.drawn;
    this.lost = other && followsOne(this.given) && step !== null;
    this.linked = this.lost ? null : step;
    this.el.dataset["linked"] = this.linked === null ? "" : String(this.linked);
  }

  /** Shows another hypothesis, or (null) the best one, which is also shown until the rows of the other have arrived. */
  private async take(hypothesis: Hypothesis | null): Promise<void> {
    const { given, ctx } = this,
      seq = ctx.bus.now.seq ?? this.seq;
    this.chosen = hypothesis;
    const frame = hypothesis && (await followed(given, seq, hypothesis, ctx.exact));
    if (this.chosen !== hypothesis || this.given !== given || this.ended) return; // another one was chosen in the meantime
    this.notThere = !!hypothesis && !frame;
    this.drawn = frame && hypothesis;
    this.el.dataset["hypothesis"] = frame ? hypothesis!.text : "";
    this.mark(ctx.bus.now);
    this.display(frame ?? given);
  }

  protected key(event: KeyboardEvent): boolean {
    const zoom = event.ctrlKey ? 0 : { "+": ZOOM, "=": ZOOM, "-": 1 / ZOOM, "0": 1 / this.zoom }[event.key];
    if (zoom) this.zoomBy(zoom);
    else if (event.key === "Escape" && !event.ctrlKey) this.cursor.pin(null);
    else return this.go(event.key, event.ctrlKey);
    return true;
  }

  /** Moves the cursor by a key; returns whether it moved. */
  protected go(key: string, far = false): boolean {
    const to = this.walk(key, far);
    if (!to) return false;
    this.cursor.pin(to);
    this.reveal();
    return true;
  }

  private zoomBy(factor: number): void {
    this.zoom = Math.min(ZOOM_MOST, Math.max(ZOOM_LEAST, this.zoom * factor));
    if (Math.abs(this.zoom - 1) < 0.05) this.zoom = 1;
    this.redraw();
    this.reveal();
  }

  private reveal(): void {
    const { at } = this.cursor;
    if (at) this.pane.reveal(this.boxOf(at), this.made);
  }
}

export const flagged = ([label, wrong]: [string, boolean]): string => (wrong ? `${label} !` : label);

/** A note on the faults of others: "Also in 2 other maps or sequences, marked with “!”." */
export function elsewhere(here: string, others: number, ...nouns: string[]): string {
  const what = nouns.map((noun) => (others > 1 ? `${noun}s` : noun)).join(" or ");
  return others ? `${here ? "Also" : "Something is wrong"} in ${others} other ${what}, marked with “!”.` : "";
}
