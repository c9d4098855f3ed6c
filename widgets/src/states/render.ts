// The states view in the page: the strips over one axis of steps, the values under the cursor, and the chosen and pinned units.

import { diverging } from "../color";
import type { Context, Render } from "../context";
import { onKeys } from "../cursor";
import { button, coarse, h, on, region, select, set, setOptions, slider } from "../dom";
import type { Frame } from "../frame";
import { rowOf } from "../exact_values";
import { marked } from "../handles";
import { key } from "../legend";
import { times } from "../list";
import { short } from "../number";
import type { Box, Grip, Scene as Sight } from "../pane";
import { elsewhere, PanedView } from "../pane_view";
import type { Brush, Found, Place } from "./brush";
import { find } from "./brush";
import type { Pin } from "./draw";
import { draw, isRoomy, stripsOf } from "./draw";
import { Drag, isMovable } from "./drag";
import type { Layout, Position } from "./layout";
import { flagged } from "./findings";
import { hit, layout, titleAt, walk } from "./layout";
import { panel } from "./panel";
import type { Head, OrderEntry, Scene, Track } from "./scene";
import {
  asides,
  changing,
  CHANGING,
  DEAD,
  faults,
  flagsOf,
  isDrawn,
  MOST_ROWS,
  ordered,
  problem,
  rowOfUnit,
  SATURATED,
  sceneOf,
  slimmed,
  UNCHANGED,
} from "./scene";
import type { Taker } from "./handles";
import { offer } from "./handles";
import { table, tableSize } from "./table";
import { words } from "./words";
import { visible } from "../visible_text";

const CHANGE: OrderEntry = {
  name: "change",
  label: `${CHANGING} that change most`,
  number: "change from step to step, on average",
};
const OPEN = 6, // tracks that are initially open
  MOST_PINS = 4,
  MOST_HEIGHT = 16000; // the maximal height of a canvas

class StatesView extends PanedView<Head, Position, Layout> {
  private scene!: Scene;
  private strips: (HTMLCanvasElement | null)[] | null = null;
  private readonly fold = new Map<string, boolean>(); // by label: whether the person opened or closed it
  private tall = 1;
  private order: string | null = null; // the name of an order; "": by number; null: not chosen
  private orders: OrderEntry[] = [];
  private unsorted = false; // the kernel that sorts has not answered
  private pinned: { label: string; unit: number }[] = [];
  private pins: Pin[] = [];
  private brush: Brush | null = null;
  private found: Found | null = null;
  private share: number; // of the threshold: a fraction of the range of the track
  private readonly drag: Drag;

  private readonly orderSelect = select("order of units", (index) => this.sortBy(index));
  private readonly threshold = slider(
    { min: "-100", max: "100", value: "50", "aria-label": "threshold above which a unit is on" },
    (value) => {
      this.share = value / 100;
      this.rebrush();
    },
  );
  private readonly thresholdBox = h("label.rfnb-states-threshold", { hidden: "" }, "on from ", this.threshold);
  private readonly fewer = button("↕−", () => this.stretch(1 / 1.5), { "aria-label": "lower rows of units" });
  private readonly more = button("↕+", () => this.stretch(1.5), { "aria-label": "taller rows of units" });
  private readonly pinButton = button("Pin unit", () => this.togglePin(), { "data-do": "pin" });
  private readonly tableButton = button("Table", () => this.toggleTable(), {
    "aria-pressed": "false",
    "data-do": "table",
  });
  private readonly tracksBox = h("div.rfnb-states-tracks", { role: "group", "aria-label": "tracks" });
  private readonly tableBox = region("div.rfnb-table", "states as tables");
  private readonly flags = h("div.rfnb-states-flags");
  private readonly panel = h("div.rfnb-states-found", { "aria-live": "polite", hidden: "" });

