// Draws a diff on canvases: the steps of all paths, the growth of the difference at one of them, two values and their difference.

import type { Block } from "../block";
import { image, outline, within, write } from "../canvas";
import type { Table } from "../color";
import { css, diverging, inkOn, sequential } from "../color";
import { drawn, shorten } from "../labels";
import { short } from "../number";
import type { Scene } from "../pane";
import type { Palette } from "../theme";
import type { Head, Layout, Position, Values } from "./layout";
import { ROW, share } from "./layout";

export interface Picture {
  head: Head;
  log: Block;
  made: Layout;
  palette: Palette;
  cursor: Position | null;
  linked: number | null;
  focused: boolean;
}

export function draw(g: CanvasRenderingContext2D, scene: Scene, picture: Picture): void {
  const { head, log, made, palette, cursor, linked, focused } = picture,
    { left, top, pitch } = made,
    colors = sequential(palette.dark);
  const x = (col: number) => left + col * pitch - scene.left,
    y = (row: number) => top + row * ROW - scene.top;
  const rows = [
    Math.max(0, Math.floor(scene.top / ROW)),
    Math.min(head.rows.length, Math.ceil((scene.top + scene.height) / ROW)),
  ];
  const cols = [
    Math.max(0, Math.floor(scene.left / pitch)),
    Math.min(head.cols.length, Math.ceil((scene.left + scene.width) / pitch)),
  ];
  const gap = pitch > 6 ? 1 : 0;
  within(g, left - 2, top - 2, scene.width, scene.height, () => {
    for (let row = rows[0]!; row < rows[1]!; row++) {
      for (let col = cols[0]!; col < cols[1]!; col++) {
        const value = log.at(0, row, col);
        if (Number.isNaN(value)) continue;
        g.fillStyle = css(colors, share(value));
        if (head.cols.length === 1) {
          g.fillStyle = css(colors, value > 0 ? 0.75 : 0.3);
          g.fillRect(x(0), y(row) + 3, Math.max(2, share(value) * pitch), ROW - 6);
          continue;
        }
        g.fillRect(x(col), y(row) + 1, Math.max(1, pitch - gap), ROW - 2);
        if (value > 0 && pitch >= 5) dot(g, colors, share(value), x(col) + pitch / 2, y(row) + ROW / 2);
      }
    }
    const { mark } = head;
    const frame = (at: Position, color: string, thick: number, dash: number[] = []) =>
      outline(g, x(at.col) - 1, y(at.row), Math.max(3, pitch) + 1, ROW, color, thick, dash);
    if (mark) {
      frame({ row: mark[0], col: mark[1] }, palette.warn, 2);
      write(g, "◂ first", x(head.cols.length) + 4, y(mark[0]) + ROW / 2, `bold 11px ${palette.font}`, palette.warn);
    }
    if (linked !== null && !cursor && linked < head.cols.length)
      outline(g, x(linked), top, Math.max(3, pitch), head.rows.length * ROW, palette.focus, 1, [4, 3]);
    if (cursor) frame(cursor, palette.focus, focused ? 2.5 : 2);
  });
  within(g, 0, top - 2, left - 2, scene.height, () => {
    for (let row = rows[0]!; row < rows[1]!; row++) {
      const differs = head.rows[row]!.first !== null,
        here = cursor?.row === row;
      const font = `${differs ? "bold " : ""}11px ${palette.font}`;
      write(
        g,
        shorten(head.rows[row]!.label, 32),
        6,
        y(row) + ROW / 2,
        font,
        here ? palette.focus : differs ? palette.ink : palette.muted,
        "left",
        left - 12,
      );
    }
  });
  within(g, left - 2, 0, scene.width, top - 2, () => {
    for (const col of drawn(head.cols.length, pitch, 30))
      write(
        g,
        shorten(head.cols[col]!, 8),
        x(col) + Math.min(pitch / 2, 10),
        top / 2,
        `11px ${palette.font}`,
        palette.muted,
        "center",
      );
  });
}

/** A dot in a cell that is beyond the tolerance. */
function dot(g: CanvasRenderingContext2D, colors: Table, at: number, x: number, y: number): void {
  g.fillStyle = inkOn(colors, at);
  g.fillRect(x - 1.5, y - 1.5, 3, 3);
}

const LOW = -3,
  HIGH = 5;

