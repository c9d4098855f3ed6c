// Canvas helpers: sharp on dense screens, matrices as images, hatching.

import type { Table } from "./color";
import { shown, zoomOf } from "./dom";
import type { Palette } from "./theme";

/** Sets the size of a canvas in CSS pixels; null without a drawing context (tests without a browser). */
export function prepare(
  canvas: HTMLCanvasElement,
  width: number,
  height: number,
  within = canvas.parentElement,
): CanvasRenderingContext2D | null {
  const ratio = (globalThis.devicePixelRatio || 1) * zoomOf(within);
  const [w, h] = [Math.max(1, Math.round(width * ratio)), Math.max(1, Math.round(height * ratio))];
  if (canvas.width !== w || canvas.height !== h) {
    canvas.width = w;
    canvas.height = h;
  }
  Object.assign(canvas.style, { width: `${width}px`, height: `${height}px` }); // the number of pixels changes with the zoom
  const g = context(canvas);
  if (!g) return null;
  g.setTransform(ratio, 0, 0, ratio, 0, 0);
  g.clearRect(0, 0, width, height);
  return g;
}

export function context(canvas: HTMLCanvasElement): CanvasRenderingContext2D | null {
  try {
    return canvas.getContext("2d");
  } catch {
    return null;
  }
}

/** Cells as an image, one pixel each; with more cells than `most` pixels, the largest magnitude of each block. */
export interface Cells {
  rows: number;
  cols: number;
  value(row: number, col: number): number;
}

export function image(
  cells: Cells,
  colors: Table,
  share: (value: number) => number,
  most: { rows: number; cols: number },
): HTMLCanvasElement | null {
  const rows = Math.min(cells.rows, Math.max(1, Math.floor(most.rows))),
    cols = Math.min(cells.cols, Math.max(1, Math.floor(most.cols)));
  if (!cells.rows || !cells.cols) return null;
  const [down, across] = [cells.rows / rows, cells.cols / cols]; // not integers: all cells are in the image, evenly spread
  const canvas = document.createElement("canvas");
  canvas.width = cols;
  canvas.height = rows;
  const g = context(canvas);
  if (!g) return null;
  const data = g.createImageData(cols, rows);
  const pixels = new Uint32Array(data.data.buffer);
  for (let row = 0; row < rows; row++) {
    for (let col = 0; col < cols; col++) {
      let value = NaN;
      const bottom = Math.min(cells.rows, Math.ceil((row + 1) * down - 1e-9)),
        right = Math.min(cells.cols, Math.ceil((col + 1) * across - 1e-9));
      for (let r = Math.floor(row * down); r < bottom; r++) {
        for (let c = Math.floor(col * across); c < right; c++) {
          const other = cells.value(r, c);
          if (Number.isNaN(value) || Math.abs(other) > Math.abs(value)) value = other;
        }
      }
      pixels[row * cols + col] = Number.isNaN(value)
        ? 0
        : colors[Math.round(Math.min(1, Math.max(0, share(value))) * 255)]!;
    }
  }
  g.putImageData(data, 0, 0);
  return canvas;
}

/** Draws within a rectangle only, and restores the settings afterwards. */
export function within(
  g: CanvasRenderingContext2D,
  x: number,
  y: number,
  width: number,
  height: number,
  draw: () => void,
): void {
  g.save();
  g.beginPath();
  g.rect(x, y, width, height);
  g.clip();
  draw();
  g.restore();
}

/** One line of text, vertically centred at y. */
export function write(
  g: CanvasRenderingContext2D,
  text: string,
  x: number,
  y: number,
  font: string,
  color: string,
  align: CanvasTextAlign = "left",
  most?: number,
): void {
  g.font = font;
  g.fillStyle = color;
  g.textAlign = align;
  g.textBaseline = "middle";
  g.fillText(shown(text), x, y, most);
}

/** Small text that stays readable on top of lines and maps. */
export function haloed(
  g: CanvasRenderingContext2D,
  text: string,
  x: number,
  y: number,
  palette: Palette,
  color = palette.muted,
): void {
  g.strokeStyle = palette.paper;
  g.lineWidth = 3;
  g.lineJoin = "round";
  g.strokeText(text, x, y);
  g.fillStyle = color;
  g.fillText(text, x, y);
}

export const DOTTED = [2, 3]; // for paths that no run took
export const DASH = [4, 3]; // for the cursors of linked views

/** The frame of a rectangle. */
export function outline(
  g: CanvasRenderingContext2D,
  x: number,
  y: number,
  width: number,
  height: number,
  color: string,
  thick = 1,
  dash: number[] = [],
): void {
  g.strokeStyle = color;
  g.lineWidth = thick;
  g.setLineDash(dash);
  g.strokeRect(x, y, width, height);
  g.setLineDash([]);
}

/** The direction of lines: "/" for padding, "\\" for a causal mask, "|" for another mask. */
export type Hatch = "/" | "\\" | "|";

/** Hatching of areas without data. */
export function hatch(
  g: CanvasRenderingContext2D,
  x: number,
  y: number,
  width: number,
  height: number,
  color: string,
  kind: Hatch = "/",
): void {
  if (width <= 0 || height <= 0) return;
  within(g, x, y, width, height, () => {
    g.strokeStyle = color;
    g.lineWidth = 1;
    g.globalAlpha *= 0.75;
    g.beginPath();
    const gap = kind === "|" ? 5 : 7,
      slope = kind === "/" ? -1 : kind === "|" ? 0 : 1;
    // Lines of neighbouring areas meet: each has x - slope * y equal to a multiple of the gap.
    const ends = [x - slope * y, x - slope * (y + height), x + width - slope * y, x + width - slope * (y + height)];
    for (let at = Math.floor(Math.min(...ends) / gap) * gap; at < Math.max(...ends); at += gap) {
      g.moveTo(at + slope * y + (slope ? 0 : 0.5), y);
      g.lineTo(at + slope * (y + height) + (slope ? 0 : 0.5), y + height);
    }
    g.stroke();
  });
}

/** Dots for values that are not computed yet. */
export function dots(
  g: CanvasRenderingContext2D,
  x: number,
  y: number,
  width: number,
  height: number,
  color: string,
  pitch: number,
): void {
  if (width <= 0 || height <= 0) return;
  const gap = Math.max(8, pitch);
  g.fillStyle = color;
  g.beginPath();
  for (let cy = y + gap / 2; cy < y + height; cy += gap)
    for (let cx = x + gap / 2; cx < x + width; cx += gap) {
      g.moveTo(cx + 1.1, cy);
      g.arc(cx, cy, 1.1, 0, 7);
    }
  g.fill();
}