  constructor(el: HTMLElement, ctx: Context) {
    super(el, ctx, {
      name: "states",
      title: "States",
      hint: "Point at a value, or focus the strips and use the arrow keys; Shift and arrows choose a range of steps, Enter pins a unit, + − and [ ] zoom.",
      mostHeight: MOST_HEIGHT,
      taps: [
        ["Shift+ArrowLeft", "⇤", "the range of steps from here, to the left"],
        ["Shift+ArrowRight", "⇥", "the range of steps from here, to the right"],
      ],
    });
    this.share = 0.5;
    this.drag = new Drag(
      ctx,
      () => this.dragged(),
      (change) => this.edits.keep(change),
    );
    this.stage.before(this.tracksBox);
    this.stage.after(this.tableBox, this.panel);
    this.notes.after(this.flags);
    const units = h("span.rfnb-zoom", { title: "height of the rows" }, this.fewer, this.more);
    this.tools.append(units, this.orderSelect, this.pinButton, this.tableButton, this.thresholdBox);
    const { element } = this.pane;
    // The pane's own listener moves the cursor before `ownKey` is called.
    on(element, "keydown", () => (this.before = this.cursor.pinned?.step ?? 0), true);
    onKeys(element, (event) => this.ownKey(event));
    on(element, "pointerdown", (event) => this.brushing(event));
    on(element, "click", (event) => {
      const box = element.getBoundingClientRect(),
        x = event.clientX - box.left - element.clientLeft + element.scrollLeft,
        y = event.clientY - box.top - element.clientTop;
      const track = y > this.made.top ? titleAt(this.made, x, y + element.scrollTop) : null;
      if (track !== null) this.toggleFold(track);
    });
  }

  protected missing(frame: Frame<Head>): string | null {
    const { tracks, seqs, live } = frame.head;
    return problem(frame) ?? (tracks.length && seqs.length ? null : `No states${live ? " yet" : ""}.`);
  }

  protected sequences(): [string, boolean][] {
    const { head } = this.frame,
      wrong = faults(head);
    return head.seqs.map(({ label }, seq) => [label, !!wrong[seq]]);
  }

  protected open(): [string, string, string] {
    const { head } = this.frame,
      scene = sceneOf(this.frame, this.seq)!;
    const orders = head.orders ?? [];
    const large = scene.tracks.some(({ units }) => units > MOST_ROWS);
    this.order ??= large && (!head.live || this.ctx.run) ? CHANGE.name : "";
    this.orders = [...(large ? [CHANGE] : []), ...orders];
    if (!this.orders.some(({ name }) => name === this.order)) this.order = "";
    setOptions(
      this.orderSelect,
      this.orders.length ? ["units as numbered", ...this.orders.map(({ label }) => visible(label))] : [],
      this.orders.findIndex(({ name }) => name === this.order) + 1,
    );
    this.el.dataset["order"] = this.order;
    this.unsorted = false;
    const aside = asides(scene.tracks),
      ends = this.ends(
        scene.len < scene.steps,
        scene.tracks.some(({ note }) => note),
      );
    this.scene = {
      ...scene,
      steps: ends ? scene.len : scene.steps,
      tracks: scene.tracks.map((track, at) =>
        aside[at] && at < OPEN && !this.fold.get(track.label) ? slimmed(track) : this.sorted(track, scene.len),
      ),
    };
    this.placePins();
    if (this.brush && this.brush.seq !== this.seq) this.unbrush();
    else this.rebrush();
    const wrong = faults(head),
      here = wrong[this.seq]!;
    const others = wrong.filter((said, seq) => said && seq !== this.seq).length;
    flagged(this.scene, this.flags, {
      pin: (track, unit) => this.togglePin(unit, track),
      go: (track, step) => this.goTo({ track, unit: -1, step }),
    });
    return [
      here && `${this.scene.seq}: ${here}`,
      "",
      [
        elsewhere(here, others, "sequence"),
        this.unsorted && "Only the kernel that made this view can sort all tracks this way.",
      ]
        .filter(Boolean)
        .join(" "),
    ];
  }

  /** The track in the chosen order, if the page has it or the kernel has sent it; otherwise requests it. */
  private sorted(track: Track, len: number): Track {
    if (!this.order) return track;
    if (this.order === CHANGE.name) return changing(track, len);
    const name = `${track.block}/order/${this.order}`,
      seq = this.order === "first" ? this.seq : 0,
      there = this.frame.blocks[name];
    if (there)
      return ordered(
        track,
        Float32Array.from({ length: 2 * track.units }, (_, at) => there.value(seq * 2 * track.units + at)),
      );
    const asked = { block: name, start: [seq, 0, 0], size: [1, 2, track.units] },
      known = this.ctx.exact.now(asked);
    if (known) return ordered(track, known);
    this.unsorted = true;
    const { order } = this;
    void this.ctx.exact
      .ask(asked)
      .then((values) => values && this.order === order && this.drawable && this.choose(this.seq, true));
    return track;
  }

