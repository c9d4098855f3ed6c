// Arcs from each target to the sources that carry most of its weight: two rails of tokens, and at most 2,000 lines.

import { css } from "../color";
import { sequential } from "../color";
import { write } from "../canvas";
import type { Context } from "../context";
import type { Cursor } from "../cursor";
import { h, slider } from "../dom";
import { drawn, shorten } from "../labels";
import { short } from "../number";
import type { Scene } from "../pane";
import { Pane } from "../pane";
import type { Matrix, Position } from "./matrix";
import { shared } from "./matrix";

const MOST = 2000,
  PITCH = 17,
  LEAST = 2.5,
  HEIGHT = 620,
  TOP = 22,
  RAIL = 110,
  GAP = 8,
  TELLING = 2; // times the uniform weight of a row

export interface Mark {
  row: number;
  col: number;
  value: number;
}

/** The fewest sources that carry the fraction `mass` of a row's weight; and whether the row is nearly uniform, so that its lines mean nothing. */
function ofRow(matrix: Matrix, row: number, mass: number, across: number): { own: Mark[]; even: boolean } {
  let total = 0,
    count = 0;
  const seen = (col: number): number => {
    const value = matrix.value(row, col);
    return value > 0 && value < Infinity && !matrix.hidden(row, col) ? value : 0;
  };
  for (let col = 0; col < matrix.colLen; col += across, count++) total += seen(col);
  // Smaller weights are never among them: together they are less than the remaining weight.
  const small = ((1 - mass) * total) / Math.max(1, count);
  const found: Mark[] = [];
  let open = 0;
  for (let col = 0; col < matrix.colLen; col += across) {
    const value = seen(col);
    if (value) open++;
    if (value && value >= small) found.push({ row, col, value });
  }
  found.sort((a, b) => b.value - a.value);
  const even = open > TELLING && found[0]!.value * open < TELLING * total;
  let sum = 0;
  const end = found.findIndex(({ value }) => (sum += value) >= mass * total * (1 - 1e-9));
  return { own: end < 0 ? found : found.slice(0, end + 1), even };
}

/** The lines of all rows that are not nearly uniform, at most 2,000, the strongest ones. Sources that share a value have one line. */
export function marksOf(matrix: Matrix, mass: number, most = MOST): { marks: Mark[]; all: number; even: number } {
  const marks: Mark[] = [];
  const [down, across] = shared(matrix);
  let evenly = 0;
  for (let row = 0; row < matrix.rowLen; row += down) {
    const { own, even } = ofRow(matrix, row, mass, across);
    if (even) evenly++;
    else for (const mark of own) marks.push(mark);
  }
  const all = marks.length;
  if (all > most) marks.sort((a, b) => b.value - a.value).length = most;
  return { marks, all, even: evenly };
}

export class Arcs {
  readonly element = h("div.rfnb-arcs", { hidden: "" });
  private readonly mass = slider(
    { min: "0.1", max: "0.95", step: "0.05", value: "0.5", "aria-label": "share of the weight of each row" },
    () => this.show(this.matrix),
  );
  private readonly words = h("span.rfnb-quiet");
  private readonly pane: Pane;
  private matrix: Matrix | null = null;
  private marks: Mark[] = [];
  private largest = 1;
  private width = 600;
  private pitch: [number, number] = [PITCH, PITCH];
  private at: Position | null = null;
  private started = false;

