// The states view in the page: the strips under one axis of steps, and what is under the cursor.

import { context } from "../canvas";
import { css, diverging } from "../color";
import type { Context, Render } from "../context";
import { h, setOptions, showNotes } from "../dom";
import type { Frame } from "../frame";
import { measurer, shorten } from "../labels";
import { exact, short } from "../number";
import type { Scene as Sight, Spot } from "../pane";
import { Pane } from "../pane";
import type { Selection } from "../selection";
import { LOST, stepOf } from "../selection";
import { draw, stripsOf } from "./draw";
import type { Head, Layout, Position, Scene } from "./layout";
import { hit, layout, problem, sceneOf, valueAt, walk } from "./layout";

const MOST_HEIGHT = 760;
const HINT = "Point at a value, or focus the strips and use the arrow keys; + and − zoom.";

class StatesView {
  private frame!: Frame;
  private scene: Scene | null = null;
  private made: Layout | null = null;
  private strips: (HTMLCanvasElement | null)[] | null = null;
  private seq = 0;
  private zoom = 1;
  private pinned: Position | null = null;
  private hovered: Position | null = null;
  private linked: number | null = null;
  private lost = false; // whether a linked view points at another hypothesis than is drawn here
  private readonly unlisten: () => void;

  private readonly title = h("b", { class: "rfnb-title" });
  private readonly seqSelect = h("select", { "aria-label": "sequence" });
  private readonly zoomOut = h("button", { type: "button", "aria-label": "zoom out" }, "−");
  private readonly zoomIn = h("button", { type: "button", "aria-label": "zoom in" }, "+");
  private readonly zoomBox = h("span", { class: "rfnb-zoom" }, this.zoomOut, this.zoomIn);
  private readonly legend = h("span", { class: "rfnb-legend" });
  private readonly fault = h("p", { class: "rfnb-sentence", role: "alert" });
  private readonly readout = h("div", { class: "rfnb-readout", role: "status", "aria-live": "polite" });
  private readonly notes = h("div", { class: "rfnb-notes", role: "note" });
  private readonly pane: Pane;
  private readonly body: HTMLElement;

  constructor(
    private readonly el: HTMLElement,
    private readonly ctx: Context,
  ) {
    this.pane = new Pane(
      {
        layout: (width) => this.place(width),
        paint: (g, sight) => this.paint(g, sight),
        hover: (spot) => this.hover(spot && this.at(spot)),
        click: (spot) => {
          const at = this.at(spot);
          if (at) this.pin(at, false);
        },
        key: (event) => this.key(event),
      },
      MOST_HEIGHT,
    );
    this.body = h(
      "div",
      { class: "rfnb-states" },
      h("div", { class: "rfnb-stage" }, this.pane.element),
      this.notes,
      this.readout,
    );
    el.append(
      h(
        "div",
        { class: "rfnb-top" },
        this.title,
        h("span", { class: "rfnb-tools" }, this.seqSelect, this.zoomBox),
        this.legend,
      ),
      this.fault,
      this.body,
    );
    this.seqSelect.addEventListener("change", () => this.choose(Number(this.seqSelect.value)));
    this.zoomIn.addEventListener("click", () => this.zoomTo(1.5));
    this.zoomOut.addEventListener("click", () => this.zoomTo(1 / 1.5));
    this.unlisten = ctx.bus.listen((selection, origin) => {
      if (origin !== this) this.follow(selection);
    });
    ctx.onTheme(() => this.redraw());
  }

  update(frame: Frame): void {
    const first = !this.frame;
    this.frame = frame;
    const head = frame.head as unknown as Head;
    const wrong = problem(frame);
    const nothing = wrong ?? (head.tracks.length && head.seqs.length ? null : `No states${head.live ? " yet" : ""}.`);
    this.title.textContent = head.title ?? "States";
    this.fault.textContent = nothing ?? "";
    this.fault.hidden = !nothing;
    this.body.hidden = this.legend.hidden = this.zoomBox.hidden = !!nothing;
    this.seqSelect.hidden = true;
    if (nothing) return;
    this.choose(this.seq, true);
    if (first) this.pane.start();
  }

  destroy(): void {
    this.unlisten();
    this.pane.destroy();
    this.el.replaceChildren();
  }