/** The differences of one path over the steps, with the line of the tolerance. */
export function drawGrowth(
  g: CanvasRenderingContext2D,
  { width, height }: { width: number; height: number },
  log: (col: number) => number,
  cols: number,
  at: number,
  palette: Palette,
): void {
  const left = 62,
    room = height - 12,
    font = `11px ${palette.font}`;
  const y = (value: number) => 6 + ((HIGH - Math.max(LOW, Math.min(HIGH, value))) / (HIGH - LOW)) * room,
    x = (col: number) => left + 4 + (col / Math.max(1, cols - 1)) * (width - left - 12);
  for (const [value, text] of [
    [HIGH, "≥ 10⁵ ×"],
    [0, "tolerance"],
    [LOW, "≤ 1/1000"],
  ] as const) {
    write(g, text, left - 2, y(value), font, palette.muted, "right");
    g.strokeStyle = value ? palette.line : palette.warn;
    g.lineWidth = 1;
    g.setLineDash(value ? [] : [4, 3]);
    g.beginPath();
    g.moveTo(left, y(value));
    g.lineTo(width - 4, y(value));
    g.stroke();
  }
  g.setLineDash([]);
  g.strokeStyle = g.fillStyle = palette.accent;
  g.lineWidth = 1.5;
  g.beginPath();
  let before = false;
  for (let col = 0; col < cols; col++) {
    const value = log(col);
    const alone = !before && !(col + 1 < cols && !Number.isNaN(log(col + 1)));
    if (Number.isNaN(value)) {
      before = false;
      continue;
    }
    if (before) g.lineTo(x(col), y(value));
    else g.moveTo(x(col), y(value));
    before = true;
    if (cols <= 80 || alone) g.fillRect(x(col) - 2, y(value) - 2, 4, 4);
  }
  g.stroke();
  if (!Number.isNaN(log(at))) outline(g, x(at) - 4, y(log(at)) - 4, 8, 8, palette.focus, 2);
}

const PANEL = 12, // between two maps
  NAME = 17; // above each

/** The positions of the three maps: side by side, or one below the other for few rows. */
export function panels(
  { rows, cols }: Values,
  width: number,
): { beside: boolean; wide: number; tall: number; height: number; place: (index: number) => { x: number; y: number } } {
  const beside = rows > 1 && cols <= 6 * rows;
  const most = beside ? (width - 2 * PANEL) / 3 : width;
  const cell = Math.min(18, most / cols);
  const tall = Math.max(beside ? 4 : 22, Math.min(200, rows * Math.max(cell, beside ? 0 : 6)));
  const place = (index: number) => (beside ? { x: index * (most + PANEL), y: 0 } : { x: 0, y: index * (tall + 20) });
  return { beside, wide: cols * cell, tall, height: (beside ? 1 : 3) * (tall + 20), place };
}

/** The cell at a point of the three maps, or null. */
export function cellAt(values: Values, width: number, x: number, y: number): Position | null {
  const { wide, tall, place } = panels(values, width),
    { rows, cols } = values;
  for (const map of [0, 1, 2].map(place)) {
    const row = Math.floor(((y - map.y - NAME) / tall) * rows),
      col = Math.floor(((x - map.x) / wide) * cols);
    if (row >= 0 && row < rows && col >= 0 && col < cols) return { row, col };
  }
  return null;
}

/** The distance of two values; 0 for equal infinities. */
export const difference = (a: number, b: number): number => (a === b ? 0 : a - b);

/** Both values and their difference. */
export function drawPair(
  g: CanvasRenderingContext2D,
  values: Values,
  [one, other]: [string, string],
  width: number,
  palette: Palette,
): void {
  const { wide, tall, place } = panels(values, width),
    { rows, cols, a, b } = values,
    colors = diverging(palette.dark);
  const apart = (row: number, col: number) => difference(a(row, col), b(row, col));
  const far = (of: (row: number, col: number) => number) => {
    let most = 0;
    for (let row = 0; row < rows; row++)
      for (let col = 0; col < cols; col++) {
        const size = Math.abs(of(row, col));
        if (size > most && size < Infinity) most = size;
      }
    return most || 1;
  };
  const size = Math.max(far(a), far(b));
  const all: [string, (row: number, col: number) => number, number][] = [
    [one, a, size],
    [other, b, size],
    [`${one} − ${other}`, apart, far(apart)],
  ];
  for (const [index, [name, value, most]] of all.entries()) {
    const { x, y } = place(index);
    write(g, `${shorten(name, 40)}  ±${short(most)}`, x, y + 8, `11px ${palette.font}`, palette.muted);
    const made = image({ rows, cols, value }, colors, (v) => 0.5 + v / most / 2, { rows, cols });
    g.imageSmoothingEnabled = false;
    if (made) g.drawImage(made, x, y + NAME, wide, tall);
    outline(g, x, y + NAME, wide, tall, palette.line);
  }
}
