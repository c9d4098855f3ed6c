// The overview of all maps on one canvas, to choose from: one number per head, the order, and what rows stand for.

import { haloed, hatch, image, outline, write } from "../canvas";
import type { Table } from "../color";
import type { Context } from "../context";
import { h, on, slider, status } from "../dom";
import type { Frame } from "../frame";
import { measurer } from "../labels";
import { context } from "../canvas";
import { percent, share, short } from "../number";
import type { Scene, Spot } from "../pane";
import { Pane } from "../pane";
import type { By, Choice, Grid, GridLayout, Item, Order } from "./grid";
import { gridOf, hitGrid, layoutGrid, rowsBy, same, walkGrid, wordOf } from "./grid";
import type { Head, Matrix, Scale } from "./matrix";
import { matrixOf, meanOf } from "./matrix";

const MOST_HEIGHT = 520,
  BUDGET = 8; // milliseconds per frame for maps that are not drawn yet
const WORDS: Record<By, string> = { layer: "layers", seq: "sequences", step: "steps" };
const ORDERS: [Order, string][] = [
  ["place", "in place"],
  ["high", "highest first"],
  ["low", "lowest first"],
  ["looks", "by where they look"],
];
/** Explanations of the badges. */
const MEANINGS: Record<string, string> = {
  entropy: "entropy of a row, as a share of that of uniform weights",
  diagonal: "how much nearer to the diagonal than uniform weights: 1 on it, 0 no nearer",
  first: "weight on the first position",
  last: "weight on the last position",
  padding: "most weight of a row on padding or masked positions: should be 0",
  change: "difference to the same head of the layer before: 0 the same, 1 nothing in common",
};

/** The badges that are fractions and need no explanation. */
const SHARES: Record<string, string> = {
  entropy: "as spread as even weights",
  first: "on the first position",
  last: "on the last position",
  padding: "on padding",
};

const labelled = (text: string, element: HTMLElement) => h("label.rfnb-choice", `${text} `, element);

export class Overview {
  readonly element = h("div.rfnb-heads");
  private frame!: Frame<Head>;
  private chosen!: Choice;
  private scale!: Scale;
  private colors!: Table;
  private grid!: Grid;
  private made!: GridLayout;
  private hovered: Item | null = null;
  private by: By | null = null;
  private started = false;
  private images = new Map<string, HTMLCanvasElement | null>();
  private before = new Map<string, HTMLCanvasElement | null>();
  private readonly rows = h("select");
  private readonly badge = h("select");
  private readonly order = h("select", ...ORDERS.map(([value, text]) => h("option", { value }, text)));
  private readonly least = slider({ min: "0", max: "1", step: "0.05", value: "0" }, () => this.change());
  private readonly leastText = h("span.rfnb-quiet");
  private readonly rowsBox = labelled("rows", this.rows);
  private readonly badgeBox = labelled("number", this.badge);
  private readonly orderBox = labelled("order", this.order);
  private readonly leastBox = labelled("at least", h("span", this.least, this.leastText));
  private readonly status = status("div.rfnb-heads-status");
  private readonly pane: Pane;

  constructor(
    private readonly ctx: Context,
    private readonly choose: (choice: Choice) => void,
    private readonly remove: () => void, // removes the chosen map from the run
  ) {
    const at = ({ x, y, left, top }: Spot) => hitGrid(this.made, x + left, y + top);
    this.pane = new Pane(
      {
        layout: (width) => this.layout(width),
        paint: (g, scene) => this.paint(g, scene),
        hover: (spot) => this.hover(spot && at(spot)),
        click: (spot) => {
          const item = at(spot);
          if (item) this.choose(item);
        },
        key: (event) => this.key(event),
      },
      MOST_HEIGHT,
      { role: "grid", "aria-readonly": "true", class: "rfnb-sheet" },
    );
    const tools = h("div.rfnb-tools", this.rowsBox, this.badgeBox, this.orderBox, this.leastBox);
    this.element.append(tools, h("div.rfnb-heads-stage", this.pane.element), this.status);
    on(this.rows, "change", () => this.change(() => (this.by = this.rows.value as By)));
    for (const control of [this.badge, this.order]) on(control, "change", () => this.change());
  }

