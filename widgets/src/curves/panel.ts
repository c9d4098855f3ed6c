// One series in the page, or those that share a panel: a line of text with the values, and the plot as a small SVG, coloured by the style sheet.

import { button, h, set, svg } from "../dom";
import { exact } from "../number";
import type { Curve } from "./layout";
import {
  bandOf,
  bandPath,
  brief,
  brokenOf,
  cellsOf,
  endsOf,
  keyOf,
  lastOf,
  LEVELS,
  look,
  marked,
  nanSince,
  odd,
  pathsOf,
  pointAt,
  ROW,
  STYLED,
} from "./layout";
import type { Scale } from "./scale";
import { scaleOf, share } from "./scale";

export const RIGHT = 14; // space beside the last point
const AXIS = 20,
  LETTER = 6.3,
  NAME = 17; // letters at the end of a line

export const textWidth = (text: string) => text.length * LETTER;

const cut = (name: string) => (name.length > NAME ? `${name.slice(0, NAME - 1)}…` : name);

/** Data that all panels share. */
export interface Axis {
  x: Scale;
  left: number;
  right: number; // space beside the last point, and for names
  width: number;
  name: string;
  at: number[];
  inGutter: boolean;
}

/** The numbers of one curve beside its name: odd values, the best one, and the one at the cursor or the last. */
class Values {
  readonly value = h("span.rfnb-curves-value");
  private readonly where = h("span.rfnb-curves-where");
  private readonly best = h("span.rfnb-curves-best");
  private readonly odd = h("span.rfnb-curves-where");
  readonly elements = [this.odd, this.best, this.where, this.value];

  constructor(
    private readonly curve: Curve,
    private readonly name: string, // of x
    private readonly alone: boolean,
  ) {
    const { best, x, y } = curve;
    this.best.textContent = best < 0 || y.length < 2 ? "" : `best ${brief(y[best]!)} at ${exact(x[best]!)}`;
    const is = (value: number) => Array.prototype.includes.call(y, value),
      signs = `${is(Infinity) ? "▲" : ""}${is(-Infinity) ? "▼" : ""}`;
    // The marks in the plot, and their meaning.
    this.odd.textContent = odd(curve, name)
      .map((text) => (text.includes("infinite") ? `${signs} ${text}` : text))
      .join(", ");
  }

  /** The value at the cursor, or the last one, exactly; "" if there is none. */
  point(at: number | null): string {
    const { curve, name } = this,
      index = at === null ? curve.y.length - 1 : pointAt(curve, at),
      value = curve.y[index];
    this.value.textContent = value === undefined ? "–" : at === null ? brief(value) : exact(value);
    this.value.classList.toggle("rfnb-curves-bad", value !== undefined && !Number.isFinite(value));
    const elsewhere = at !== null && curve.x[index] !== at ? `at ${name} ${exact(curve.x[index] ?? NaN)}` : "";
    this.where.textContent = value === undefined ? "" : at === null ? (this.alone ? "last" : "") : elsewhere;
    return value === undefined ? "" : exact(value);
  }
}

/** A line of text, and the plot. */
export class Panel {
  readonly element: HTMLElement;
  private readonly label = h("b.rfnb-curves-label");
  private readonly unit = h("span.rfnb-quiet");
  private readonly beside = h("span.rfnb-curves-beside");
  private readonly runs = h("div.rfnb-curves-runs");
  private readonly logButton = button(
    "log",
    () => {
      this.logs.set(this.key, !this.logged);
      this.redraw();
    },
    { "data-do": "log" },
  );
  private readonly plot = svg("svg.rfnb-curves-plot", { "aria-hidden": "true" });
  private readonly cursor = svg("g.rfnb-curves-cursor");
  private curves: Curve[] = [];
  private values: Values[] = [];
  private axis!: Axis;
  private scale: Scale | null = null;
  private height = 0;
  private peers: Curve[] = []; // curves with the same scale
  private groups = new Map<Curve, SVGGElement>();
  private readonly lines = svg("g");
  private readonly ends = svg("g.rfnb-curves-ends");
  private hot: Curve | null | undefined;

  constructor(
    private readonly redraw: () => void,
    private readonly logs: Map<string, boolean>, // the person's choice, by group with one scale
  ) {
    const fill = h("span.rfnb-curves-fill");
    const head = h("div.rfnb-curves-head", this.label, this.unit, fill, this.beside, this.logButton);
    this.element = h("div.rfnb-curves-panel", head, this.runs);
    this.element.append(this.plot);
  }

  get top(): SVGSVGElement {
    return this.plot;
  }