  private sortBy(index: number): void {
    this.order = this.orders[index - 1]?.name ?? "";
    this.choose(this.seq, true);
  }

  private folded = (track: number): boolean => {
    const of = this.scene.tracks[track];
    return !!of && !of.slim && !(this.fold.get(of.label) ?? track < OPEN);
  };

  private toggleFold(track: number): void {
    const of = this.scene.tracks[track]!;
    this.fold.set(of.label, of.slim || this.folded(track));
    this.choose(this.seq, true);
  }

  private showTracks(): void {
    const { tracks } = this.scene;
    if (this.tracksBox.childElementCount !== tracks.length)
      this.tracksBox.replaceChildren(...tracks.map((_, track) => button("", () => this.toggleFold(track))));
    [...this.tracksBox.children].forEach((button, track) => {
      const open = String(!this.folded(track) && !tracks[track]!.slim);
      button.textContent = tracks[track]!.title;
      set(button, "title", tracks[track]!.label);
      set(button, "aria-pressed", open);
    });
    this.tracksBox.hidden = tracks.length < 2;
  }

  private taker: Taker | null = null; // handles the next click

  protected override clicked(place: Position): void {
    const { taker } = this;
    this.taker = null;
    if (!taker?.(place)) super.clicked(place);
  }

  protected offer(at: Position | null): void {
    const { edits, seq, slots, scene, brush, found, frame } = this,
      track = scene.tracks[at?.track ?? 0]!,
      of = at && frame.head.tracks[at.track];
    offer(
      {
        edits,
        held: of?.held,
        cannot: of?.cannot,
        track,
        seq,
        slots,
        len: scene.len,
        brush: brush?.track === at?.track ? brush : null,
        found,
        paste: (take) => void (this.taker = take),
      },
      at,
    );
  }

  /** Whether something can be dragged here. */
  private get draggable(): boolean {
    const { slots, scene, frame, ctx } = this;
    return (
      !!ctx.run &&
      frame.head.tracks.some(
        ({ held }) => held && times(scene.len, (step) => step).some((step) => isMovable(held, step, slots)),
      )
    );
  }

  protected override get hint(): string {
    const units = this.scene.tracks.some((track, at) => track.rows && !this.folded(at)),
      what = units ? "a value, or the line of the norm" : "the line of the norm";
    return this.draggable
      ? `${coarse() ? `Tap ${what}, then drag it` : `Drag ${what},`} up or down to see the result of the run; dropping it keeps the result. ${super.hint}`
      : super.hint;
  }

  protected override grab(at: Position): Grip | null {
    const { seq, slots, scene, frame } = this,
      { held } = frame.head.tracks[at.track]!,
      track = scene.tracks[at.track]!,
      exact = this.exactly(at);
    if (!held || at.step >= scene.len) return null;
    const value = at.unit < 0 ? track.line[at.step]! : (exact?.[at.unit] ?? track.value(at.step, at.unit));
    return this.drag.grab({ held, track, value, seq, slots, line: this.made.tracks[at.track]!.normHeight }, at);
  }

  private dragged(): void {
    this.el.dataset["dragged"] = this.drag.on ? (this.drag.told?.words ?? "") : "";
    this.point();
  }

  protected has({ track, unit, step }: Position): boolean {
    const { steps, tracks } = this.scene;
    return step < steps && track < tracks.length && isDrawn(tracks[track]!, unit);
  }

  protected lastStep(): number {
    return this.scene.len - 1;
  }