  /** Whether there are several maps to choose from. */
  static needed(head: Head, hasChooser: boolean): boolean {
    return head.maps.length > 1 || (!hasChooser && Math.max(...head.maps.map(({ seqs }) => seqs.length)) > 1);
  }

  /** Draws the maps of a frame; `fresh`: values, scale or colours have changed. */
  update(frame: Frame<Head>, chosen: Choice, scale: Scale, colors: Table, fresh: boolean): void {
    if (fresh) {
      // Drawn until a new one exists, so that a live view does not flicker; not in the colours of another theme.
      this.before = colors === this.colors ? this.images : new Map();
      this.images = new Map();
    }
    Object.assign(this, { frame, chosen, scale, colors });
    const { head } = frame,
      choices = rowsBy(head);
    if (!this.by || !choices.includes(this.by)) this.by = choices[0]!;
    const words = choices.map((by) => [by, by === "step" ? (head.slider?.name ?? WORDS.step) : WORDS[by]]);
    fill(this.rows, words as [string, string][], this.by);
    const badges = ["", ...(head.badges ?? [])];
    fill(
      this.badge,
      badges.map((name) => [name, name || "none"]),
      this.badge.value,
    );
    this.rowsBox.hidden = choices.length < 2;
    for (const box of [this.badgeBox, this.orderBox]) box.hidden = !head.badges;
    this.change();
    if (!this.started) this.pane.start();
    this.started = true;
  }

  destroy(): void {
    this.pane.destroy();
  }

  private change(first: () => void = () => {}): void {
    first();
    const { head } = this.frame;
    const badge = (head.badges ?? []).indexOf(this.badge.value),
      sorts = this.order.value === "high" || this.order.value === "low";
    if (sorts && badge < 0 && head.badges) {
      this.badge.value = head.badges[0]!;
      return this.change();
    }
    this.badge.title = MEANINGS[this.badge.value] ?? "";
    this.leastBox.hidden = badge < 0;
    const least = badge < 0 ? 0 : Number(this.least.value);
    this.leastText.textContent = least ? ` ${short(least)}` : " any";
    this.rowsBox.hidden = rowsBy(head).length < 2;
    const wanted = { by: this.by!, order: this.order.value as Order, badge, least };
    this.grid = gridOf(this.frame, this.chosen, wanted);
    this.element.dataset["order"] = wanted.order;
    if (this.started) this.pane.relayout();
    this.tell();
  }

  private layout(width: number): GridLayout {
    const { font } = this.ctx.palette();
    const measure = measurer(context(document.createElement("canvas")), `11px ${font}`);
    this.made = layoutGrid(this.grid, { width, height: MOST_HEIGHT }, measure, this.badge.value !== "");
    const { size, caption, left, top } = this.made;
    this.element.dataset["places"] = [size, caption, left, top].map(Math.round).join();
    return this.made;
  }

  private key(event: KeyboardEvent): boolean {
    if (event.ctrlKey) return false;
    if (event.key === "Delete") {
      this.remove();
      return true;
    }
    const to = walkGrid(this.made, this.chosen, event.key);
    if (!to) return false;
    this.hovered = null;
    this.choose(to);
    const place = this.made.places.find(({ item }) => same(item, this.chosen));
    const { size, caption } = this.made;
    if (place)
      this.pane.reveal({ x: place.x - 4, y: place.y - 4, width: size + 8, height: size + caption + 8 }, this.made);
    return true;
  }

  private hover(item: Item | null): void {
    if (item === this.hovered) return;
    this.hovered = item;
    this.tell();
  }

