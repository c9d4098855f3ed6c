// One series in the page: a line of text with its values, and its plot as a small SVG (its colours come from the style sheet).

import { button, h, set, svg } from "../dom";
import { exact } from "../number";
import type { Curve } from "./layout";
import { brief, nanSince, odd, pathsOf, pointAt } from "./layout";
import type { Scale } from "./scale";
import { scaleOf, share } from "./scale";

export const RIGHT = 14; // room beside the last point
const AXIS = 20,
  LETTER = 6.3;

export const textWidth = (text: string) => text.length * LETTER;

/** What all panels share. */
export interface Axis {
  x: Scale;
  left: number;
  width: number;
  name: string;
  at: number[];
  inGutter: boolean;
}

/** One series: a line of text, and its plot. */
export class Panel {
  readonly element: HTMLElement;
  private readonly label = h("b.rfnb-curves-label");
  private readonly unit = h("span.rfnb-quiet");
  private readonly value = h("span.rfnb-curves-value");
  private readonly where = h("span.rfnb-curves-where");
  private readonly best = h("span.rfnb-curves-best");
  private readonly odd = h("span.rfnb-curves-where");
  private readonly logButton = button(
    "log",
    () => {
      this.log = !this.logged;
      this.redraw();
    },
    { "data-do": "log" },
  );
  private readonly plot = svg("svg.rfnb-curves-plot", { "aria-hidden": "true" });
  private readonly cursor = svg("g.rfnb-curves-cursor");
  private curve!: Curve;
  private axis!: Axis;
  private scale: Scale | null = null;
  private height = 0;
  private log: boolean | null = null; // what the person chose

  constructor(private readonly redraw: () => void) {
    const head = h(
      "div.rfnb-curves-head",
      this.label,
      this.unit,
      h("span.rfnb-curves-fill"),
      this.odd,
      this.best,
      this.where,
      this.value,
      this.logButton,
    );
    this.element = h("div.rfnb-curves-panel", head);
    this.element.append(this.plot);
  }

  get top(): SVGSVGElement {
    return this.plot;
  }

  private get logged(): boolean {
    return this.curve.positive && (this.log ?? this.curve.log);
  }

  /** The scale of y, and how wide its labels are. */
  measure(curve: Curve, height: number): number {
    this.curve = curve;
    this.height = height;
    this.scale = scaleOf(curve, this.logged, height > 110 ? 4 : 3);
    return Math.max(0, ...(this.scale?.ticks ?? []).map(({ text }) => textWidth(text)));
  }

  draw(axis: Axis, last: boolean, live: boolean): void {
    const { curve, scale, height, plot } = this;
    this.axis = axis;
    const { left, width } = axis,
      right = width - RIGHT;
    this.label.textContent = curve.label;
    this.unit.textContent = curve.unit;
    this.logButton.style.visibility = curve.positive ? "" : "hidden"; // keeps its room, so that values stand under each other
    set(this.logButton, "aria-pressed", this.logged);
    set(this.logButton, "aria-label", `log axis for ${curve.label}`);
    this.logButton.title = this.logged ? "logarithmic axis" : "show on a logarithmic axis";
    set(plot, "width", width);
    set(plot, "height", height + (last ? AXIS : 0) + 6);
    const grid = svg("g.rfnb-curves-grid"),
      ticks = svg("g.rfnb-curves-ticks"),
      marks = svg("g", { transform: "translate(0 5)" });
    for (const { value } of axis.x.ticks) grid.append(svg("path", { d: `M${this.px(value)} 0v${height}` }));
    if (last) this.drawAxis(ticks, axis);
    for (const { value, text } of scale?.ticks ?? []) {
      const y = this.py(value);
      grid.append(svg("path", { d: `M${left} ${y}H${right}`, class: text ? "rfnb-curves-strong" : "" }));
      if (text) ticks.append(svg("text", { x: left - 7, y: y + 3.8, "text-anchor": "end" }, text));
    }
    marks.append(grid, svg("path.rfnb-curves-base", { d: `M${left} ${height}H${right}` }), ticks);
    if (scale) this.drawCurve(marks, live);
    else
      marks.append(
        svg(
          "text.rfnb-curves-none",
          { x: (left + right) / 2, y: height / 2 + 4, "text-anchor": "middle" },
          this.nothing(live),
        ),
      );
    marks.append(this.cursor);
    plot.replaceChildren(marks);
  }

  private drawAxis(ticks: SVGGElement, { x, name, left, width, inGutter }: Axis): void {
    const end = width - RIGHT,
      y = this.height + 16;
    const most = inGutter ? width : end - textWidth(name) - 8;
    for (const { value, text } of x.ticks) {
      const at = this.px(value);
      if (at + textWidth(text) / 2 < most) ticks.append(svg("text", { x: at, y, "text-anchor": "middle" }, text));
    }
    const own = inGutter ? { x: left - 16, y } : { x: end, y };
    ticks.append(svg("text.rfnb-curves-name", { ...own, "text-anchor": "end" }, name));
  }