  constructor(
    private readonly ctx: Context,
    private readonly cursor: Cursor<Position>,
  ) {
    const hit = (x: number, y: number): Position | null => {
      const { matrix } = this;
      if (!matrix) return null;
      const [row, col] = [Math.floor((y - TOP) / this.pitch[0]), Math.floor((y - TOP) / this.pitch[1])];
      if (x < this.width / 2) return row >= 0 && row < matrix.rowLen ? { row, col: this.lookedAt(row) } : null;
      return col >= 0 && col < matrix.colLen ? { row: this.lookingAt(col), col } : null;
    };
    this.pane = new Pane(
      {
        layout: (width) => this.layout(width),
        paint: (g, scene) => this.paint(g, scene),
        hover: (spot) => this.cursor.hover(spot && hit(spot.x + spot.left, spot.y + spot.top)),
        click: (spot) => {
          const at = hit(spot.x + spot.left, spot.y + spot.top);
          if (at) this.cursor.pin(at);
        },
        key: (event) => this.key(event),
      },
      HEIGHT,
      { role: "application", "aria-roledescription": "arcs", class: "rfnb-sheet" },
    );
    this.element.append(
      h("div.rfnb-tools", h("label.rfnb-choice", "top ", this.mass, " "), this.words),
      h("div.rfnb-stage", this.pane.element),
    );
  }

  show(matrix: Matrix | null): void {
    this.element.hidden = !matrix;
    this.matrix = matrix;
    if (!matrix) return;
    const mass = Number(this.mass.value);
    const { marks, all, even } = marksOf(matrix, mass);
    this.marks = marks;
    const lines = marks.length,
      left = even ? `; none of the ${even} that look about evenly` : "";
    this.largest = marks.reduce((most, { value }) => Math.max(most, value), 0) || 1;
    const cut = all > marks.length ? `; the ${marks.length} strongest of ${all}` : "";
    const [down] = shared(matrix);
    this.words.textContent = `${Math.round(mass * 100)} % of the weight of each ${down > 1 ? `${down} rows, about` : "row"}: ${lines} line${lines === 1 ? "" : "s"}${cut}${left}`;
    this.element.dataset["marks"] = String(lines);
    if (this.started) this.pane.relayout();
    else this.pane.start();
    this.started = true;
  }

  point(at: Position | null): void {
    this.at = at;
    const { matrix } = this;
    if (!matrix) return;
    const own = this.of(at);
    const list = own.map(({ col, value }) => `${shorten(matrix.colLabel(col))} ${short(value)}`).join(", ");
    const about = matrix.about ? "about " : "";
    this.pane.say(
      at
        ? `${matrix.rowName} “${shorten(matrix.rowLabel(at.row))}” (${at.row}) looks at ${list ? about + list : "nothing in particular"}`
        : `${this.marks.length} lines from ${matrix.rowLen} ${matrix.rowName} to ${matrix.colLen} ${matrix.colName} positions`,
    );
    this.pane.paintSoon();
  }

  destroy(): void {
    this.pane.destroy();
  }

  /** The lines of one row. */
  private of(at: Position | null): Mark[] {
    if (!at || !this.matrix) return [];
    const [down, across] = shared(this.matrix);
    return ofRow(this.matrix, at.row - (at.row % down), Number(this.mass.value), across).own;
  }

  /** The source with the largest weight in a row. */
  private lookedAt(row: number): number {
    return this.of({ row, col: 0 })[0]?.col ?? 0;
  }

  /** The row with the largest weight on a source. */
  private lookingAt(index: number): number {
    const each = this.matrix ? shared(this.matrix)[1] : 1;
    const [first] = this.marks.filter(({ col }) => col === index - (index % each)).sort((a, b) => b.value - a.value);
    return first?.row ?? 0;
  }

  private layout(width: number): { width: number; height: number } {
    const { matrix } = this;
    this.width = Math.min(Math.max(320, width), 760);
    const tall = Math.max(matrix?.rowLen ?? 1, matrix?.colLen ?? 1, 1);
    const pitch = Math.max(LEAST, Math.min(PITCH, tall <= 400 ? PITCH : (HEIGHT - TOP) / tall));
    // The shorter side is stretched to the same height, so that lines of an alignment are level.
    const height = tall * pitch;
    this.pitch = [height / Math.max(1, matrix?.rowLen ?? 1), height / Math.max(1, matrix?.colLen ?? 1)];
    return { width: this.width, height: TOP + height + 6 };
  }