  /** The map under the pointer or the chosen one, in words. */
  private tell(): void {
    const all = this.grid.lines.flatMap(({ items }, row) =>
      items.flatMap((item, col) => (item ? [{ item, row, col }] : [])),
    );
    const now = all.find(({ item }) => same(item, this.chosen));
    const item = this.hovered ?? now?.item;
    this.status.textContent = item ? this.words(item) : "";
    const cols = Math.max(...this.grid.lines.map(({ items }) => items.length), 1);
    this.pane.say(
      `${all.length} maps to choose from`,
      now ? { row: now.row, col: now.col, rows: this.grid.lines.length, cols, text: this.words(now.item) } : null,
    );
    this.pane.paintSoon();
  }

  private words({ maps, seq, label, looks, wrong }: Item): string {
    const block = this.frame.blocks["badges"],
      names = maps.length === 1 && block ? (this.frame.head.badges ?? []) : [];
    const numbers = names.flatMap((name, index) => {
      const value = seq < block!.shape[1]! ? block!.at(maps[0]!, seq, index) : NaN;
      if (Number.isNaN(value)) return [];
      if (name in SHARES) return value ? [`${percent(value)} ${SHARES[name]}`] : [];
      return name === this.badge.value ? [`${name} ${short(value)}`] : []; // means nothing without an explanation
    });
    const where = looks && looks !== "mixed" ? [`looks ${looks}`] : [];
    return [label, ...(wrong ? ["! something is wrong"] : []), ...where, ...numbers].join(" · ");
  }

  private paint(g: CanvasRenderingContext2D, scene: Scene): void {
    const { made, chosen } = this,
      palette = this.ctx.palette(),
      font = `11px ${palette.font}`,
      until = performance.now() + BUDGET;
    g.translate(-scene.left, -scene.top);
    const { size } = made;
    let left = false;
    for (const { item, x, y } of made.places) {
      if (y + size < scene.top || y > scene.top + scene.height) continue;
      if (x + size < scene.left || x > scene.left + scene.width) continue;
      g.globalAlpha = item.faint ? 0.2 : 1;
      const ready = this.images.has(this.keyOf(item)) || performance.now() < until;
      left ||= !ready;
      if (ready || this.before.has(this.keyOf(item))) this.drawMap(g, item, x, y, size, ready);
      outline(g, x - 0.5, y - 0.5, size + 1, size + 1, palette.line);
      if (item === this.hovered) outline(g, x - 0.5, y - 0.5, size + 1, size + 1, palette.ink);
      if (item.head === chosen.head && !same(item, chosen))
        outline(g, x - 1, y - 1, size + 2, size + 2, palette.accent, 1.5, [3, 2]);
      const captions = [
        ...(made.caption > 14 ? [item.short] : []),
        ...(this.badge.value ? [Number.isNaN(item.badge) ? "–" : inBadge(item.badge)] : []),
      ];
      captions.forEach((text, line) =>
        write(g, text, x + size / 2, y + size + 8 + line * 11, `9px ${palette.font}`, palette.ink, "center", size + 4),
      );
      g.globalAlpha = 1;
      if (item.wrong) {
        Object.assign(g, { font: `bold 12px ${palette.font}`, textAlign: "center", textBaseline: "middle" });
        haloed(g, "!", x + size - 4, y + 7, palette, palette.warn);
      }
      if (same(item, chosen)) {
        outline(g, x - 1.5, y - 1.5, size + 3, size + 3, palette.paper, 4);
        outline(g, x - 1.5, y - 1.5, size + 3, size + 3, palette.focus, this.pane.focused ? 3 : 2);
      }
    }
    for (const { text, y, lone } of made.titles)
      if (lone) write(g, text, 2, y, `bold ${font}`, palette.ink);
      else write(g, text, made.left - 6, y, font, palette.ink, "right", made.left - 6);
    const every = Math.ceil((Math.max(0, ...made.columns.map(({ text }) => text.length)) * 6.5) / (size + 4)) || 1;
    made.columns.forEach(({ text, x }, index) => {
      if (index % every === 0 || text === "mean")
        write(g, text, x, made.top - 8, font, palette.ink, "center", (size + 4) * every);
    });
    if (this.grid.cols && made.columns.length) {
      const names = [wordOf(this.grid.lines.map(({ title }) => title)), wordOf(this.grid.cols)];
      if (names[0]) write(g, `${names[0]} ↓`, made.left - 6, made.top - 8, font, palette.muted, "right", made.left - 6);
      if (names[1]) write(g, `${names[1]} →`, made.left, 7, font, palette.muted);
    }
    this.element.dataset["drawn"] = String(!left);
    if (left) this.pane.paintSoon();
  }