  private choose(seq: number, quiet = false): void {
    const head = this.frame.head as unknown as Head;
    const before = this.seq;
    this.seq = Math.max(0, Math.min(seq, head.seqs.length - 1));
    const wrong = head.seqs.map((_, index) =>
      head.tracks.flatMap(({ label, notes }) => (notes?.[index] ? [`${label} ${notes[index]}.`] : [])),
    );
    setOptions(
      this.seqSelect,
      head.seqs.map(({ label }, index) => (wrong[index]!.length ? `${label} !` : label)),
      this.seq,
    );
    const others = wrong.filter((said, index) => said.length && index !== this.seq).length,
      here = wrong[this.seq]!.join(" ");
    showNotes(
      this.notes,
      here && `${head.seqs[this.seq]!.label}: ${here}`,
      "",
      others &&
        `${here ? "Also" : "Something is wrong"} in ${others} other sequence${others > 1 ? "s" : ""}, marked with “!”.`,
    );
    this.scene = sceneOf(this.frame, this.seq);
    const { scene, pinned } = this;
    if (
      pinned &&
      scene &&
      (pinned.step >= scene.steps ||
        pinned.track >= scene.tracks.length ||
        pinned.unit >= scene.tracks[pinned.track]!.units)
    )
      this.pinned = null;
    this.el.dataset["seq"] = String(this.seq);
    if (!quiet && before !== this.seq) this.ctx.bus.point({ seq: this.seq }, this);
    this.redraw();
  }

  private get cursor(): Position | null {
    return this.hovered ?? this.pinned;
  }

  private redraw(): void {
    if (!this.scene) return;
    this.el.dataset["step"] = String(this.scene.len - 1);
    this.pane.relayout();
    this.showLegend();
    this.point();
  }

  private place(width: number): { width: number; height: number } {
    if (!this.scene) return { width: 1, height: 1 };
    this.made = layout(this.scene, {
      width,
      zoom: this.zoom,
      measure: measurer(context(document.createElement("canvas")), `bold 11px ${this.ctx.palette().font}`),
    });
    this.strips = null;
    return this.made;
  }

  private paint(g: CanvasRenderingContext2D, sight: Sight): void {
    const { scene, made } = this;
    if (!scene || !made) return;
    const palette = this.ctx.palette(),
      colors = diverging(palette.dark);
    this.strips ??= stripsOf(scene, made, colors);
    draw(g, sight, {
      scene,
      made,
      palette,
      colors,
      strips: this.strips,
      cursor: this.cursor,
      linked: this.linked,
      focused: this.pane.focused,
    });
  }

  private showLegend(): void {
    const { scene } = this;
    const colors = diverging(this.ctx.palette().dark);
    const ramp = h("span", { class: "rfnb-ramp" });
    ramp.style.background = `linear-gradient(to right, ${Array.from({ length: 9 }, (_, index) => css(colors, index / 8)).join(", ")})`;
    const ticks = h("span", { class: "rfnb-ramp-ticks" }, h("span", {}, "−"), h("span", {}, "0"), h("span", {}, "+"));
    this.legend.replaceChildren(
      h(
        "span",
        { class: "rfnb-ramp-box", title: "each track has its own scale, the same on both sides of 0" },
        ramp,
        ticks,
      ),
    );
    if (scene && scene.len < scene.steps)
      this.legend.append(h("span", { class: "rfnb-key" }, h("i", { class: "rfnb-key-padding" }), "after the end"));
  }

  private at({ x, y, left, top }: Spot): Position | null {
    const { made, scene } = this;
    return made && scene && x >= made.left && y >= made.top ? hit(made, scene, x + left, y + top) : null;
  }

  private hover(at: Position | null): void {
    if (at?.step === this.hovered?.step && at?.unit === this.hovered?.unit && at?.track === this.hovered?.track) return;
    this.hovered = at;
    this.point();
    this.tell();
  }

  private pin(at: Position | null, reveal: boolean): void {
    this.pinned = at;
    this.hovered = null;
    const placed = at && this.made?.tracks[at.track];
    if (at && placed && this.made && reveal) {
      const units = Math.max(1, this.scene?.tracks[at.track]?.units ?? 1);
      const y = at.unit < 0 ? placed.norm : placed.strip + (at.unit / units) * placed.height;
      this.pane.reveal(
        this.made.left + at.step * this.made.cell - 2,
        y - 2,
        this.made.cell + 4,
        at.unit < 0 ? placed.normHeight : placed.height / units + 4,
        this.made,
      );
    }
    this.point();
    this.tell();
  }

