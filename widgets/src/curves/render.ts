// The curves view in the page: small panels over one axis, a vertical line through all of them at the cursor, and the values there.

import type { Context, Render } from "../context";
import { Cursor, onKeys } from "../cursor";
import { button, h, on, onResize, quiet, region, set, status } from "../dom";
import type { Frame } from "../frame";
import { exact } from "../number";
import { Shell } from "../shell";
import type { Curve, Head, Range } from "./layout";
import { Chooser } from "./choose";
import {
  abreast,
  curvesOf,
  half,
  heightOf,
  keyOf,
  nearest,
  panelsOf,
  problem,
  sentence,
  stops,
  twice,
  walk,
  within,
} from "./layout";
import type { Axis } from "./panel";
import { Panel, textWidth } from "./panel";
import { xScale } from "./scale";
import { table } from "./table";

const HINT =
  "Point at a curve, or focus the curves and use the arrow keys, Home and End. Drag over a range to zoom, or + and −; 0 shows all.";
const CHOOSE = " Up and down choose a curve.";
const MOST = 24; // initial panels, and four times as many lines in each; further series on request
const GUTTER = 70,
  BESIDE = 16, // between panels
  WIDTH_UNKNOWN = 640;

class CurvesView {
  private frame!: Frame<Head>;
  private all: Curve[] = []; // with all known points of the range
  private known: Curve[] = []; // those in the frame
  private curves: Curve[][] = []; // the drawn ones, by panel
  private range: Range | null = null;
  private most = MOST;
  private from: number | null = null; // start of a drag
  private panels: Panel[] = [];
  private at: number[] = []; // the stops of the cursor
  private axis: Axis | null = null;
  private room = -1;
  private readonly cursor = new Cursor<number>(() => this.point());
  private hot: Curve | null = null; // highlighted in its panel
  private apart = false;
  private readonly logs = new Map<string, boolean>();

  private readonly running = h("span.rfnb-curves-running");
  private readonly apartButton = button(
    "Apart",
    () => {
      this.apart = !this.apart;
      this.choose();
    },
    { "data-do": "apart", title: "one panel per curve, with the same axis for the same unit" },
  );
  private readonly whole = button("Show all steps", () => this.zoom(null), { "data-do": "all" });
  private readonly more = button(
    "",
    () => {
      this.most += MOST;
      this.choose();
    },
    { "data-do": "more" },
  );
  private readonly brush = h("div.rfnb-curves-brush", { "aria-hidden": "true", hidden: "" });
  private readonly stage = h("div.rfnb-curves-stage", {
    tabindex: "0",
    role: "application",
    "aria-roledescription": "curves",
    "data-lm-suppress-shortcuts": "true",
  });
  private readonly readout = status();
  private readonly chooser = new Chooser(() => this.axis && this.choose());
  private readonly tableBox = region("div.rfnb-table", "curves as a table");
  private readonly tableButton = button("Table", () => this.toggleTable(), {
    "aria-pressed": "false",
    "data-do": "table",
  });
  private readonly body = h(
    "div.rfnb-curves",
    this.chooser.element,
    this.stage,
    this.tableBox,
    this.more,
    this.readout,
  );
  private readonly shell: Shell;
  private readonly unwatch: () => void;