  protected drawLegend(): void {
    const { len, steps, tracks } = this.scene;
    this.legend.replaceChildren();
    if (len < steps) this.legend.append(key("padding", "after the end"));
    if (tracks.some(({ missing }) => missing.includes(true))) this.legend.append(key("missing", "NaN, not computed"));
    const line = (mark: string, said: string) => h("span.rfnb-key", h("i", { class: `rfnb-states-${mark}` }), said);
    if (tracks.some((track, at) => track.low < 0 && isRoomy(this.made, this.made.tracks[at]!, track)))
      this.legend.append(h("span.rfnb-key", "– below 0, of gates .5"));
    const bits = tracks.reduce((all, track) => all | flagsOf(track, len), 0);
    if (bits & SATURATED) this.legend.append(line("saturated", "saturated"));
    if (bits & UNCHANGED) this.legend.append(line("unchanged", "unchanged"));
    if (bits & DEAD) this.legend.append(line("dead", "dead unit"));
    if (tracks.some(({ slim }) => slim)) this.legend.append(h("span.rfnb-key", "▸ a click shows the units"));
    this.legend.append(line("line", "norm, mean opening"), line("change", "change from the step before"));
  }

  protected override redraw(): void {
    super.redraw();
    if (!this.drawable) return;
    this.showTracks();
    this.showThreshold();
    if (!this.tableBox.hidden) this.fillTable();
  }

  protected layout(width: number): Layout {
    const { scene, zoom, tall, measure, folded, pins } = this;
    this.strips = null;
    const share = this.el.closest(".rfnb-on-stage") ? 0.5 : 1; // in presentation mode, without scrolling: a strip and its line
    return layout(scene, { width, zoom, tall: tall * share, measure, folded, pins: pins.length });
  }

  protected paint(g: CanvasRenderingContext2D, sight: Sight): void {
    const { scene, made, linked, pins, pane, cursor } = this,
      palette = this.ctx.palette(),
      colors = diverging(palette.dark);
    this.strips ??= stripsOf(scene, made, colors);
    const brush = this.brush && { ...this.brush, here: this.found?.here ?? [] };
    const { strips } = this;
    draw(g, sight, {
      scene,
      editedSteps: marked(this.frame.head.hands),
      made,
      palette,
      colors,
      strips,
      cursor: cursor.at,
      linked,
      focused: pane.focused,
      pins,
      brush,
    });
    this.drag.draw(g, sight, scene, made, colors, palette);
  }

  protected hit(x: number, y: number): Position | null {
    return hit(this.made, this.scene, x, y);
  }

  protected walk(key: string, far: boolean): Position | null {
    return walk(this.scene, this.cursor.at, key, far, this.folded);
  }

  protected boxOf({ track, unit, step }: Position): Box {
    const { left, cell, tracks } = this.made,
      { x, strip, height, norm, normHeight } = tracks[track]!,
      of = this.scene.tracks[track]!;
    const tall = height / Math.max(1, of.rows);
    const [y, high] = unit < 0 ? [norm, normHeight] : [strip + Math.max(0, rowOfUnit(of, unit)) * tall, tall + 4];
    return { x: left + x + step * cell - 2, y: y - 2, width: cell + 4, height: high };
  }

  protected stepOf({ step }: Position): number {
    return step;
  }

  protected words(at: Position): (Node | string)[] {
    const { told } = this.drag;
    if (told) return [told.refused ?? told.words ?? ""];
    const number = this.orders.find(({ name }) => name === this.order)?.number ?? null;
    return words(this.scene, at, this.exactly(at), number);
  }

  /** The exact values of a step, if available; otherwise they are requested, and the text follows. */
  private exactly({ track, unit, step }: Position): Float32Array | null {
    const { block, about } = this.scene.tracks[track]!,
      values = this.frame.blocks[block]!;
    if (!about || unit < 0 || step >= values.shape[1]!) return null;
    return rowOf(this.ctx.exact, block, values, this.seq, step, () => this.point());
  }

  protected describe(at: Position | null) {
    const { seq, tracks, len, steps } = this.scene,
      all = tracks.map(({ label, units, unitName }) => `${label} with ${units} ${unitName}`);
    const rows = (some: typeof tracks) => some.reduce((sum, { rows }) => sum + rows + 1, 0);
    const of = at && tracks[at.track]!;
    const row = at && rows(tracks.slice(0, at.track)) + (at.unit < 0 ? of!.rows : rowOfUnit(of!, at.unit));
    const text = at ? this.words(at).map((part) => (typeof part === "string" ? part : part.textContent)) : [];
    return {
      label: `States of ${seq}: ${all.join(", ")}, over ${len} steps`,
      cell: at && { row: row!, col: at.step, rows: rows(tracks), cols: steps, text: text.join("") },
      data: { row: String(at?.unit ?? ""), col: String(at?.step ?? ""), track: at ? tracks[at.track]!.label : "" },
    };
  }

