// Draws a layout on a canvas: cells as one image, labels fixed at the edges, row and column of the cursor highlighted.

import { share } from "../number";
import { DASH, dots, hatch, outline, within, write } from "../canvas";
import type { Table } from "../color";
import { inkOn } from "../color";
import { drawColumns, LINE } from "../axis";
import { MARK } from "../handles";
import { shorten } from "../labels";
import type { Scene } from "../pane";
import type { Palette } from "../theme";
import type { Layout } from "./layout";
import { rowAt, rowText, SOUND, WORDS } from "./layout";
import type { Matrix, Position, Scale } from "./matrix";

/** The cells as an image, and how many rows and columns of cells it is wide. */
export interface Cells {
  canvas: HTMLCanvasElement;
  rows: number;
  cols: number;
}

export interface Picture {
  matrix: Matrix;
  made: Layout;
  scale: Scale;
  colors: Table;
  palette: Palette;
  cells: Cells | null;
  sound: HTMLCanvasElement | null; // above the columns
  veil: Path2D | null; // the masked cells
  cursor: Position | null;
  linked: number | null;
  linkedCol: number | null; // the row and the column highlighted by linked views
  focused: boolean;
  editedSteps: Set<number>; // rows with an edit before their step
}

export function draw(g: CanvasRenderingContext2D, scene: Scene, picture: Picture): void {
  const { made, matrix } = picture;
  within(g, made.left, made.top, scene.width - made.left, scene.height - made.top, () => {
    g.translate(made.left - scene.left, made.top - scene.top);
    const seen = inSight(scene, made, matrix);
    drawCells(g, picture, seen);
    drawNothing(g, picture, seen);
    drawVeil(g, scene, picture);
    if (made.numbers) drawNumbers(g, picture, seen);
    mark(g, picture);
  });
  drawRowLabels(g, scene, picture);
  const { cursor, linkedCol, palette } = picture,
    col = cursor?.col ?? linkedCol;
  const strong = col !== null && col < matrix.colLen ? { index: col, text: matrix.colLabel(col) } : null;
  drawColumns(g, scene, { ...made, top: made.top - made.rail }, palette, strong);
  drawRail(g, scene, picture, col);
  drawNames(g, picture);
}

/** The sound and the words above the columns, with the column of the cursor. */
function drawRail(g: CanvasRenderingContext2D, scene: Scene, picture: Picture, at: number | null): void {
  const { made, matrix, palette, sound } = picture,
    { cell, rail } = made,
    words = sound ? SOUND + 4 : 0,
    top = /to ([0-9.]+ kHz)/.exec(matrix.soundLabel)?.[1];
  if (sound && top) {
    const put = (text: string, y: number) =>
      write(g, text, made.left - 6, made.top - rail + y, `10px ${palette.font}`, palette.muted, "right");
    put(top, 6);
    put("0", SOUND - 5);
  }
  within(g, made.left - 1, made.top - rail, scene.width, rail, () => {
    g.translate(made.left - scene.left, made.top - rail);
    if (sound) g.drawImage(sound, 0, 0, matrix.colLen * cell, SOUND);
    for (const [start, end, text] of matrix.words) {
      const [x, width] = [start * cell, (end - start) * cell];
      outline(g, x + 0.5, words + 0.5, Math.max(1, width - 1), WORDS - 4, palette.muted);
      if (width > 9)
        within(g, x, words, width, WORDS, () =>
          write(g, shorten(text), x + width / 2, words + 8, `11px ${palette.font}`, palette.ink, "center", width - 3),
        );
    }
    if (at !== null && at < matrix.colLen)
      outline(g, at * cell - 0.5, -2, Math.max(cell, 3) + 1, rail + 4, palette.focus);
  });
}

interface Seen {
  row0: number;
  row1: number;
  col0: number;
  col1: number;
}

function inSight(scene: Scene, made: Layout, { rows, cols }: Matrix): Seen {
  const { cell, left, top } = made;
  return {
    row0: Math.max(0, rowAt(made, scene.top)),
    row1: Math.min(rows, rowAt(made, scene.top + scene.height - top) + 1),
    col0: Math.max(0, Math.floor(scene.left / cell)),
    col1: Math.min(cols, Math.ceil((scene.left + scene.width - left) / cell)),
  };
}