  constructor(
    private readonly el: HTMLElement,
    private readonly ctx: Context,
  ) {
    this.shell = new Shell(el, [this.running, this.whole, this.apartButton, this.tableButton], this.body);
    on(this.stage, "pointerdown", (event) => {
      this.from = event.button === 0 ? this.stopAt(event) : null;
      if (this.from !== null) this.under(event).element.append(this.brush);
    });
    on(this.stage, "pointerup", (event) => this.drop(event));
    on(this.stage, "dblclick", () => this.zoom(null));
    on(this.stage, "pointermove", (event) => {
      const at = this.stopAt(event),
        hot = at === null ? null : this.under(event).nearest(at, event.clientY);
      if (hot && hot !== this.hot) {
        this.hot = hot;
        this.point();
      }
      this.cursor.hover(at);
      this.showBrush(event.buttons ? this.cursor.hovered : null);
    });
    on(this.stage, "pointerleave", () => {
      this.from = null;
      this.showBrush(null);
      this.cursor.hover(null);
    });
    on(this.stage, "click", (event) => {
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
    this.all = this.known = wrong ? [] : curvesOf(frame);
    const at = (this.at = stops(this.all)),
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
    this.axis = null;
    this.chooser.offer([...new Set(this.all.map(({ label }) => label))], head.runs ?? []);
    this.complete();
  }

  /** Requests the points of the range that only the kernel has. */
  private complete(): void {
    const { range, frame, known } = this;
    this.take(known);
    this.choose();
    if (!range || !frame.head.thinned) return;
    void this.ctx.exact.frame?.({ range }).then((more) => {
      if (!more || this.range !== range || this.frame !== frame) return;
      const made = more as Frame<Head>;
      if (problem(made)) return;
      this.take(curvesOf(made));
      this.choose();
    });
  }

  private take(curves: Curve[]): void {
    this.all = curves;
    this.at = stops(curves === this.known ? curves : [...this.known, ...curves]);
  }

  /** The drawn series, within the range. */
  private choose(): void {
    const { range } = this,
      ticked = this.all.filter(({ label, run }) => this.chooser.has(label, run)),
      wanted = panelsOf(ticked, this.apart),
      shown = wanted.slice(0, this.most).map((curves) => curves.slice(0, 4 * this.most)),
      left = ticked.length - shown.flat().length;
    this.apartButton.hidden = !this.apart && wanted.every(({ length }) => length < 2);
    set(this.apartButton, "aria-pressed", this.apart);
    this.hot = this.all.find(({ name }) => name === this.hot?.name) ?? null;
    this.curves = shown.map((curves) => (range ? curves.map((curve) => within(curve, range)) : curves));
    this.more.hidden = !left;
    this.more.textContent = `Show ${Math.min(left, MOST)} more (${shown.flat().length} of ${ticked.length} series are drawn)`;
    this.chooser.say([...new Set(shown.flat().map(({ label }) => label))]);
    this.whole.hidden = !range;
    this.redraw();
  }

  private toggleTable(): void {
    const shown = this.tableBox.hidden;
    this.tableBox.hidden = !shown;
    this.stage.hidden = shown;
    set(this.tableButton, "aria-pressed", shown);
    this.redraw();
  }

  private zoom(range: Range | null): void {
    this.range = range;
    this.el.dataset["range"] = range ? range.map(exact).join(" ") : "";
    if (range && this.cursor.pinned !== null && (this.cursor.pinned < range[0] || this.cursor.pinned > range[1]))
      this.cursor.pinned = null;
    this.complete();
  }

  /** Zooms to the dragged range. */
  private drop(event: PointerEvent): void {
    const { from } = this,
      to = this.stopAt(event);
    this.from = null;
    this.showBrush(null);
    if (from !== null && to !== null && from !== to) this.zoom([Math.min(from, to), Math.max(from, to)]);
  }

  private showBrush(to: number | null): void {
    const { from, axis } = this;
    this.brush.hidden = from === null || to === null || from === to || !axis;
    if (this.brush.hidden || !axis) return;
    const [a, b] = [from!, to!]
      .sort((x, y) => x - y)
      .map((x) => axis.left + ((x - axis.x.low) / (axis.x.high - axis.x.low)) * (axis.width - axis.left - axis.right));
    this.brush.style.left = `${a}px`;
    this.brush.style.width = `${b! - a!}px`;
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
      { range } = this;
    if (!this.at.length) return;
    const at = range ? this.at.filter((x) => x >= range[0] && x <= range[1]) : this.at;
    if (!at.length) return this.zoom(null); // a new frame has no point there
    this.room = this.available();
    while (this.panels.length > this.curves.length) this.panels.pop()!.element.remove();
    while (this.panels.length < this.curves.length) {
      const panel = new Panel(() => this.redraw(), this.logs);
      this.panels.push(panel);
      this.stage.append(panel.element);
    }
    const cols = abreast(
        this.curves.length,
        this.room,
        this.apart,
        this.curves.some(({ length }) => length > 1),
      ),
      height = heightOf(Math.ceil(this.curves.length / cols)),
      width = Math.floor((this.room - (cols - 1) * BESIDE) / cols);
    this.stage.style.gridTemplateColumns = `repeat(${cols}, minmax(0, 1fr))`;
    this.stage.classList.toggle("rfnb-curves-abreast", cols > 1);
    const name = head.x ?? "step",
      live = !!head.live,
      inGutter = textWidth(name) <= GUTTER;
    const left =
      Math.ceil(
        Math.max(
          inGutter ? textWidth(name) + 9 : 26,
          ...this.panels.map((panel, index) => {
            const curves = this.curves[index]!,
              key = keyOf(curves[0]!);
            return panel.measure(
              curves,
              height,
              key === null ? curves : this.curves.flat().filter((one) => keyOf(one) === key),
            );
          }),
        ),
      ) + 10;
    const right = Math.max(...this.panels.map((panel) => panel.right)),
      x = xScale(at, width - left - right, textWidth)!;
    this.axis = { x, left, right, width, name, at, inGutter };
    if (!this.tableBox.hidden) this.tableBox.replaceChildren(table(this.curves.flat(), name, at));
    this.panels.forEach((panel, index) => panel.draw(this.axis!, index >= this.panels.length - cols, live));
    const last = exact(at[at.length - 1]!);
    this.running.textContent = `${live ? "running, " : ""}${name} ${range ? `${exact(at[0]!)} to ${last}` : last}`;
    set(
      this.stage,
      "aria-label",
      `${head.title ?? "Curves"}: ${this.curves.flatMap((some) => some.map(({ name }) => name)).join(", ")} over ${name} ${exact(at[0]!)} to ${exact(at[at.length - 1]!)}`,
    );
    this.point();
  }

  /** The panel under the pointer, else the first one. */
  private under({ clientX, clientY }: MouseEvent): Panel {
    const far = ({ element }: Panel) => {
      const { left, right, top, bottom } = element.getBoundingClientRect();
      return Math.max(left - clientX, clientX - right, 0) + Math.max(top - clientY, clientY - bottom, 0);
    };
    return this.panels.reduce((best, panel) => (far(panel) < far(best) ? panel : best));
  }

  private stopAt(event: MouseEvent): number | null {
    const { axis } = this,
      plot = this.panels.length ? this.under(event).top : undefined;
    if (!axis || !plot || (event.target as Element | null)?.closest?.("button")) return null;
    const x = event.clientX - plot.getBoundingClientRect().left;
    const from = (x - axis.left) / (axis.width - axis.left - axis.right);
    return from < -0.04 || from > 1.04 ? null : nearest(axis.at, axis.x.low + from * (axis.x.high - axis.x.low));
  }

  private key({ key, ctrlKey, target }: KeyboardEvent): boolean {
    if (ctrlKey || target !== this.stage || !this.axis) return false;
    if ("+=-−0".includes(key)) {
      const { at } = this.axis,
        now: Range = [at[0]!, at.at(-1)!];
      const next =
        key === "0" ? null : "+=".includes(key) ? (half(at, now, this.cursor.at) ?? this.range) : twice(this.at, now);
      this.zoom(next);
      return true;
    }
    const several = this.curves.filter(({ length }) => length > 1).flat(),
      step = { ArrowUp: -1, ArrowDown: 1 }[key];
    if (step && several.length) {
      const now = several.findIndex((curve) => curve.name === this.hot?.name);
      this.hot = several[now < 0 ? 0 : (now + step + several.length) % several.length]!;
      if (this.cursor.at === null) this.cursor.pin(this.axis.at.at(-1)!);
      else this.point();
      return true;
    }
    const to = key === "Escape" ? null : walk(this.axis.at, this.cursor.at, key);
    if (to === null && key !== "Escape") return false;
    this.cursor.pin(to);
    return true;
  }

  private point(): void {
    const cursor = this.cursor.at,
      { axis } = this;
    for (const panel of this.panels) panel.point(cursor, this.hot);
    this.el.dataset["hot"] = this.hot?.name ?? "";
    this.el.dataset["cursor"] = cursor === null ? "" : exact(cursor);
    const words =
      cursor === null || !axis
        ? HINT + (this.curves.some(({ length }) => length > 1) ? CHOOSE : "")
        : sentence(this.curves.flat(), axis.name, cursor, this.hot);
    if (this.readout.textContent === words) return; // unchanged text is not read out again
    this.readout.replaceChildren(cursor === null ? quiet(words) : words);
  }
}

export const render: Render<Head> = (el, frame, ctx) => {
  const view = new CurvesView(el, ctx);
  view.update(frame);
  return view;
};