  private tell(): void {
    this.linked = null;
    this.lost = false;
    this.ctx.bus.point({ step: this.cursor?.step ?? null }, this);
  }

  private point(): void {
    const { scene, cursor } = this;
    if (!scene) return;
    const { dataset } = this.el;
    dataset["row"] = cursor ? String(cursor.unit) : "";
    dataset["col"] = cursor ? String(cursor.step) : "";
    dataset["track"] = cursor ? scene.tracks[cursor.track]!.label : "";
    this.readout.replaceChildren(
      ...(cursor ? words(scene, cursor) : [h("span", { class: "rfnb-quiet" }, this.lost ? LOST : HINT)]),
    );
    const label = `States of ${scene.seq}: ${scene.tracks.map((track) => `${track.label} with ${track.units} ${track.unitName}`).join(", ")}, over ${scene.len} steps`;
    const rows = scene.tracks.reduce((sum, track) => sum + track.units + 1, 0);
    const before = cursor ? scene.tracks.slice(0, cursor.track).reduce((sum, track) => sum + track.units + 1, 0) : 0;
    this.pane.say(
      label,
      cursor && {
        row: before + (cursor.unit < 0 ? scene.tracks[cursor.track]!.units : cursor.unit),
        col: cursor.step,
        rows,
        cols: scene.steps,
        text: this.readout.textContent ?? "",
      },
    );
    this.pane.paintSoon();
  }

  private follow(selection: Selection): void {
    const { seq } = selection,
      { best } = this.frame.head as unknown as Head,
      step = stepOf(selection, best);
    this.linked = step;
    this.lost = selection.step !== step;
    this.el.dataset["linked"] = step === null ? "" : String(step);
    if (seq !== null && seq !== this.seq && this.scene) this.choose(seq, true);
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
    const to = this.scene && walk(this.scene, this.cursor, event.key);
    if (to) this.pin(to, true);
    return !!to;
  }

  private zoomTo(factor: number): void {
    this.zoom = Math.min(256, Math.max(0.25, this.zoom * factor));
    if (Math.abs(this.zoom - 1) < 0.05) this.zoom = 1;
    this.redraw();
  }
}

/** The value under the cursor, exactly, with its step, and the norm of the step. */
function words(scene: Scene, at: Position): (Node | string)[] {
  const track = scene.tracks[at.track]!;
  const quiet = (text: string) => h("span", { class: "rfnb-quiet" }, text);
  const step =
    at.step < scene.len
      ? [quiet(`${scene.stepName} `), h("b", {}, shorten(scene.stepLabel(at.step), 40)), quiet(` ${at.step}  `)]
      : [quiet(`${scene.stepName} ${at.step}  `)];
  const value = valueAt(scene, at);
  if (at.step >= scene.len)
    return [
      ...step,
      `past the end of ${scene.seq}${at.unit < 0 || (Number.isNaN(value) && !track.note) ? "" : `, ${track.label} ${track.unitName} ${at.unit} holds ${exact(value)}`}`,
    ];
  const shown = h(
    "b",
    { class: "rfnb-value" },
    Number.isNaN(value) ? "NaN" : at.unit < 0 ? short(value) : exact(value),
  );
  const norm = track.norms[at.step]!,
    before = track.norms[at.step - 1];
  const change = before === undefined ? "" : `, before ${short(before)}`;
  const more =
    at.unit < 0
      ? before === undefined
        ? ""
        : `before: ${short(before)}`
      : `norm of the step: ${short(norm)}${change}`;
  return [
    ...step,
    h("b", {}, track.label),
    quiet(at.unit < 0 ? " norm  " : ` ${track.unitName} ${at.unit}  `),
    shown,
    more && "; ",
    h("span", { class: "rfnb-quiet rfnb-others" }, more),
  ];
}

export const render: Render = (el, frame, ctx) => {
  const view = new StatesView(el, ctx);
  view.update(frame);
  return view;
};
