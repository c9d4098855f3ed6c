// The curves view in the page: small panels under one axis, a line through all of them at the cursor, and what is under it.

import type { Render } from "../context";
import { h } from "../dom";
import type { Frame } from "../frame";
import { exact } from "../number";
import type { Curve, Head } from "./layout";
import { curvesOf, heightOf, nearest, problem, sentence, stops, walk } from "./layout";
import type { Axis } from "./panel";
import { Panel, RIGHT, textWidth } from "./panel";
import { xScale } from "./scale";

const HINT = "Point at a curve, or focus the curves and use the arrow keys, Home and End.";
const GUTTER = 70,
  WIDTH_UNKNOWN = 640;

export class CurvesView {
  private frame!: Frame;
  private curves: Curve[] = [];
  private panels: Panel[] = [];
  private at: number[] = []; // where the cursor can stand
  private axis: Axis | null = null;
  private pinned: number | null = null;
  private hovered: number | null = null;
  private room = -1;

  private readonly title = h("b", { class: "rfnb-title" });
  private readonly running = h("span", { class: "rfnb-curves-running" });
  private readonly fault = h("p", { class: "rfnb-sentence", role: "alert" });
  private readonly stage = h("div", {
    class: "rfnb-curves-stage",
    tabindex: "0",
    role: "application",
    "aria-roledescription": "curves",
    "data-lm-suppress-shortcuts": "true",
  });
  private readonly readout = h("div", { class: "rfnb-readout", role: "status", "aria-live": "polite" });
  private readonly body = h("div", { class: "rfnb-curves" }, this.stage, this.readout);
  private readonly watcher: ResizeObserver | null;

  constructor(private readonly el: HTMLElement) {
    el.append(h("div", { class: "rfnb-top" }, this.title, this.running), this.fault, this.body);
    this.stage.addEventListener("pointermove", (event) => this.hover(this.stopAt(event)));
    this.stage.addEventListener("pointerleave", () => this.hover(null));
    this.stage.addEventListener("click", (event) => {
      const at = this.stopAt(event);
      if (at !== null) this.pin(at);
    });
    this.stage.addEventListener("keydown", (event) => this.key(event));
    this.watcher =
      typeof ResizeObserver === "undefined"
        ? null
        : new ResizeObserver(() => {
            if (this.available() !== this.room) this.redraw();
          });
    this.watcher?.observe(this.body);
  }

  update(frame: Frame): void {
    this.frame = frame;
    const head = frame.head as unknown as Head;
    const wrong = problem(frame);
    const atEnd = this.pinned !== null && this.pinned === this.at[this.at.length - 1];
    this.curves = wrong ? [] : curvesOf(frame);
    const at = (this.at = stops(this.curves));
    const nothing = wrong ?? (at.length ? null : `No points${head.live ? " yet" : ""}.`);
    this.title.textContent = head.title ?? "Curves";
    this.fault.textContent = nothing ?? "";
    this.fault.hidden = !nothing;
    this.body.hidden = this.running.hidden = !!nothing;
    this.el.dataset["step"] = at.length ? exact(at[at.length - 1]!) : "";
    if (nothing) {
      this.axis = null;
      return;
    }
    // A cursor at the last point stays at the last point.
    if (this.pinned !== null) this.pinned = atEnd ? at[at.length - 1]! : nearest(at, this.pinned);
    if (this.hovered !== null) this.hovered = nearest(at, this.hovered);
    this.redraw();
  }

  destroy(): void {
    this.watcher?.disconnect();
    this.el.replaceChildren();
  }

  private get cursor(): number | null {
    return this.hovered ?? this.pinned;
  }

  private available(): number {
    return Math.floor(this.body.clientWidth) || WIDTH_UNKNOWN;
  }

  private redraw(): void {
    const head = this.frame.head as unknown as Head;
    const { at } = this;
    if (!at.length) return;
    this.room = this.available();
    while (this.panels.length > this.curves.length) this.panels.pop()!.element.remove();
    while (this.panels.length < this.curves.length) {
      const panel = new Panel(() => this.redraw());
      this.panels.push(panel);
      this.stage.append(panel.element);
    }
    const height = heightOf(this.curves.length);
    const name = head.x ?? "step",
      live = Boolean(head.live),
      inGutter = textWidth(name) <= GUTTER;
    const left =
      Math.ceil(
        Math.max(
          inGutter ? textWidth(name) + 9 : 26,
          ...this.panels.map((panel, index) => panel.measure(this.curves[index]!, height)),
        ),
      ) + 10;
    const x = xScale(at, this.room - left - RIGHT, textWidth)!;
    this.axis = { x, left, width: this.room, name, at, inGutter };
    this.panels.forEach((panel, index) => panel.draw(this.axis!, index === this.panels.length - 1, live));
    this.running.textContent = `${live ? "running, " : ""}${name} ${exact(at[at.length - 1]!)}`;
    this.stage.setAttribute(
      "aria-label",
      `${head.title ?? "Curves"}: ${this.curves.map(({ label }) => label).join(", ")} over ${name} ${exact(at[0]!)} to ${exact(at[at.length - 1]!)}`,
    );
    this.point();
  }

  private stopAt(event: MouseEvent): number | null {
    const { axis } = this,
      plot = this.panels[0]?.top;
    if (!axis || !plot || (event.target as Element | null)?.closest?.("button")) return null;
    const x = event.clientX - plot.getBoundingClientRect().left;
    const from = (x - axis.left) / (axis.width - axis.left - RIGHT);
    return from < -0.04 || from > 1.04 ? null : nearest(axis.at, axis.x.low + from * (axis.x.high - axis.x.low));
  }

  private hover(at: number | null): void {
    if (at === this.hovered) return;
    this.hovered = at;
    this.point();
  }

  private pin(at: number | null): void {
    this.pinned = at;
    this.hovered = null;
    this.point();
  }

  private key(event: KeyboardEvent): void {
    if (event.altKey || event.metaKey || event.ctrlKey || event.target !== this.stage || !this.axis) return;
    const to = event.key === "Escape" ? null : walk(this.axis.at, this.cursor, event.key);
    if (to === null && event.key !== "Escape") return;
    event.preventDefault();
    event.stopPropagation();
    this.pin(to);
  }

  private point(): void {
    const { cursor, axis } = this;
    for (const panel of this.panels) panel.point(cursor);
    this.el.dataset["cursor"] = cursor === null ? "" : exact(cursor);
    const words = cursor === null || !axis ? HINT : sentence(this.curves, axis.name, cursor);
    if (this.readout.textContent === words) return; // what has not changed is not read out again
    this.readout.replaceChildren(cursor === null ? h("span", { class: "rfnb-quiet" }, words) : words);
  }
}

export const render: Render = (el, frame) => {
  const view = new CurvesView(el);
  view.update(frame);
  return view;
};
