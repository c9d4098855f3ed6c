// Edits of a row of attention by hand: redrawn, sharpened, put on one position; in its own step or in the next one.

import { h } from "../dom";
import type { Context } from "../context";
import type { Hands, HeldCells, HeldRows, Offer, Place } from "../handles";
import { entriesOf, isOfOne, placeOf } from "../handles";
import { times } from "../list";
import type { Command } from "../run";
import type { Palette } from "../theme";
import type { Matrix, Position } from "./matrix";
import type { Drawn } from "./row";
import { rowEditor } from "./row";

const COMING = -1; // a row of which nothing is known yet: it has all dims

export interface HeldMap extends HeldCells {
  attention: string; // its path
  axis: string;
  weights?: string; // all of the map, as a place in the model that is recorded
  widths: number | number[]; // how many positions there are, in all rows or row by row
}
/** The step of each row, and the commands of each column with what they have besides in a row. */
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
  hands: Hands;
  held: HeldMap | undefined;
  matrix: Matrix; // of the row exactly
  seq: number;
  slots: { before: number[]; after: number[] } | null; // of the hypothesis that is shown
  last: number; // the last row that was computed
  palette: () => Palette;
}

/** A cell of a map of effects as a branch. null: nothing is done. */
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

/** Makes a change, or shows the branch that has it. */
export function open({ run }: Context, hands: Hands, change: Change | null): void {
  const there = change && run?.state.runs.find(({ name }) => name === change.name);
  if (there) void run!.do({ do: "follow", number: there.number });
  else if (change) hands.keep(change);
}

/** Offers what may be done with the row of a cell; gives what puts all weight on a position. */
export function offer(
  { hands, held, matrix, seq, slots, last, palette }: Offered,
  at: Position | null,
): ((col: number) => void) | null {
  if (!held || !at || at.row > last) {
    hands.offer("", "", []);
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
      apply: (drawn: Drawn) => hands.apply([{ do: "attention", path: held.attention, entries: entries(), ...drawn }]),
    });
    focusOf.set(hands, focus);
    const heads = Object.keys(held.fixed ?? {}).length
      ? [h("label", all, ` all of ${Object.keys(held.fixed!).join(", ")}`)]
      : [];
    return [...parts, ...heads];
  };
  const after = placeOf(held, row, 1),
    [before, then] = [slots?.before[row] ?? null, slots?.after[row] ?? null];
  const next: Offer[] =
    row === last && hands.isAt(after) && typeof held.widths === "number" && isOfOne(held, COMING, then)
      ? [{ place: after, make: editor(COMING, then) }]
      : [];
  const own: Offer[] = isOfOne(held, row, before) ? [{ place: placeOf(held, row), make: editor(row, before) }] : [];
  const key = JSON.stringify([matrix.label, seq, row, slots, values]);
  hands.offer(key, `Weights of ${matrix.rowLabel(row)}${matrix.label === "weights" ? "" : `, ${matrix.label}`}:`, [
    ...next,
    ...own,
  ]);
  return (col) => focusOf.get(hands)?.(col);
}

const focusOf = new WeakMap<Hands, (col: number) => void>(); // of the editor that is shown