function drawCells(
  g: CanvasRenderingContext2D,
  { made: { cell, tall, y }, matrix, cells, palette }: Picture,
  seen: Seen,
): void {
  const { rowLen, drawn, blanks } = matrix;
  if (!cells || !rowLen || !drawn) return;
  g.imageSmoothingEnabled = false;
  within(g, 0, 0, drawn * cell, y(rowLen), () => {
    const { canvas, rows, cols } = cells;
    if (!blanks) g.drawImage(canvas, 0, 0, cols * cell, rows * tall);
    else
      for (let row = seen.row0; row < seen.row1; row++) {
        const high = canvas.height / rows;
        g.drawImage(canvas, 0, row * high, canvas.width, high, 0, y(row), cols * cell, y(row + 1) - y(row));
      }
  });
  if (Math.min(cell, tall) >= 7) {
    // a thin line of paper between cells
    g.fillStyle = palette.paper;
    for (let col = seen.col0; col <= Math.min(seen.col1, drawn); col++) g.fillRect(col * cell - 0.5, 0, 1, y(rowLen));
    for (let row = seen.row0; row <= Math.min(seen.row1, rowLen); row++) g.fillRect(0, y(row) - 0.5, drawn * cell, 1);
  }
}

/** Cells without weights: padding is hatched, future rows are dotted, a NaN among numbers is crossed. */
function drawNothing(
  g: CanvasRenderingContext2D,
  { made: { cell, tall, y }, matrix, palette }: Picture,
  seen: Seen,
): void {
  const { rows, cols, rowLen, colLen } = matrix;
  const [right, bottom] = [colLen * cell, y(rowLen)];
  hatch(g, right, 0, (cols - colLen) * cell, y(rows), palette.faint);
  hatch(g, 0, bottom, right, y(rows) - bottom, palette.faint);
  outline(g, -0.5, -0.5, cols * cell + 1, y(rows) + 1, palette.line);
  for (let row = seen.row0; row < Math.min(seen.row1, rowLen); row++) {
    let empty = colLen > 0;
    for (let col = 0; col < colLen && empty; col++) empty = Number.isNaN(matrix.value(row, col));
    if (empty) {
      dots(g, 0, y(row), right, y(row + 1) - y(row), palette.muted, Math.min(cell, tall));
      continue;
    }
    if (Math.min(cell, tall) < 5) continue;
    for (let col = seen.col0; col < Math.min(seen.col1, matrix.drawn); col++)
      if (!Number.isNaN(matrix.value(row, col)) || matrix.hidden(row, col)) continue;
      else if (matrix.effects) {
        if (!matrix.effects.labels[row]?.[col])
          dots(g, col * cell, y(row), cell, tall, palette.muted, Math.min(cell, tall));
      } else cross(g, (col + 0.5) * cell, (y(row) + y(row + 1)) / 2, Math.min(cell, tall), palette.warn);
  }
}

/** Masked cells are neither weights nor padding: hatched in the other direction, over the paper. */
function drawVeil(g: CanvasRenderingContext2D, scene: Scene, { veil, made, matrix, palette }: Picture): void {
  if (!veil) return;
  g.save();
  g.clip(veil);
  const [x, y] = [Math.max(0, scene.left - made.left), Math.max(0, scene.top - made.top)];
  const [width, height] = [matrix.colLen * made.cell, matrix.rowLen * made.tall];
  g.fillStyle = palette.paper;
  g.fillRect(x, y, Math.min(width - x, scene.width), Math.min(height - y, scene.height));
  const kind = matrix.causal ? "\\" : "|";
  hatch(g, x, y, Math.min(width - x, scene.width), Math.min(height - y, scene.height), palette.faint, kind);
  g.restore();
}

/** The masked cells, in the coordinates of the map. */
export function veilOf({ rowLen, colLen, masked, hidden }: Matrix, { cell, tall }: Layout): Path2D | null {
  if (!masked || typeof Path2D === "undefined") return null;
  const path = new Path2D(),
    [down, across] = [Math.max(1, Math.ceil(1 / tall)), Math.max(1, Math.ceil(1 / cell))];
  for (let row = 0; row < rowLen; row += down) {
    let from = -1;
    for (let col = 0; col <= colLen; col += across) {
      const hides = col < colLen && hidden(row, col);
      if (hides && from < 0) from = col;
      if (from >= 0 && (!hides || col + across > colLen)) {
        const to = hides ? colLen : col;
        path.rect(from * cell, row * tall, (to - from) * cell, Math.min(down, rowLen - row) * tall);
        from = -1;
      }
    }
  }
  return path;
}

function cross(g: CanvasRenderingContext2D, x: number, y: number, cell: number, color: string): void {
  const arm = cell * 0.2;
  g.strokeStyle = color;
  g.lineWidth = 1.2;
  g.beginPath();
  g.moveTo(x - arm, y - arm);
  g.lineTo(x + arm, y + arm);
  g.moveTo(x + arm, y - arm);
  g.lineTo(x - arm, y + arm);
  g.stroke();
}