  private drawCurve(marks: SVGGElement, live: boolean): void {
    const { curve, height } = this,
      since = nanSince(curve);
    if (since >= 0) {
      const x = this.px(curve.x[since]!),
        width = Math.max(2, this.axis.width - RIGHT - x);
      marks.append(svg("rect.rfnb-curves-band", { x, y: 0, width, height }));
    }
    const paths = pathsOf(
      curve,
      (x) => this.px(x),
      (y) => this.py(y),
      height,
    );
    marks.append(svg("path", { d: paths.line, class: paths.mean ? "rfnb-curves-range" : "rfnb-curves-line" }));
    if (paths.mean) marks.append(svg("path.rfnb-curves-line", { d: paths.mean }));
    marks.append(svg("path.rfnb-curves-dots", { d: paths.dots }));
    if (paths.mean) this.unit.textContent += `${curve.unit ? ", " : ""}mean, with the range behind it`;
    for (const d of [paths.up, paths.down]) if (d) marks.append(svg("path.rfnb-curves-infinite", { d }));
    const last = curve.y.length - 1;
    if (live && Number.isFinite(curve.y[last]!)) {
      const at = { cx: this.px(curve.x[last]!), cy: this.py(curve.y[last]!) };
      marks.append(svg("circle.rfnb-curves-halo", { ...at, r: 6.5 }), svg("circle.rfnb-curves-end", { ...at, r: 3 }));
    }
    if (curve.best >= 0 && last > 0)
      marks.append(
        svg("circle.rfnb-curves-ring", {
          cx: this.px(curve.x[curve.best]!),
          cy: this.py(curve.y[curve.best]!),
          r: 3.6,
        }),
      );
  }

  private nothing(live: boolean): string {
    const count = this.curve.y.length;
    return count ? `no finite value in ${count} point${count === 1 ? "" : "s"}` : `no points${live ? " yet" : ""}`;
  }

  /** The value at the cursor, or the last one. */
  point(at: number | null): void {
    const { curve, axis, cursor } = this;
    const index = at === null ? curve.y.length - 1 : pointAt(curve, at);
    const value = curve.y[index];
    this.element.dataset["value"] = value === undefined ? "" : exact(value);
    this.value.textContent = value === undefined ? "–" : at === null ? brief(value) : exact(value);
    this.value.classList.toggle("rfnb-curves-bad", value !== undefined && !Number.isFinite(value));
    const shown =
      at === null
        ? "last"
        : value === undefined || curve.x[index] === at
          ? ""
          : `at ${axis.name} ${exact(curve.x[index]!)}`;
    this.where.textContent = value === undefined ? "" : shown;
    const { best } = curve;
    this.best.textContent =
      best < 0 || curve.y.length < 2 ? "" : `best ${brief(curve.y[best]!)} at ${exact(curve.x[best]!)}`;
    const signs = Array.from(curve.y).reduce<string>((found, value) => {
      const sign = value === Infinity ? "▲" : value === -Infinity ? "▼" : "";
      return found.includes(sign) ? found : found + sign;
    }, "");
    // The marks in the plot, and what they mean.
    this.odd.textContent = odd(curve, axis.name)
      .map((text) => (text.includes("infinite") ? `${signs} ${text}` : text))
      .join(", ");
    cursor.replaceChildren();
    if (at === null) return;
    const x = this.px(at);
    cursor.append(svg("path.rfnb-curves-hair", { d: `M${x} 0V${this.height}` }));
    if (value !== undefined && Number.isFinite(value))
      cursor.append(svg("circle.rfnb-curves-here", { cx: this.px(curve.x[index]!), cy: this.py(value), r: 4 }));
    if (!this.plot.querySelector(".rfnb-curves-name")) return;
    const text = exact(at),
      half = textWidth(text) / 2 + 5;
    const middle = Math.min(Math.max(x, half), axis.width - half);
    cursor.append(
      svg("rect", { x: middle - half, y: this.height + 4, width: 2 * half, height: 16, rx: 4 }),
      svg("text", { x: middle, y: this.height + 16, "text-anchor": "middle" }, text),
    );
  }

  private px(x: number): number {
    return Math.round((this.axis.left + share(this.axis.x, x) * (this.axis.width - this.axis.left - RIGHT)) * 10) / 10;
  }
  private py(y: number): number {
    return this.scale ? Math.round((1 - share(this.scale, y)) * this.height * 10) / 10 : 0;
  }
}