  private key(event: KeyboardEvent): boolean {
    const { matrix } = this;
    if (!matrix || event.ctrlKey) return false;
    const now = this.cursor.at?.row ?? -1,
      last = matrix.rowLen - 1;
    if (event.key === "Escape") {
      this.cursor.pin(null);
      return true;
    }
    const to = { ArrowDown: now + 1, ArrowUp: now - 1, PageDown: now + 10, PageUp: now - 10, Home: 0, End: last }[
      event.key
    ];
    if (to === undefined || last < 0) return false;
    const row = Math.max(0, Math.min(last, to));
    this.cursor.pin({ row, col: this.lookedAt(row) });
    this.pane.reveal(
      { x: 0, y: TOP + (row - 1) * this.pitch[0], width: 1, height: 3 * this.pitch[0] },
      { left: 0, top: TOP },
    );
    return true;
  }

  private paint(g: CanvasRenderingContext2D, scene: Scene): void {
    const { matrix, marks, at, pitch } = this;
    if (!matrix) return;
    const palette = this.ctx.palette(),
      colors = sequential(palette.dark),
      font = `11px ${palette.font}`;
    g.translate(-scene.left, -scene.top);
    const [left, right] = [RAIL, this.width - RAIL];
    const y = (side: 0 | 1, index: number) => TOP + (index + 0.5) * pitch[side];
    const seen = ({ row, col }: Mark) => {
      const [one, two] = [y(0, row), y(1, col)];
      return Math.max(one, two) >= scene.top && Math.min(one, two) <= scene.top + scene.height;
    };
    const lines = (own: Mark[], strong: boolean) => {
      for (const mark of own) {
        if (!seen(mark)) continue;
        const share = Math.sqrt(mark.value / this.largest);
        g.globalAlpha = strong ? 1 : at ? 0.12 : 0.25 + 0.6 * share;
        g.strokeStyle = strong ? palette.focus : css(colors, 0.35 + 0.65 * share);
        g.lineWidth = 0.6 + 3.4 * share;
        g.beginPath();
        g.moveTo(left + GAP, y(0, mark.row));
        const middle = (left + right) / 2;
        g.bezierCurveTo(middle, y(0, mark.row), middle, y(1, mark.col), right - GAP, y(1, mark.col));
        g.stroke();
      }
      g.globalAlpha = 1;
    };
    lines(marks, false);
    const own = this.of(at);
    lines(own, true);
    const picked = new Set(own.map(({ col }) => col));
    const rail = (
      side: 0 | 1,
      length: number,
      label: (index: number) => string,
      strong: (index: number) => boolean,
    ) => {
      const x = side ? right : left,
        align = side ? "left" : "right";
      const shown = new Set(drawn(length, pitch[side], 13));
      for (let index = 0; index < length; index++) {
        const bold = strong(index);
        if (
          (!shown.has(index) && !(bold && pitch[side] > 6)) ||
          y(side, index) < scene.top - 8 ||
          y(side, index) > scene.top + scene.height + 8
        )
          continue;
        write(
          g,
          shorten(label(index)),
          x,
          y(side, index),
          bold ? `bold ${font}` : font,
          bold ? palette.focus : palette.ink,
          align,
          RAIL - 6,
        );
      }
    };
    rail(0, matrix.rowLen, matrix.rowLabel, (index) => index === at?.row);
    rail(1, matrix.colLen, matrix.colLabel, (index) => picked.has(index));
    g.translate(0, scene.top);
    g.fillStyle = palette.paper;
    g.fillRect(0, 0, this.width, TOP - 4);
    write(g, `${matrix.rowName} looks`, left, 9, font, palette.muted, "right", RAIL - 6);
    write(g, `at ${matrix.colName}`, right, 9, font, palette.muted, "left", RAIL - 6);
  }
}
