// Edits of a row of attention: draw it, sharpen it, or put its weight on one position; in its own step or in the next one.

import { h } from "../dom";
import type { Context } from "../context";
import type { EditPanel, HeldCells, HeldRows, Offer, Place } from "../handles";
import { entriesOf, isOfOne, placeOf } from "../handles";
import { times } from "../list";
import type { Command } from "../run";
import type { Palette } from "../theme";
import type { Matrix, Position } from "./matrix";
import type { Drawn } from "./row";
import { rowEditor } from "./row";

const COMING = -1; // a row that does not exist yet: it has all dims

export interface HeldMap extends HeldCells {
  attention: string; // its path
  axis: string;
  weights?: string; // the whole map, as a place in the recorded model
  widths: number | number[]; // number of positions, in all rows or row by row
}
/** The step of each row, and the commands of each column with their further fields in a row. */
export interface HeldEffects extends HeldRows {
  run: number; // of which it is
  then: Command[][];
  words: string[];
  by_row: Record<string, unknown>[];
}
export interface Change {
  place: Place;
  then: Command[];
  name: string;
}
interface Offered {
  edits: EditPanel;
  held: HeldMap | undefined;
  matrix: Matrix; // with the exact row
  seq: number;
  slots: { before: number[]; after: number[] } | null; // of the displayed hypothesis
  last: number; // the last row that was computed
  palette: () => Palette;
}

/** The branch behind a cell of a map of effects; null without one. */
export function effectOf(
  { run }: Context,
  held: HeldEffects | null | undefined,
  { row, col }: Position,
): Change | null {
  const place = held && placeOf(held, row),
    then = held?.then[col];
  if (!run || !place || !then || run.state.run !== held.run) return null;
  const name = `${held.words[col]} at ${place.step}`;
  return { place, then: then.map((each) => ({ ...each, ...held.by_row[row] })), name };
}

/** Makes an edit, or shows the branch that has it. */
export function open({ run }: Context, edits: EditPanel, change: Change | null): void {
  const there = change && run?.state.runs.find(({ name }) => name === change.name);
  if (there) void run!.do({ do: "follow", number: there.number });
  else if (change) edits.keep(change);
}

/** Offers the edits of a cell's row; returns a function that puts all weight on a position. */
export function offer(
  { edits, held, matrix, seq, slots, last, palette }: Offered,
  at: Position | null,
): ((col: number) => void) | null {
  if (!held || !at || at.row > last) {
    edits.offer("", "", []);
    return null;
  }
  const { row } = at,
    width = typeof held.widths === "number" ? held.widths : held.widths[row]!,
    values = times(width, (col) => (col < matrix.colLen ? matrix.value(row, col) || 0 : 0));
  const all = h("input", { type: "checkbox" });
  const editor = (of: number, slot: number | null) => (): (Node | string)[] => {
    const entries = () => {
      const found = entriesOf(held, of, seq, slot);
      if (all.checked) for (const name of Object.keys(held.fixed ?? {})) delete found[name];
      return found;
    };
    const { parts, focus } = rowEditor({
      start: at.col,
      row: values,
      label: matrix.colLabel,
      open: (col) => col < matrix.colLen && !matrix.hidden(row, col),
      palette,
      apply: (drawn: Drawn) => edits.apply([{ do: "attention", path: held.attention, entries: entries(), ...drawn }]),
    });
    focusOf.set(edits, focus);
    const heads = Object.keys(held.fixed ?? {}).length
      ? [h("label", all, ` all of ${Object.keys(held.fixed!).join(", ")}`)]
      : [];
    return [...parts, ...heads];
  };
  const after = placeOf(held, row, 1),
    [before, then] = [slots?.before[row] ?? null, slots?.after[row] ?? null];
  const next: Offer[] =
    row === last && edits.isAt(after) && typeof held.widths === "number" && isOfOne(held, COMING, then)
      ? [{ place: after, make: editor(COMING, then) }]
      : [];
  const own: Offer[] = isOfOne(held, row, before) ? [{ place: placeOf(held, row), make: editor(row, before) }] : [];
  const key = JSON.stringify([matrix.label, seq, row, slots, values]);
  edits.offer(key, `Weights of ${matrix.rowLabel(row)}${matrix.label === "weights" ? "" : `, ${matrix.label}`}:`, [
    ...next,
    ...own,
  ]);
  return (col) => focusOf.get(edits)?.(col);
}

const focusOf = new WeakMap<EditPanel, (col: number) => void>(); // of the displayed editor
