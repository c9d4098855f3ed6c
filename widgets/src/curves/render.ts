// The curves view in the page: small panels under one axis, a line through all of them at the cursor, and what is under it.

import type { Render } from "../context";
import { Cursor, onKeys } from "../cursor";
import { h, onResize, quiet } from "../dom";
import type { Frame } from "../frame";
import { exact } from "../number";
import { Shell } from "../shell";
import type { Curve, Head } from "./layout";
import { curvesOf, heightOf, nearest, problem, sentence, stops, walk } from "./layout";
import type { Axis } from "./panel";
import { Panel, RIGHT, textWidth } from "./panel";
import { xScale } from "./scale";

const HINT = "Point at a curve, or focus the curves and use the arrow keys, Home and End.";
const GUTTER = 70,
  WIDTH_UNKNOWN = 640;

class CurvesView {
  private frame!: Frame<Head>;
  private curves: Curve[] = [];
  private panels: Panel[] = [];
  private at: number[] = []; // where the cursor can stand
  private axis: Axis | null = null;
  private room = -1;
  private readonly cursor = new Cursor<number>(() => this.point());

  private readonly running = h("span", { class: "rfnb-curves-running" });
  private readonly stage = h("div", {
    class: "rfnb-curves-stage",
    tabindex: "0",
    role: "application",
    "aria-roledescription": "curves",
    "data-lm-suppress-shortcuts": "true",
  });
  private readonly readout = h("div", { class: "rfnb-readout", role: "status", "aria-live": "polite" });
  private readonly body = h("div", { class: "rfnb-curves" }, this.stage, this.readout);
  private readonly shell: Shell;
  private readonly unwatch: () => void;

  constructor(private readonly el: HTMLElement) {
    this.shell = new Shell(el, [this.running], this.body);
    this.stage.addEventListener("pointermove", (event) => this.cursor.hover(this.stopAt(event)));
    this.stage.addEventListener("pointerleave", () => this.cursor.hover(null));
    this.stage.addEventListener("click", (event) => {
      const at = this.stopAt(event);
      if (at !== null) this.cursor.pin(at);
    });
    onKeys(this.stage, (event) => this.key(event));
    this.unwatch = onResize(this.body, () => {
      if (this.available() !== this.room) this.redraw();
    });
  }

  update(frame: Frame<Head>): void {
    this.frame = frame;
    const { head } = frame,
      { cursor } = this,
      wrong = problem(frame);
    const atEnd = cursor.pinned === this.at.at(-1);
    this.curves = wrong ? [] : curvesOf(frame);
    const at = (this.at = stops(this.curves)),
      last = at.at(-1);
    this.el.dataset["step"] = last === undefined ? "" : exact(last);
    const missing = wrong ?? (at.length ? null : `No points${head.live ? " yet" : ""}.`);
    if (!this.shell.show(head.title ?? "Curves", missing)) {
      this.axis = null;
      return;
    }
    // A cursor at the last point stays at the last point.
    if (cursor.pinned !== null) cursor.pinned = atEnd ? last! : nearest(at, cursor.pinned);
    if (cursor.hovered !== null) cursor.hovered = nearest(at, cursor.hovered);
    this.redraw();
  }

  destroy(): void {
    this.unwatch();
    this.el.replaceChildren();
  }

  private available(): number {
    return Math.floor(this.body.clientWidth) || WIDTH_UNKNOWN;
  }

  private redraw(): void {
    const { head } = this.frame,
      { at } = this;
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
      live = !!head.live,
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

  private key({ key, ctrlKey, target }: KeyboardEvent): boolean {
    if (ctrlKey || target !== this.stage || !this.axis) return false;
    const to = key === "Escape" ? null : walk(this.axis.at, this.cursor.at, key);
    if (to === null && key !== "Escape") return false;
    this.cursor.pin(to);
    return true;
  }

  private point(): void {
    const cursor = this.cursor.at,
      { axis } = this;
    for (const panel of this.panels) panel.point(cursor);
    this.el.dataset["cursor"] = cursor === null ? "" : exact(cursor);
    const words = cursor === null || !axis ? HINT : sentence(this.curves, axis.name, cursor);
    if (this.readout.textContent === words) return; // what has not changed is not read out again
    this.readout.replaceChildren(cursor === null ? quiet(words) : words);
  }
}

export const render: Render<Head> = (el, frame) => {
  const view = new CurvesView(el);
  view.update(frame);
  return view;
};
