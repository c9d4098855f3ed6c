// From a `states` spec to positions: per track a strip of units by steps and a line of norms, all over one axis of steps.

import type { Columns } from "../axis";
import { cellSize, columns, labelsOf } from "../axis";
import type { AnyHead, Frame } from "../frame";
import type { Measure } from "../labels";

interface DimEntry {
  name: string;
}
export interface TrackEntry {
  label: string;
  unit_dim: DimEntry;
  block: string;
  norms?: string; // the block [seq, step] of norms, where the values are not exact
  notes?: Record<string, string>;
}
export interface SeqEntry {
  label: string;
  steps: string[];
  len: number;
}
export interface Head extends AnyHead {
  best?: boolean;
  step_dim: DimEntry | null;
  tracks: TrackEntry[];
  seqs: SeqEntry[];
}

/** One state of one sequence. */
export interface Track {
  note: string;
  label: string;
  unitName: string;
  units: number;
  most: number;
  value(step: number, unit: number): number;
  norms: Float64Array;
  missing: Uint32Array; // by step, how many values are NaN
  about: boolean; // whether values are rounded, or several share one
  normsAbout: boolean;
  block: string;
}
export interface Scene {
  seq: string;
  stepName: string;
  steps: number;
  len: number;
  stepLabel(step: number): string;
  tracks: Track[];
}

/** What is wrong with a frame, as a sentence; null if it can be drawn. */
export function problem(frame: Frame<Head>): string | null {
  const { tracks, seqs }: Partial<Head> = frame.head;
  if (!Array.isArray(tracks) || !Array.isArray(seqs)) return "This states view has no list of tracks and of sequences.";
  for (const track of tracks) {
    const block = frame.blocks[track.block];
    if (!block || block.shape.length !== 3) return `Track ${track.label} has no array of sequence, step and unit.`;
    if (block.shape[0]! < seqs.length)
      return `Track ${track.label} has ${block.shape[0]} sequences, not ${seqs.length}.`;
  }
  return null;
}

export function sceneOf(frame: Frame<Head>, seq: number): Scene | null {
  const { head } = frame;
  const of = head.seqs[seq];
  if (!of || !head.tracks.length) return null;
  const steps = Math.max(...head.tracks.map((track) => frame.blocks[track.block]!.shape[1]!));
  const len = Math.min(steps, of.len ?? steps);
  const tracks = head.tracks.map((entry): Track => {
    const { shape, at, exact, code } = frame.blocks[entry.block]!,
      given = entry.norms === undefined ? undefined : frame.blocks[entry.norms];
    const [, own = 0, units = 0] = shape;
    const value = (step: number, unit: number) => (step < own ? at(seq, step, unit) : NaN);
    const norms = new Float64Array(len),
      missing = new Uint32Array(len);
    for (let step = 0; step < len; step++) {
      for (let unit = 0; unit < units; unit++) if (Number.isNaN(value(step, unit))) missing[step]!++;
      if (given) {
        norms[step] = step < own ? given.value(seq * own + step) : NaN;
        continue;
      }
      let sum = 0;
      for (let unit = 0; unit < units; unit++) sum += value(step, unit) ** 2;
      norms[step] = Math.sqrt(sum);
    }
    const most = code ? Math.max(-code.low, code.high) : largest(shape, at, head.seqs);
    return {
      note: entry.notes?.[seq] ?? "",
      label: entry.label,
      unitName: entry.unit_dim?.name ?? "unit",
      units,
      value,
      norms,
      missing,
      most,
      about: !exact,
      normsAbout: !exact && !given?.exact,
      block: entry.block,
    };
  });
  return {
    seq: of.label,
    stepName: head.step_dim?.name ?? "step",
    steps,
    len,
    stepLabel: (step) => of.steps[step] ?? String(step),
    tracks,
  };
}

/** The largest magnitude in all sequences, so that colours mean the same in each; what lies after their ends has no part in it. */
function largest(
  [, steps = 0, units = 0]: number[],
  value: (seq: number, step: number, unit: number) => number,
  seqs: SeqEntry[],
): number {
  let most = 0;
  seqs.forEach(({ len }, seq) => {
    for (let step = 0; step < Math.min(steps, len ?? steps); step++) {
      for (let unit = 0; unit < units; unit++) {
        const size = Math.abs(value(seq, step, unit));
        if (size > most && size !== Infinity) most = size;
      }
    }
  });
  return most || 1;
}

