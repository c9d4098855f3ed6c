// From a scene to positions: pinned units, then for each track a strip of units by steps and a line below, all over the same axis of steps.
// With few steps, tracks are side by side, each with the axis above it.

import { times } from "../list";
import type { Columns } from "../axis";
import { cellSize, columns, labelsOf } from "../axis";
import type { Measure } from "../labels";
import type { Scene } from "./scene";
import { rowOfUnit, unitIn } from "./scene";

export interface Placed {
  x: number; // x of its column
  title: number;
  strip: number;
  height: number;
  norm: number;
  normHeight: number;
  folded: boolean;
} // tops and heights
export interface Layout extends Columns {
  left: number;
  width: number;
  height: number;
  tracks: Placed[];
  pins: [x: number, top: number][]; // positions of the lines of pinned units
  columns: number[]; // x of each
}

/** The display options. */
export interface Look {
  width: number;
  zoom: number;
  tall: number; // zoom in units
  measure: Measure;
  folded: (track: number) => boolean;
  pins: number;
}

export const NORM = 46,
  TITLE = 20,
  LANE = 8, // above a strip: marks of steps
  PIN = 44;
const GAP = 12,
  STRIP_MOST = 192,
  STRIP_LEAST = 28,
  STRIP_TALLEST = 4096,
  LEFT = 52,
  GUTTER = 18,
  LEAST_COLUMN = 250, // the title of a track and its colours
  CELL_WIDEST = 72;

export function layout(scene: Scene, { width, zoom, tall, measure, folded, pins }: Look): Layout {
  const steps = Math.max(1, scene.steps),
    texts = labelsOf(scene.len, scene.stepLabel),
    open = scene.tracks.filter((_, track) => !folded(track)).length;
  const spread = (count: number, ...size: [zoom: number, most?: number]) =>
    columns(texts, measure, (_, right) => ({
      cell: cellSize(((width + GUTTER) / count - GUTTER - LEFT - right) / steps, ...size),
    }));
  const span = ({ cell, right }: { cell: number; right: number }) =>
    Math.max(open > 1 ? LEAST_COLUMN : 0, LEFT + steps * cell + right);
  const fitting = (made: { cell: number; right: number }) =>
    Math.max(1, Math.min(open, Math.floor((width + GUTTER) / (span(made) + GUTTER))));
  const made = spread(fitting(spread(1, 1)), zoom, CELL_WIDEST),
    count = fitting(made),
    wide = span(made) + GUTTER,
    xs = times(count, (column) => column * wide);
  const below = (index: number) => made.top + Math.floor(index / count) * (PIN + 6);
  const tops = Array.from({ length: pins }, (_, pin): [number, number] => [xs[pin % count]!, below(pin)]);
  let at = below(pins + count - 1), // top of the row of tracks
    next = at, // top of the next row
    column = 0;
  const tracks = scene.tracks.map(({ rows: units, slim }, track): Placed => {
    if (folded(track) || column === count) [at, column] = [next, 0];
    const x = xs[column]!;
    if (folded(track)) {
      next = at + TITLE + 4;
      column = count; // the next one is below it
      return { x, title: at, strip: at + TITLE, height: 0, norm: at + TITLE, normHeight: 0, folded: true };
    }
    const unit = Math.min(14, Math.max(1, Math.floor(STRIP_MOST / Math.max(1, units))));
    const usual = Math.min(STRIP_MOST, Math.max(STRIP_LEAST, units * unit));
    const height = slim ? 0 : Math.max(STRIP_LEAST, Math.min(STRIP_TALLEST, Math.max(units, 1) * 28, usual * tall));
    const strip = at + TITLE + LANE,
      norm = strip + height + 5;
    next = Math.max(next, norm + NORM + GAP);
    column++;
    return { x, title: at, strip, height, norm, normHeight: NORM, folded: false };
  });
  return {
    ...made,
    left: LEFT,
    width: count > 1 ? count * wide - GUTTER : LEFT + steps * made.cell + made.right,
    height: next - GAP + 4,
    tracks,
    pins: tops,
    columns: xs,
  };
}

export interface Position {
  track: number;
  unit: number; // -1: the line
  step: number;
}

/** The value at a point of the content; in the norm line the unit is -1. */
export function hit(made: Layout, scene: Scene, x: number, y: number): Position | null {
  for (const [track, placed] of made.tracks.entries()) {
    const step = Math.floor((x - made.left - placed.x) / made.cell),
      of = scene.tracks[track]!,
      { rows: units } = of;
    if (placed.folded || step < 0 || step >= scene.steps) continue;
    if (y >= placed.strip && y < placed.strip + placed.height && units) {
      const row = Math.min(units - 1, Math.floor(((y - placed.strip) / placed.height) * units));
      return { track, step, unit: unitIn(of, row) };
    }
    if (y >= placed.strip + placed.height && y < placed.norm + placed.normHeight + 4) return { track, step, unit: -1 };
  }
  return null;
}

/** The track whose title is at a point. */
export function titleAt({ tracks, columns }: Layout, x: number, y: number): number | null {
  const end = columns[1] ?? Infinity; // end of the first column: the width of all
  const track = tracks.findIndex(
    (of) => y >= of.title && y < of.title + TITLE && (of.folded || (x >= of.x && x < of.x + end)),
  );
  return track < 0 ? null : track;
}

const KEYS = ["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "Home", "End", "PageUp", "PageDown"];

/** The place that a key leads to; null for other keys. Above the first row is the line of the previous track. `far`: to a corner. */
export function walk(
  scene: Scene,
  at: Position | null,
  key: string,
  far = false,
  folded: (track: number) => boolean = () => false,
): Position | null {
  const open = scene.tracks.map((_, track) => track).filter((track) => !folded(track));
  if (!KEYS.includes(key) || !open.length || !scene.steps) return null;
  const rowIn = (track: number, row: number, step: number): Position => ({
    track,
    step,
    unit: row < 0 || !scene.tracks[track]!.rows ? -1 : unitIn(scene.tracks[track]!, row),
  });
  const start = rowIn(open[0]!, Math.min(0, scene.tracks[open[0]!]!.rows - 1), 0);
  if (!at || folded(at.track)) return start;
  const { track, step } = at,
    row = rowOfUnit(scene.tracks[track]!, at.unit),
    lastRow = scene.tracks[track]!.rows - 1,
    index = open.indexOf(track),
    lastStep = Math.max(0, scene.len - 1);
  switch (key) {
    case "ArrowLeft":
      return { ...at, step: Math.max(0, step - 1) };
    case "ArrowRight":
      return { ...at, step: Math.min(scene.steps - 1, step + 1) };
    case "Home":
      return far ? start : { ...at, step: 0 };
    case "End": {
      const end = open[open.length - 1]!;
      return far ? rowIn(end, scene.tracks[end]!.rows - 1, lastStep) : { ...at, step: lastStep };
    }
    case "PageUp":
      return rowIn(track, Math.max(0, (row < 0 ? lastRow + 1 : row) - 10), step);
    case "PageDown":
      return row < 0 ? at : rowIn(track, Math.min(lastRow, row + 10), step);
    case "ArrowDown":
      if (row >= 0) return rowIn(track, row < lastRow ? row + 1 : -1, step);
      return index + 1 < open.length ? rowIn(open[index + 1]!, 0, step) : at;
    default:
      if (row < 0 && lastRow >= 0) return rowIn(track, lastRow, step);
      return row > 0 ? rowIn(track, row - 1, step) : index > 0 ? rowIn(open[index - 1]!, -1, step) : at;
  }
}