  private drawMap(g: CanvasRenderingContext2D, item: Item, x: number, y: number, size: number, ready: boolean): void {
    const matrix = this.matrixAt(item);
    if (!matrix) return;
    const { rowLen, colLen } = matrix,
      most = Math.max(rowLen, colLen, 1);
    const [width, height] = [Math.max(5, (colLen / most) * size), Math.max(5, (rowLen / most) * size)];
    const ratio = globalThis.devicePixelRatio || 1,
      key = this.keyOf(item);
    let cells = ready ? this.images.get(key) : this.before.get(key);
    if (cells === undefined) {
      cells = thumb(matrix, this.colors, this.scale, { rows: height * ratio, cols: width * ratio });
      this.images.set(key, cells);
    }
    const [left, top] = [x + (size - width) / 2, y + (size - height) / 2];
    hatch(g, x, y, size, size, this.ctx.palette().line);
    if (!cells) return;
    g.fillStyle = this.ctx.palette().paper;
    if (!matrix.masked) g.fillRect(left, top, width, height);
    g.imageSmoothingEnabled = false;
    g.drawImage(cells, left, top, width, height);
  }

  private keyOf({ maps, seq }: Item): string {
    return `${maps.join()}/${seq}/${this.made.size}`;
  }

  private readonly matrices = new WeakMap<Item, Matrix | null>();

  private matrixAt(item: Item): Matrix | null {
    let made = this.matrices.get(item);
    if (made === undefined) {
      const known = this.images.has(this.keyOf(item)); // then only its sizes are needed
      const [first] = item.maps as [number];
      made =
        item.maps.length === 1 || known
          ? matrixOf(this.frame, first, item.seq)
          : meanOf(this.frame, item.maps, item.seq, item.label);
      this.matrices.set(item, made);
    }
    return made;
  }
}

const inBadge = (value: number): string => share(value).replace(/^(−?)0\./, "$1.");

/** A map as a small image: the largest value of each block of cells, so that no peak is lost; masked cells stay blank. */
export function thumb(
  matrix: Matrix,
  colors: Table,
  scale: Scale,
  room: { rows: number; cols: number },
): HTMLCanvasElement | null {
  const { stored, rowLen, colLen, masked, hidden } = matrix,
    { down, across } = stored;
  const open = (row: number, col: number) =>
    hidden(row * down, col * across) && hidden(Math.min(rowLen, (row + 1) * down) - 1, col * across);
  const value = masked ? (row: number, col: number) => (open(row, col) ? NaN : stored.value(row, col)) : stored.value;
  const cells = { rows: Math.ceil(rowLen / down), cols: Math.ceil(colLen / across), value };
  return image(cells, colors, scale.share, room);
}

/** The options of a select; the chosen one stays selected if it still exists. */
function fill(select: HTMLSelectElement, options: [value: string, text: string][], chosen: string): void {
  const wanted = JSON.stringify(options);
  if (select.dataset["options"] !== wanted) {
    select.replaceChildren(...options.map(([value, text]) => h("option", { value }, text)));
    select.dataset["options"] = wanted;
  }
  select.value = options.some(([value]) => value === chosen) ? chosen : (options[0]?.[0] ?? "");
}