function drawNumbers(
  g: CanvasRenderingContext2D,
  { made: { cell, tall, y }, matrix, scale, colors, palette }: Picture,
  seen: Seen,
): void {
  const font = `10px ${palette.font}`;
  for (let row = seen.row0; row < Math.min(seen.row1, matrix.rowLen); row++) {
    if (y(row + 1) - y(row) < tall) continue;
    for (let col = seen.col0; col < Math.min(seen.col1, matrix.drawn); col++) {
      const value = matrix.value(row, col);
      if (matrix.effects) {
        const text = matrix.effects.labels[row]?.[col],
          color = Number.isNaN(value) ? palette.ink : inkOn(colors, scale.share(value));
        if (text)
          write(
            g,
            shorten(text, 8),
            (col + 0.5) * cell,
            y(row) + tall / 2 + 0.5,
            `bold ${font}`,
            color,
            "center",
            cell - 2,
          );
        continue;
      }
      if (Number.isNaN(value) || matrix.hidden(row, col) || (Math.abs(value) < 0.005 && scale.high <= 1)) continue;
      const color = inkOn(colors, scale.share(value));
      write(g, inCell(value), (col + 0.5) * cell, y(row) + tall / 2 + 0.5, font, color, "center");
    }
  }
}

function inCell(value: number): string {
  if (!Number.isFinite(value)) return value > 0 ? "▲" : "▼";
  const size = Math.abs(value);
  const text =
    size < 1.005
      ? share(value).replace("0.", ".").replace("1.00", "1.0")
      : size < 9.95
        ? value.toFixed(1)
        : size < 1e4
          ? value.toFixed(0)
          : value.toExponential(0);
  return text.replace("-", "−");
}

/** The row of a linked view's cursor, and row, column and cell of the own cursor. */
function mark(
  g: CanvasRenderingContext2D,
  { made: { cell, y: top }, matrix, palette, cursor, linked, linkedCol, focused }: Picture,
): void {
  const [width, height] = [matrix.cols * cell, top(matrix.rows)];
  const wide = Math.max(cell, 3),
    highOf = (row: number) => Math.max(top(row + 1) - top(row), 3);
  const { focus, paper } = palette;
  if (linked !== null && linked !== cursor?.row && linked < matrix.rows)
    outline(g, 0.75, top(linked) + 0.75, width - 1.5, highOf(linked) - 1.5, focus, 1.5, DASH);
  if (linkedCol !== null && !cursor && linkedCol < matrix.cols)
    outline(g, linkedCol * cell + 0.75, 0.75, wide - 1.5, height - 1.5, focus, 1.5, DASH);
  if (!cursor || cursor.row >= matrix.rows || cursor.col >= matrix.cols) return;
  const [x, y, high] = [cursor.col * cell, top(cursor.row), highOf(cursor.row)];
  g.globalAlpha = 0.8;
  outline(g, -0.5, y - 0.5, width + 1, high + 1, focus);
  outline(g, x - 0.5, -0.5, wide + 1, height + 1, focus);
  g.globalAlpha = 1;
  const out = cell < 6 ? 3 : 1,
    thick = focused ? 3 : 2;
  outline(g, x - out - 1.5, y - out - 1.5, wide + 2 * out + 3, high + 2 * out + 3, paper, thick);
  outline(g, x - out, y - out, wide + 2 * out, high + 2 * out, focus, thick);
}

function drawRowLabels(
  g: CanvasRenderingContext2D,
  scene: Scene,
  { made, matrix, palette, cursor, linked, editedSteps }: Picture,
): void {
  const at = (row: number) => made.top - scene.top + (made.y(row) + made.y(row + 1)) / 2 + 0.5;
  const put = (text: string, y: number, font: string, color: string) =>
    write(g, text, made.left - 6, y, `${font}11px ${palette.font}`, color, "right", made.left - 8);
  const strong = cursor?.row ?? linked;
  within(g, 0, made.top - 5, made.left, scene.height - made.top + 5, () => {
    for (const { index, text } of made.rows) {
      const y = at(index);
      if (y < made.top + (scene.top > 0 ? 5 : -5) || y > scene.height + LINE) continue;
      if (strong !== null && Math.abs(y - at(strong)) < LINE - 1) continue; // room for the one of the cursor
      put(text, y, "", palette.ink);
    }
    for (const row of editedSteps)
      if (row < matrix.rowLen) write(g, MARK, made.left - 1, at(row), `7px ${palette.font}`, palette.focus, "right");
    if (strong !== null && strong < matrix.rowLen)
      put(shorten(rowText(matrix, strong), 18), at(strong), "bold ", palette.focus);
  });
}

/** The names of the two dims, in the corner. */
function drawNames(g: CanvasRenderingContext2D, { made, matrix, palette }: Picture): void {
  const font = `11px ${palette.font}`;
  write(g, `${matrix.colName} →`, made.left, LINE / 2 + 1, font, palette.muted);
  write(g, `${matrix.rowName} ↓`, made.left - 6, made.top - 9, font, palette.muted, "right");
}
