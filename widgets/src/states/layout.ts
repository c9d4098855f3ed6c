// From a scene to positions: pinned units, then per track a strip of units by steps and a line below, all over one axis of steps.

import type { Columns } from "../axis";
import { cellSize, columns, labelsOf } from "../axis";
import type { Measure } from "../labels";
import type { Scene } from "./scene";
import { rowOfUnit, unitIn } from "./scene";

export interface Placed {
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
  pins: number[]; // tops of the lines of pinned units
}

/** What the person chose of the picture. */
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
  LEFT = 52;

export function layout(scene: Scene, { width, zoom, tall, measure, folded, pins }: Look): Layout {
  const steps = Math.max(1, scene.steps);
  const made = columns(labelsOf(scene.len, scene.stepLabel), measure, (_, right) => ({
    cell: cellSize((width - LEFT - right) / steps, zoom),
  }));
  const tops = Array.from({ length: pins }, (_, pin) => made.top + pin * (PIN + 6));
  let at = made.top + pins * (PIN + 6);
  const tracks = scene.tracks.map(({ units }, track): Placed => {
    if (folded(track)) {
      const place = { title: at, strip: at + TITLE, height: 0, norm: at + TITLE, normHeight: 0, folded: true };
      at += TITLE + 4;
      return place;
    }
    const unit = Math.min(14, Math.max(1, Math.floor(STRIP_MOST / Math.max(1, units))));
    const usual = Math.min(STRIP_MOST, Math.max(STRIP_LEAST, units * unit));
    const height = Math.max(STRIP_LEAST, Math.min(STRIP_TALLEST, Math.max(units, 1) * 28, usual * tall));
    const strip = at + TITLE + LANE;
    const placed = { title: at, strip, height, norm: strip + height + 5, normHeight: NORM, folded: false };
    at = placed.norm + NORM + GAP;
    return placed;
  });
  return {
    ...made,
    left: LEFT,
    width: LEFT + steps * made.cell + made.right,
    height: at - GAP + 4,
    tracks,
    pins: tops,
  };
}

export interface Position {
  track: number;
  unit: number; // -1: the line
  step: number;
}

/** The value at a point of the content; in the norm line the unit is -1. */
export function hit(made: Layout, scene: Scene, x: number, y: number): Position | null {
  const step = Math.floor((x - made.left) / made.cell);
  if (step < 0 || step >= scene.steps) return null;
  for (const [track, placed] of made.tracks.entries()) {
    const of = scene.tracks[track]!,
      { units } = of;
    if (placed.folded) continue;
    if (y >= placed.strip && y < placed.strip + placed.height && units) {
      const row = Math.min(units - 1, Math.floor(((y - placed.strip) / placed.height) * units));
      return { track, step, unit: unitIn(of, row) };
    }
    if (y >= placed.strip + placed.height && y < placed.norm + placed.normHeight + 4) return { track, step, unit: -1 };
  }
  return null;
}

/** The track whose title is at a point. */
export function titleAt(made: Layout, y: number): number | null {
  const track = made.tracks.findIndex(({ title }) => y >= title && y < title + TITLE);
  return track < 0 ? null : track;
}

const KEYS = ["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "Home", "End", "PageUp", "PageDown"];

/** Where a key leads; null if it does not walk. Up from the first row is the line of the track before. `far`: to a corner. */
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
    unit: row < 0 ? -1 : unitIn(scene.tracks[track]!, row),
  });
  const start = rowIn(open[0]!, Math.min(0, scene.tracks[open[0]!]!.units - 1), 0);
  if (!at || folded(at.track)) return start;
  const { track, step } = at,
    row = rowOfUnit(scene.tracks[track]!, at.unit),
    lastRow = scene.tracks[track]!.units - 1,
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
      return far ? rowIn(end, scene.tracks[end]!.units - 1, lastStep) : { ...at, step: lastStep };
    }
    case "PageUp":
      return rowIn(track, Math.max(0, (row < 0 ? lastRow + 1 : row) - 10), step);
    case "PageDown":
      return row < 0 ? at : rowIn(track, Math.min(lastRow, row + 10), step);
    case "ArrowDown":
      if (row >= 0) return rowIn(track, row < lastRow ? row + 1 : -1, step);
      return index + 1 < open.length ? rowIn(open[index + 1]!, 0, step) : at;
    default:
      if (row < 0) return rowIn(track, lastRow, step);
      return row > 0 ? rowIn(track, row - 1, step) : index > 0 ? rowIn(open[index - 1]!, -1, step) : at;
  }
}