  /** The curve nearest to a height. */
  nearest(at: number, clientY: number): Curve | null {
    const y = clientY - this.plot.getBoundingClientRect().top - 5;
    if (this.strip) return this.curves[Math.floor(y / ROW)] ?? null;
    let found: Curve | null = null,
      least = Infinity;
    for (const curve of this.curves) {
      const value = curve.y[pointAt(curve, at)],
        far = value === undefined ? NaN : Math.abs(this.py(value) - y);
      if (far < least) [found, least] = [curve, far];
    }
    return this.curves.length > 1 ? found : null;
  }

  private get positive(): boolean {
    const some = this.peers.filter(({ y }) => y.length);
    return some.length > 0 && some.every(({ positive }) => positive);
  }

  private get key(): string {
    return keyOf(this.curves[0]!) ?? `alone ${this.curves[0]!.label}`;
  }

  private get logged(): boolean {
    return this.positive && (this.logs.get(this.key) ?? this.peers.some(({ log }) => log));
  }

  private get alone(): boolean {
    return this.curves.length === 1 && this.curves[0]!.run === null;
  }

  private get strip(): boolean {
    return this.curves.length > 1 && this.curves[0]!.strip;
  }

  private get many(): boolean {
    return this.curves.length > STYLED;
  }

  /** The space for names at the ends of lines. */
  get right(): number {
    const names = this.curves.length > 1 && !this.strip ? this.curves.map(({ own }) => textWidth(cut(own)) + 18) : [];
    return Math.max(RIGHT, ...names);
  }

  /** The scale of y, common to all `peers`, and the width of its labels. */
  measure(curves: Curve[], height: number, peers: Curve[]): number {
    this.curves = curves;
    this.peers = peers;
    this.height = this.strip ? ROW * curves.length : height;
    this.scale = scaleOf(
      { y: peers.flatMap(({ y }) => Array.from(y)), positive: this.positive },
      this.logged,
      height > 110 ? 4 : 3,
    );
    const texts = this.strip ? curves.map(({ own }) => cut(own)) : (this.scale?.ticks ?? []).map(({ text }) => text);
    return Math.max(0, ...texts.map(textWidth));
  }

  draw(axis: Axis, last: boolean, live: boolean): void {
    const { curves, scale, height, plot } = this,
      { label: own, unit, panel } = curves[0]!,
      label = curves.length > 1 && panel !== null ? panel : own;
    this.axis = axis;
    const { left, width } = axis,
      right = width - axis.right;
    this.label.textContent = label;
    this.unit.textContent = [unit === label ? "" : unit, this.many ? `${curves.length} series` : ""]
      .filter(Boolean)
      .join(", ");
    this.drawValues();
    this.logButton.style.visibility = this.positive ? "" : "hidden"; // keeps its space, so that values stay aligned
    set(this.logButton, "aria-pressed", this.logged);
    set(this.logButton, "aria-label", `log axis for ${label}`);
    this.logButton.title = this.logged ? "logarithmic axis" : "show on a logarithmic axis";
    set(plot, "width", width);
    set(plot, "height", height + (last ? AXIS : 0) + 6);
    const grid = svg("g.rfnb-curves-grid"),
      ticks = svg("g.rfnb-curves-ticks"),
      marks = svg("g", { transform: "translate(0 5)" });
    for (const { value } of axis.x.ticks) grid.append(svg("path", { d: `M${this.px(value)} 0v${height}` }));
    if (last) this.drawAxis(ticks, axis);
    for (const { value, text } of this.strip ? [] : (scale?.ticks ?? [])) {
      const y = this.py(value);
      grid.append(svg("path", { d: `M${left} ${y}H${right}`, class: text ? "rfnb-curves-strong" : "" }));
      if (text) ticks.append(svg("text", { x: left - 7, y: y + 3.8, "text-anchor": "end" }, text));
    }
    marks.append(grid, svg("path.rfnb-curves-base", { d: `M${left} ${height}H${right}` }), ticks);
    this.groups.clear();
    this.lines.replaceChildren();
    this.hot = undefined;
    this.ends.replaceChildren();
    marks.append(this.lines);
    if (scale && this.strip) this.drawStrip(scale);
    else if (scale) for (const curve of curves) this.drawCurve(this.lines, curve, live);
    else
      marks.append(
        svg(
          "text",
          { x: (left + right) / 2, y: height / 2 + 4, "text-anchor": "middle", class: "rfnb-curves-none" },
          this.nothing(live),
        ),
      );
    marks.append(this.ends, this.cursor);
    plot.replaceChildren(marks);
  }