  /** Keys other than those for navigation and zoom. */
  private ownKey(event: KeyboardEvent): boolean {
    if (event.ctrlKey || !this.drawable) return false;
    const { pinned } = this.cursor;
    if (event.shiftKey && ["ArrowLeft", "ArrowRight", "Home", "End"].includes(event.key) && pinned) {
      this.extend(pinned);
      return true;
    }
    if (event.key !== "Shift") this.extending = false;
    if (event.key === "Enter" || event.key === "p") this.togglePin();
    else if (event.key === "[" || event.key === "]") this.stretch(event.key === "]" ? 1.5 : 1 / 1.5);
    else if (event.key === "Escape" && this.brush) this.unbrush();
    else return false;
    return true;
  }

  private stretch(factor: number): void {
    this.tall = Math.min(64, Math.max(1, this.tall * factor));
    if (this.tall < 1.05) this.tall = 1;
    this.redraw();
  }

  // -- pinned units --------------------------------------------------------------------------------------------------------
  private togglePin(unit?: number, of?: number): void {
    const at = this.cursor.at,
      track = of ?? at?.track,
      which = unit ?? at?.unit;
    if (track === undefined || which === undefined || which < 0) return;
    const { label } = this.scene.tracks[track]!,
      same = this.pinned.findIndex((pin) => pin.label === label && pin.unit === which);
    if (same >= 0) this.pinned.splice(same, 1);
    else this.pinned = [...this.pinned, { label, unit: which }].slice(-MOST_PINS);
    this.placePins();
    this.redraw();
  }

  /** The values of the pinned units in this sequence; exact ones as soon as they are there. */
  private placePins(): void {
    const { tracks, len } = this.scene;
    this.pins = this.pinned.flatMap(({ label, unit }): Pin[] => {
      const track = tracks.findIndex((of) => of.label === label && unit < of.units);
      if (track < 0) return [];
      const of = tracks[track]!,
        steps = Math.min(len, this.frame.blocks[of.block]!.shape[1]!);
      const asked = { block: of.block, start: [this.seq, 0, unit], size: [1, steps, 1] };
      const known = of.about ? this.ctx.exact.now(asked) : null;
      if (of.about && !known)
        void this.ctx.exact.ask(asked).then((values) => {
          if (!values || !this.drawable) return;
          this.placePins();
          this.pane.paintSoon();
        });
      return [{ track, unit, values: known ?? Float64Array.from({ length: len }, (_, step) => of.value(step, unit)) }];
    });
    this.el.dataset["pins"] = this.pins.map(({ track, unit }) => `${tracks[track]!.label} ${unit}`).join(", ");
  }

  // -- a range of steps ------------------------------------------------------------------------------------------------------
  private anchor = 0; // start of the range
  private before = 0; // the cursor's step before a key
  private extending = false; // whether the last key extended the range

  private extend({ track, step }: Position): void {
    const { brush } = this;
    if (!brush || brush.track !== track || !this.extending) this.anchor = Math.min(this.before, this.scene.len - 1);
    this.extending = true;
    this.range(track, this.anchor, step);
  }

  private range(track: number, one: number, other: number): void {
    const end = this.scene.len - 1;
    if (end < 0) return;
    const [start, last] = [Math.min(one, other, end), Math.min(Math.max(one, other), end)];
    this.brush = { track, seq: this.seq, start, stop: last + 1, threshold: 0 };
    this.rebrush();
  }

  private unbrush(): void {
    if (!this.brush) return;
    this.brush = this.found = null;
    this.panel.hidden = true;
    this.showThreshold();
    this.pane.paintSoon();
  }

  private showThreshold(): void {
    this.thresholdBox.hidden = !this.brush;
    this.el.dataset["brush"] = this.brush ? `${this.brush.start}-${this.brush.stop - 1}` : "";
  }

