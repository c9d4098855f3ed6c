// From a `states` spec to the drawn content of one sequence: for each track the values, their lines, findings, and the order of the units.

import { times } from "../list";
import type { Block } from "../block";
import type { AnyHead, Frame } from "../frame";
import type { Marks } from "../handles";
import { line } from "../visible_text";
import type { HeldTrack } from "./handles";

interface DimEntry {
  name: string;
}
export interface TrackEntry {
  label: string;
  unit_dim: DimEntry;
  names?: string[]; // of the units
  block: string;
  gate?: boolean; // openings from 0 to 1
  range?: [low: number, high: number];
  notes?: Record<string, string>; // faults, by sequence
  says?: Record<string, string>; // findings
  held?: HeldTrack; // of a held run
  cannot?: string; // why it cannot be edited there
}
export interface SeqEntry {
  label: string;
  steps: string[];
  len: number;
}
export interface OrderEntry {
  name: string;
  label: string;
  number: string; // the meaning of a unit's number in this order
}
export interface Head extends AnyHead {
  best?: boolean;
  hands?: Marks;
  step_dim: DimEntry | null;
  tracks: TrackEntry[];
  seqs: SeqEntry[];
  orders?: OrderEntry[];
}

/** One state of one sequence. */
export interface Track {
  note: string;
  says: string;
  label: string;
  title: string; // the label without the parts common to all tracks
  unitName: string;
  names: string[] | null; // of the units
  units: number;
  rows: number; // number of drawn units
  slim: boolean; // only its line is drawn
  gate: boolean;
  low: number;
  high: number;
  value(step: number, unit: number): number;
  line: Float64Array; // by step the norm, or the mean opening
  change: Float64Array; // by step, the distance from the previous one
  missing: boolean[]; // by step: whether all values are NaN
  stepFlags(step: number): number;
  unitFlags(unit: number): number;
  about: boolean; // whether values are rounded or shared
  lineAbout: boolean;
  changeAbout: boolean;
  block: string;
  order: Int32Array | null; // the units from top to bottom; null: by number
  numbers: Float32Array | null; // by unit, its sort key
}
export interface Scene {
  seq: string;
  stepName: string;
  steps: number;
  len: number;
  stepLabel(step: number): string;
  tracks: Track[];
}

export const NAN = 1,
  INFINITY = 2,
  SATURATED = 4,
  DEAD = 8,
  UNCHANGED = 16,
  AFTER_END = 32;

/** The names of flags. */
export const FLAGS: [bit: number, word: string][] = [
  [NAN, "NaN"],
  [INFINITY, "infinity"],
  [DEAD, "dead"],
  [UNCHANGED, "unchanged"],
  [SATURATED, "saturated"],
  [AFTER_END, "moves after the end"],
];

/** Flags in words. */
export const flagWords = (bits: number): string =>
  FLAGS.filter(([bit]) => bits & bit)
    .map(([, word]) => word)
    .join(", ");

/** All flags of the units and steps of a track. */
export function flagsOf({ units, unitFlags, stepFlags }: Track, steps: number): number {
  let bits = 0;
  for (let step = 0; step < steps; step++) bits |= stepFlags(step);
  for (let unit = 0; unit < units; unit++) bits |= unitFlags(unit);
  return bits;
}

/** The fault of a frame as a sentence; null if it can be drawn. */
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

/** Labels without their common leading parts: "h" of "decoder.lstm.h". */
export function withoutPrefix(labels: string[]): string[] {
  const parts = labels.map((label) => label.split(".")),
    most = labels.length > 1 ? Math.min(...parts.map(({ length }) => length - 1)) : 0;
  let shared = 0;
  while (shared < most && parts.every((part) => part[shared] === parts[0]![shared])) shared++;
  return parts.map((part) => part.slice(shared).join("."));
}

