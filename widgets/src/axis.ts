// Column labels: which of them fit, and how they are drawn above a picture that may be scrolled.

import { times } from "./list";
import { within, write } from "./canvas";
import type { Measure } from "./labels";
import { drawn, shorten } from "./labels";
import type { Scene } from "./pane";
import type { Palette } from "./theme";

export interface Label {
  index: number;
  text: string;
}
export interface Columns {
  cell: number; // width of a column
  top: number; // height of the labels
  right: number; // space beside the last column, for a slanted label
  turn: "none" | "slanted" | "upright";
  cols: Label[]; // those that fit
}

export const LINE = 13;
const CELL_MOST = 38,
  LONGEST = 120;

/** Whole pixels if the difference in size is invisible, for sharp cells. */
export function cellSize(fit: number, zoom: number, most = CELL_MOST): number {
  const cell = Math.min(most, Math.max(0.01, fit)) * zoom;
  return cell >= 4 ? Math.floor(cell) : cell;
}

export const labelsOf = (count: number, of: (index: number) => string): string[] =>
  times(count, (index) => shorten(of(index)));

/** The width of the widest text; of very many texts only the longest are measured. */
export function widest(all: string[], measure: Measure): number {
  const some = all.length <= 200 ? all : [...new Set(all)].sort((a, b) => b.length - a.length).slice(0, 50);
  return Math.min(
    LONGEST,
    some.reduce((most, text) => Math.max(most, measure(text)), 0),
  );
}

/** Whether labels are never rotated: numbers, of which some imply the others, and single letters, which need as much space upright. */
const stays = (texts: string[], room: number): boolean =>
  room <= LINE || texts.every((text) => /^\d+([.]\d+)?$/.test(text));

/** Horizontal labels if they fit or are never rotated, then slanted, then upright and thinned. `fit`: the cells, given the space of the labels. */
export function columns<Fit extends { cell: number }>(
  texts: string[],
  measure: Measure,
  fit: (top: number, right: number) => Fit,
): Fit & Columns {
  const room = widest(texts, measure),
    slant = Math.ceil(room * Math.SQRT1_2),
    flat = stays(texts, room);
  let turn: Columns["turn"] = "none",
    top = LINE * 2 + 8,
    right = 4,
    made = fit(top, right);
  if (!flat && room + 6 > made.cell) {
    turn = "slanted";
    made = fit((top += slant), (right += slant));
    if (made.cell < LINE + 2) {
      turn = "upright";
      made = fit((top = Math.ceil(room) + LINE + 14), (right = 8));
    }
  }
  const cols = drawn(texts.length, made.cell, turn === "none" ? room + (room <= LINE ? 2 : 6) : LINE - 1);
  return { ...made, turn, top, right, cols: cols.map((index) => ({ index, text: texts[index]! })) };
}

/** Draws the labels; the one at the cursor is bold, and replaces its neighbours. */
export function drawColumns(
  g: CanvasRenderingContext2D,
  scene: Scene,
  { left, top, cell, turn, cols }: Columns & { left: number },
  palette: Palette,
  strong: Label | null,
): void {
  const level = turn === "none";
  const at = (col: number) => left - scene.left + (col + 0.5) * cell;
  const put = (text: string, x: number, bold: boolean) => {
    const [font, color] = bold ? ["bold ", palette.focus] : ["", palette.ink];
    g.save();
    g.translate(x, top - (level ? 9 : 6));
    if (!level) g.rotate(turn === "slanted" ? -Math.PI / 4 : -Math.PI / 2);
    write(g, text, 0, 0, `${font}11px ${palette.font}`, color, level ? "center" : "left", 120);
    g.restore();
  };
  const near = !level ? LINE : cols[1] ? (cols[1].index - cols[0]!.index) * cell * 0.95 : 1;
  within(g, left - (level ? 14 : 6), 0, scene.width, top, () => {
    for (const { index, text } of cols) {
      const x = at(index);
      if (x < left + (scene.left > 0 ? 5 : -5) || x > scene.width + LINE) continue;
      if (!strong || Math.abs(x - at(strong.index)) >= near) put(text, x, false);
    }
    if (strong) put(shorten(strong.text, 18), at(strong.index), true);
  });
}