  /** Recomputes after a change of range, threshold or values. */
  private rebrush(): void {
    const track = this.brush && this.scene.tracks[this.brush.track];
    if (!this.brush || !track || this.brush.stop > this.scene.len) return this.unbrush();
    const threshold = this.share >= 0 ? this.share * track.high : -this.share * track.low;
    const brush = (this.brush = { ...this.brush, threshold: Math.fround(threshold) }),
      { seqs } = this.frame.head;
    this.threshold.min = track.low < 0 ? "-100" : "0";
    set(this.threshold, "aria-valuetext", short(brush.threshold));
    this.showThreshold();
    void find(this.frame.blocks[track.block]!, track.block, seqs, brush, this.ctx.exact).then((found) => {
      if (brush !== this.brush) return;
      this.found = found;
      const pin = (unit: number) => this.togglePin(unit, brush.track);
      this.panel.replaceChildren(
        ...panel(this.scene, seqs, brush, found, pin, (place) => this.showPlace(brush.track, place)),
      );
      this.panel.hidden = false;
      this.offerAgain();
      this.pane.paintSoon();
    });
  }

  /** Shows a place of the result, with the range on it. */
  private showPlace(track: number, { seq, start, stop }: Place): void {
    this.choose(seq);
    this.range(track, start, stop - 1);
    this.goTo({ track, unit: 0, step: start });
  }

  private goTo(at: Position): void {
    if (this.folded(at.track) || (at.unit >= 0 && this.scene.tracks[at.track]!.slim)) this.toggleFold(at.track);
    this.cursor.pin(at);
    this.pane.reveal(this.boxOf(at), this.made);
  }

  /** Dragging over a strip chooses a range. */
  private brushing(down: PointerEvent): void {
    const { element } = this.pane;
    const at = (event: PointerEvent): Position | null => {
      const box = element.getBoundingClientRect();
      const [x, y] = [event.clientX - box.left - element.clientLeft, event.clientY - box.top - element.clientTop];
      return this.hit(x + element.scrollLeft, y + element.scrollTop);
    };
    const start = down.button === 0 && down.pointerType !== "touch" && this.drawable ? at(down) : null;
    if (!start) return;
    let given = false; // whether another drag takes it
    const move = (event: PointerEvent) => {
      given ||= this.drag.on;
      if (given || this.pane.holds) return;
      const now = at(event);
      if (now && (now.step !== start.step || this.brush?.track === start.track)) {
        this.anchor = start.step;
        if (now.step !== start.step || this.brush?.start === start.step) this.range(start.track, start.step, now.step);
      }
    };
    const end = () => {
      element.removeEventListener("pointermove", move);
      element.ownerDocument.removeEventListener("pointerup", end);
    };
    on(element, "pointermove", move);
    on(element.ownerDocument, "pointerup", end);
  }

  override destroy(): void {
    this.drag.stop();
    super.destroy();
  }

  // -- the table -------------------------------------------------------------------------------------------------------------
  private toggleTable(): void {
    const shown = this.tableBox.hidden;
    this.tableBox.hidden = !shown;
    this.stage.hidden = shown;
    set(this.tableButton, "aria-pressed", shown);
    this.redraw();
  }

  /** Tables of the open tracks, of exact values as soon as they are there. */
  private fillTable(): void {
    const { scene } = this,
      open = scene.tracks.filter((_, track) => !this.folded(track)),
      known = new Map<Track, Float32Array>();
    const show = () =>
      this.tableBox.replaceChildren(...open.map((track) => table(scene, track, known.get(track) ?? null)));
    show();
    for (const track of open.filter(({ about }) => about)) {
      const [steps] = tableSize(scene, track);
      void this.ctx.exact
        .ask({ block: track.block, start: [this.seq, 0, 0], size: [1, steps, track.units] })
        .then((values) => {
          if (!values || scene !== this.scene || this.tableBox.hidden) return;
          known.set(track, values);
          show();
        });
    }
  }
}

export const render: Render<Head> = (el, frame, ctx) => {
  const view = new StatesView(el, ctx);
  view.update(frame);
  return view;
};