export function sceneOf(frame: Frame<Head>, seq: number): Scene | null {
  const { head } = frame;
  const of = head.seqs[seq];
  if (!of || !head.tracks.length) return null;
  const steps = Math.max(...head.tracks.map((track) => frame.blocks[track.block]!.shape[1]!));
  const len = Math.min(steps, of.len ?? steps),
    titles = withoutPrefix(head.tracks.map(({ label }) => String(label)));
  return {
    seq: of.label,
    stepName: head.step_dim?.name ?? "step",
    steps,
    len,
    stepLabel: (step) => of.steps[step] ?? String(step),
    tracks: head.tracks.map((entry, at) => trackOf(frame, entry, titles[at]!, seq, len)),
  };
}

function trackOf({ blocks, head }: Frame<Head>, entry: TrackEntry, title: string, seq: number, len: number): Track {
  const values = blocks[entry.block]!,
    { shape, at, exact } = values,
    [, own = 0, units = 0] = shape,
    gate = !!entry.gate;
  const value = (step: number, unit: number) => (step < own ? at(seq, step, unit) : NaN);
  const given = (name: string) => blocks[`${entry.block}/${name}`];
  const [line, change] = [given("line"), given("change")].map((block) => block && row(block, seq, len));
  const made = line && change ? null : linesOf(value, len, units, gate);
  const missing = times(len, (step) => nothingAt(value, step, units));
  const flags = (name: string, size: number) => {
    const block = given(name);
    return (index: number): number => (block && index < size ? block.value(seq * size + index) : 0);
  };
  const [low, high] = entry.range ?? around(values, head.seqs);
  return {
    note: entry.notes?.[seq] ?? "",
    says: entry.says?.[seq] ?? "",
    label: entry.label,
    title,
    unitName: entry.unit_dim?.name ?? "unit",
    names: entry.names ?? null,
    units,
    rows: units,
    slim: false,
    gate,
    low,
    high,
    value,
    line: line ?? made!.line,
    change: change ?? made!.change,
    missing,
    stepFlags: flags("steps", own),
    unitFlags: flags("units", units),
    about: !exact,
    lineAbout: !exact && !line,
    changeAbout: !exact && !change,
    block: entry.block,
    order: null,
    numbers: null,
  };
}

/** The row of a block [seq, step] up to the end; NaN for missing values. */
function row(block: Block, seq: number, len: number): Float64Array {
  const own = block.shape[1] ?? 0;
  return Float64Array.from({ length: len }, (_, step) => (step < own ? block.value(seq * own + step) : NaN));
}

function linesOf(value: Track["value"], len: number, units: number, gate: boolean) {
  const line = new Float64Array(len),
    change = new Float64Array(len).fill(NaN);
  for (let step = 0; step < len; step++) {
    let sum = 0,
      moved = 0;
    for (let unit = 0; unit < units; unit++) {
      const now = value(step, unit),
        away = step ? now - value(step - 1, unit) : 0;
      sum += gate ? now : now * now;
      moved += gate ? Math.abs(away) : away * away;
    }
    line[step] = gate ? sum / Math.max(1, units) : Math.sqrt(sum);
    if (step) change[step] = gate ? moved / Math.max(1, units) : Math.sqrt(moved);
  }
  return { line, change };
}

/** Whether no unit of a step has a value yet. */
function nothingAt(value: Track["value"], step: number, units: number): boolean {
  for (let unit = 0; unit < units; unit++) if (!Number.isNaN(value(step, unit))) return false;
  return units > 0;
}

/** The largest magnitude in all sequences, ignoring steps after their ends. */
function around({ shape, at }: Block, seqs: SeqEntry[]): [number, number] {
  const [, steps = 0, units = 0] = shape;
  let most = 0;
  seqs.forEach(({ len }, seq) => {
    for (let step = 0; step < Math.min(steps, len ?? steps); step++) {
      for (let unit = 0; unit < units; unit++) {
        const size = Math.abs(at(seq, step, unit));
        if (size > most && size !== Infinity) most = size;
      }
    }
  });
  return [-(most || 1), most || 1];
}