  /** The numbers beside the label; with several runs a line for each, with its style. */
  private drawValues(): void {
    this.values = this.curves.map((curve) => new Values(curve, this.axis.name, this.alone));
    const [alone] = this.alone ? this.values : [];
    this.beside.replaceChildren(...(alone?.elements ?? []));
    if (this.many) {
      const broken = brokenOf(this.curves, this.axis.name);
      this.runs.replaceChildren(...(broken ? [h("span.rfnb-curves-broken", broken)] : []));
      return;
    }
    this.runs.replaceChildren(
      ...(alone
        ? []
        : this.curves.map(({ own, style }, index) => {
            const { hue, dash, mark } = look(style),
              picture = svg("svg.rfnb-curves-swatch", { width: 24, height: 10, "aria-hidden": "true" });
            picture.append(
              svg("path", { d: "M0 5h24", class: "rfnb-curves-line", "stroke-dasharray": dash }),
              svg("path.rfnb-curves-mark", { d: `M12 5${mark}` }),
            );
            return h("span", { class: `rfnb-curves-run ${hue}` }, picture, own, ...this.values[index]!.elements);
          })),
    );
  }

  private drawAxis(ticks: SVGGElement, { x, name, left, width, inGutter }: Axis): void {
    const end = width - this.axis.right,
      y = this.height + 16;
    const most = inGutter ? width : end - textWidth(name) - 8;
    for (const { value, text } of x.ticks) {
      const at = this.px(value);
      if (at + textWidth(text) / 2 < most) ticks.append(svg("text", { x: at, y, "text-anchor": "middle" }, text));
    }
    const own = inGutter ? { x: left - 16, y } : { x: end, y };
    ticks.append(svg("text.rfnb-curves-name", { ...own, "text-anchor": "end" }, name));
  }

  private drawCurve(all: SVGGElement, curve: Curve, live: boolean): void {
    const { height } = this,
      { alone, many } = this,
      since = nanSince(curve),
      { hue, dash, mark } = look(Math.max(0, curve.style)),
      marks = svg("g", alone ? {} : { class: many ? "rfnb-curves-grey" : hue });
    all.append(marks);
    this.groups.set(curve, marks);
    if (since >= 0 && !alone) {
      // The others continue.
      const at = pointAt(curve, curve.x[since]!) - 1;
      if (at >= 0 && Number.isFinite(curve.y[at]!))
        marks.append(
          svg("path.rfnb-curves-stop", {
            d: `M${this.px(curve.x[at]!)} ${this.py(curve.y[at]!)}m-3.5 -3.5l7 7m0 -7l-7 7`,
          }),
        );
    } else if (since >= 0) {
      const x = this.px(curve.x[since]!),
        width = Math.max(2, this.axis.width - this.axis.right - x);
      marks.append(svg("rect.rfnb-curves-band", { x, y: 0, width, height }));
    }
    const px = (x: number) => this.px(x),
      py = (y: number) => this.py(y),
      paths = pathsOf(curve, px, py, height),
      band = bandOf(curve),
      line = (d: string) =>
        svg("path", { d, class: "rfnb-curves-line", "stroke-dasharray": alone || many ? "" : dash });
    if (band) marks.append(svg("path.rfnb-curves-band-of", { d: bandPath(band, px, py) }));
    else if (paths.mean) marks.append(svg("path.rfnb-curves-range", { d: paths.line }), line(paths.mean));
    else marks.append(line(paths.line));
    if (band) this.say(`a band from the least to the largest of each ${curve.thin!.every} of ${curve.thin!.of} points`);
    else if (paths.mean) this.say("mean, with the range behind it");
    if ((alone || many) && !band) marks.append(svg("path.rfnb-curves-dots", { d: many ? "" : paths.dots }));
    else if (!alone && !many) {
      const d = marked(curve).map((at) => `M${this.px(curve.x[at]!)} ${this.py(curve.y[at]!)}${mark}`);
      marks.append(svg("path.rfnb-curves-mark", { d: d.join("") }));
    }
    for (const d of [paths.up, paths.down]) if (d) marks.append(svg("path.rfnb-curves-infinite", { d }));
    const last = curve.y.length - 1;
    if (live && !many && Number.isFinite(curve.y[last]!)) {
      const at = { cx: this.px(curve.x[last]!), cy: this.py(curve.y[last]!) };
      marks.append(svg("circle.rfnb-curves-halo", { ...at, r: 6.5 }), svg("circle.rfnb-curves-end", { ...at, r: 3 }));
    }
    if (curve.best >= 0 && last > 0 && !many)
      marks.append(
        svg("circle", {
          cx: this.px(curve.x[curve.best]!),
          cy: this.py(curve.y[curve.best]!),
          r: 3.6,
          class: "rfnb-curves-ring",
        }),
      );
  }