/** How many steps of a track are drawn: with those after the end where something is wrong. */
export const drawnOf = (scene: Scene, track: Track): number => (track.note ? scene.steps : scene.len);

export interface Placed {
  title: number;
  strip: number;
  height: number;
  norm: number;
  normHeight: number;
} // tops and heights
export interface Layout extends Columns {
  left: number;
  width: number;
  height: number;
  tracks: Placed[];
}

export const NORM = 46,
  TITLE = 20;
const GAP = 12,
  STRIP_MOST = 192,
  STRIP_LEAST = 28,
  LEFT = 46;

export function layout(
  scene: Scene,
  { width, zoom, measure }: { width: number; zoom: number; measure: Measure },
): Layout {
  const steps = Math.max(1, scene.steps);
  const made = columns(labelsOf(scene.len, scene.stepLabel), measure, (_, right) => ({
    cell: cellSize((width - LEFT - right) / steps, zoom),
  }));
  let at = made.top;
  const tracks = scene.tracks.map(({ units }): Placed => {
    const unit = Math.min(14, Math.max(1, Math.floor(STRIP_MOST / Math.max(1, units))));
    const height = Math.min(STRIP_MOST, Math.max(STRIP_LEAST, units * unit));
    const placed = { title: at, strip: at + TITLE, height, norm: at + TITLE + height + 5, normHeight: NORM };
    at = placed.norm + NORM + GAP;
    return placed;
  });
  return { ...made, left: LEFT, width: LEFT + steps * made.cell + made.right, height: at - GAP + 4, tracks };
}

export interface Position {
  track: number;
  unit: number;
  step: number;
}

/** The value at a point of the content; in the norm line the unit is -1. */
export function hit(made: Layout, scene: Scene, x: number, y: number): Position | null {
  const step = Math.floor((x - made.left) / made.cell);
  if (step < 0 || step >= scene.steps) return null;
  for (const [track, placed] of made.tracks.entries()) {
    const { units } = scene.tracks[track]!;
    if (y >= placed.strip && y < placed.strip + placed.height && units)
      return { track, step, unit: Math.min(units - 1, Math.floor(((y - placed.strip) / placed.height) * units)) };
    if (y >= placed.strip + placed.height && y < placed.norm + placed.normHeight + 4) return { track, step, unit: -1 };
  }
  return null;
}

/** Where a key leads; null if it does not walk. Up from the first unit is the norm of the track before. */
export function walk(scene: Scene, at: Position | null, key: string): Position | null {
  if (
    !["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "Home", "End", "PageUp", "PageDown"].includes(key) ||
    !scene.tracks.length ||
    !scene.steps
  )
    return null;
  if (!at) return { track: 0, unit: 0, step: 0 };
  const { track, unit, step } = at;
  const last = scene.tracks[track]!.units - 1;
  switch (key) {
    case "ArrowLeft":
      return { ...at, step: Math.max(0, step - 1) };
    case "ArrowRight":
      return { ...at, step: Math.min(scene.steps - 1, step + 1) };
    case "Home":
      return { ...at, step: 0 };
    case "End":
      return { ...at, step: Math.max(0, scene.len - 1) };
    case "PageUp":
      return { ...at, unit: Math.max(0, (unit < 0 ? last + 1 : unit) - 10) };
    case "PageDown":
      return { ...at, unit: unit < 0 ? unit : Math.min(last, unit + 10) };
    case "ArrowDown":
      return unit < 0
        ? track + 1 < scene.tracks.length
          ? { track: track + 1, unit: 0, step }
          : at
        : { ...at, unit: unit < last ? unit + 1 : -1 };
    default:
      return unit < 0
        ? { ...at, unit: last }
        : unit > 0
          ? { ...at, unit: unit - 1 }
          : track > 0
            ? { track: track - 1, unit: -1, step }
            : at;
  }
}

/** The value at a position: of a unit, or the norm. */
export function valueAt(scene: Scene, { track, unit, step }: Position, exact?: Float32Array | null): number {
  const of = scene.tracks[track]!;
  return unit < 0 ? (of.norms[step] ?? NaN) : (exact?.[unit] ?? of.value(step, unit));
}

/** What is wrong with the tracks of each sequence, in sentences. */
export const faults = ({ seqs, tracks }: Head): string[] =>
  seqs.map((_, seq) => tracks.flatMap(({ label, notes }) => (notes?.[seq] ? `${label} ${notes[seq]}.` : [])).join(" "));