/** A unit by name, with its number. */
export const unitText = ({ names }: Track, unit: number): string =>
  names?.[unit] === undefined ? String(unit) : `${line(names[unit])} (${unit})`;

/** The unit in a row of the picture, and the row of a unit. */
export const unitIn = ({ order }: Track, row: number): number => order?.[row] ?? row;
export const rowOfUnit = ({ order }: Track, unit: number): number => (order && unit >= 0 ? order.indexOf(unit) : unit);

/** Whether a unit has a row in the picture; the line always has one. */
export const isDrawn = (track: Track, unit: number): boolean =>
  unit < 0 || (unit < track.units && rowOfUnit(track, unit) >= 0);

/** The track in an order: `pairs` are the units and their sort keys, from top to bottom. */
export function ordered(track: Track, pairs: ArrayLike<number> | null): Track {
  const { units } = track;
  if (!pairs || pairs.length !== 2 * units) return { ...track, order: null, numbers: null };
  const order = Int32Array.from({ length: units }, (_, row) => pairs[row]!),
    numbers = new Float32Array(units).fill(NaN);
  if (new Set(order).size !== units || order.some((unit) => unit < 0 || unit >= units)) return track;
  order.forEach((unit, row) => (numbers[unit] = pairs[units + row]!));
  return { ...track, order, numbers, rows: units };
}

/** The tracks initially drawn only as a line: those with many units computed within a step, such as gates, beside the resulting state. */
export function asides(tracks: Track[]): boolean[] {
  const made = tracks.map(({ label }) => /(gate|cell_input)$/i.test(label));
  return tracks.map(({ units }, at) => made[at]! && units > MOST_ROWS && made.includes(false));
}

/** The track without its units. */
export const slimmed = (track: Track): Track => ({ ...track, slim: true, rows: 0, order: new Int32Array(0) });

export const MOST_ROWS = 48, // number of units visible at once
  CHANGING = 24;

/** The track with only the units that change most over the steps, ordered by the step of their largest distance from the mean; unchanged if it
 * has few units. */
export function changing(track: Track, len: number): Track {
  const { units, value } = track;
  if (units <= MOST_ROWS || len < 2) return track;
  const numbers = new Float32Array(units);
  const farthest = (unit: number) => {
    const of = times(len, (step) => value(step, unit)).map((each) => (Math.abs(each) < Infinity ? each : 0)),
      mean = of.reduce((sum, each) => sum + each, 0) / len,
      away = of.map((each) => Math.abs(each - mean));
    return away.indexOf(away.reduce((most, each) => Math.max(most, each)));
  };
  for (let unit = 0; unit < units; unit++)
    for (let step = 1; step < len; step++) {
      const moved = Math.abs(value(step, unit) - value(step - 1, unit));
      if (moved < Infinity) numbers[unit]! += moved / (len - 1);
    }
  const most = times(units, (unit) => unit).sort((a, b) => numbers[b]! - numbers[a]! || a - b);
  const at = new Map(most.slice(0, CHANGING).map((unit) => [unit, farthest(unit)]));
  const order = Int32Array.from([...at.keys()].sort((a, b) => at.get(a)! - at.get(b)! || a - b));
  return { ...track, order, numbers, rows: order.length };
}

/** The largest value of a line: the top of its scale. */
export const topOf = ({ gate, line, change }: Track): number =>
  gate ? 1 : [...line, ...change].reduce((most, norm) => (norm > most && norm !== Infinity ? norm : most), 0) || 1;

/** The name of a track's line. */
export const lineName = ({ gate }: Track): string => (gate ? "mean opening" : "norm");

/** The number of drawn steps of a track: includes steps after the end if there is a fault. */
export const drawnOf = (scene: Scene, track: Track): number => (track.note ? scene.steps : scene.len);

/** The faults of the tracks of each sequence, as sentences. */
export const faults = ({ seqs, tracks }: Head): string[] =>
  seqs.map((_, seq) => tracks.flatMap(({ label, notes }) => (notes?.[seq] ? `${label} ${notes[seq]}.` : [])).join(" "));