  /** A row of cells for each curve, coloured by the distance from the smallest value, or from 0 if some are negative. */
  private drawStrip(scale: Scale): void {
    const known = this.peers.flatMap(({ y }) => Array.from(y).filter(Number.isFinite)),
      [low, high] = known.reduce(([a, b], y) => [Math.min(a, y), Math.max(b, y)], [Infinity, -Infinity]),
      most = Math.max(-low, high);
    this.curves.forEach((curve, index) => {
      const top = index * ROW,
        row = svg("g.rfnb-curves-row"),
        missing = odd(curve, this.axis.name).length,
        name = svg("text", { x: this.axis.left - 7, y: top + 10, "text-anchor": "end" }, cut(curve.own));
      if (missing) name.classList.add("rfnb-curves-bad");
      row.append(name);
      for (const [level, d] of cellsOf(
        curve,
        (x) => Math.min(this.axis.width - this.axis.right, Math.max(this.axis.left, this.px(x))),
        (y) => (low < 0 ? y / most : share(scale, y)),
        top,
      ))
        row.append(
          svg("path", {
            d,
            class: low < 0 && level > 0 ? "rfnb-curves-above" : "",
            "fill-opacity": Math.abs(level) / LEVELS,
          }),
        );
      for (let at = 0; missing && at < curve.y.length; at++)
        if (!Number.isFinite(curve.y[at]!))
          row.append(svg("path.rfnb-curves-stop", { d: `M${this.px(curve.x[at]!) - 3} ${top + 3}l6 6m0 -6l-6 6` }));
      this.groups.set(curve, row);
      this.lines.append(row);
    });
    this.say(`${brief(low)} to ${brief(high)}`);
  }

  /** Describes lines that are not drawn point by point beside the unit, once for several runs. */
  private say(words: string): void {
    const now = this.unit.textContent ?? "";
    if (!now.includes(words)) this.unit.textContent = now ? `${now}, ${words}` : words;
  }

  private nothing(live: boolean): string {
    const count = this.curves.reduce((sum, { y }) => sum + y.length, 0);
    return count ? `no finite value in ${count} point${count === 1 ? "" : "s"}` : `no points${live ? " yet" : ""}`;
  }

  /** The highlighted curve, and the names at the ends of lines: its own, then those of broken curves, then others. */
  private stress(hot: Curve | null): void {
    if (hot === this.hot) return;
    this.hot = hot;
    for (const [curve, group] of this.groups) group.classList.toggle("rfnb-curves-hot", curve === hot);
    const front = hot && this.groups.get(hot);
    if (front) this.lines.append(front);
    if (this.curves.length < 2 || !this.scale || this.strip) return this.ends.replaceChildren();
    const rank = (curve: Curve) => (curve === hot ? 0 : nanSince(curve) >= 0 ? 1 : 2),
      order = [...this.curves].sort((a, b) => rank(a) - rank(b)),
      placed = endsOf(order, (y) => this.py(y), this.height);
    this.ends.replaceChildren(
      ...placed.map(([curve, y]) =>
        svg(
          "text",
          {
            x: this.px(curve.x[lastOf(curve)]!) + 7,
            y: y + 4,
            class: `${curve === hot ? "rfnb-curves-hot" : ""} ${this.many ? "" : look(curve.style).hue}`,
          },
          cut(curve.own),
        ),
      ),
    );
  }

  /** The values at the cursor, or the last ones. */
  point(at: number | null, hot: Curve | null): void {
    const { curves, axis, cursor } = this;
    this.stress(hot && (curves.find(({ name }) => name === hot.name) ?? null));
    this.element.dataset["value"] = this.values.map((values) => values.point(at)).join(" ");
    cursor.replaceChildren();
    if (at === null) return;
    const x = this.px(at);
    cursor.append(svg("path.rfnb-curves-hair", { d: `M${x} 0V${this.height}` }));
    const row = this.strip && this.hot ? curves.indexOf(this.hot) : -1;
    if (row >= 0)
      cursor.append(
        svg("path.rfnb-curves-hair", {
          d: `M${axis.left} ${row * ROW}H${axis.width - axis.right}v${ROW - 1}H${axis.left}z`,
        }),
      );
    for (const curve of this.strip ? [] : this.many ? curves.filter((curve) => curve === this.hot) : curves) {
      const index = pointAt(curve, at),
        value = curve.y[index];
      if (value !== undefined && Number.isFinite(value))
        cursor.append(svg("circle.rfnb-curves-here", { cx: this.px(curve.x[index]!), cy: this.py(value), r: 4 }));
    }
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
    return (
      Math.round((this.axis.left + share(this.axis.x, x) * (this.axis.width - this.axis.left - this.axis.right)) * 10) /
      10
    );
  }
  private py(y: number): number {
    return this.scale ? Math.round((1 - share(this.scale, y)) * this.height * 10) / 10 : 0;
  }
}
