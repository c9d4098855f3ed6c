// The edits that a person can make to a state: set it, scale it, add noise, or copy it from another step; before the step after the displayed one.

import { button, h, select, setOptions } from "../dom";
import type { EditPanel, HeldCells, Place } from "../handles";
import { entriesOf, isOfOne, placeOf } from "../handles";
import { line } from "../visible_text";
import type { Command } from "../run";
import type { Position } from "./layout";
import type { Brush, Found } from "./brush";
import type { Track } from "./scene";
import { unitText } from "./scene";

export interface HeldTrack extends HeldCells {
  state?: string; // its path
  gate?: string; // the place of a value computed within a step, such as a gate
  norm?: boolean; // whether a value is a norm, which can only be scaled
}
type Scope = (row: number, seq: number | null, slot: number | null) => Record<string, unknown>;
type Slots = { before: number[]; after: number[] } | null; // of the displayed hypothesis
/** The step before which a value is edited, and its slot: a state exists after the step of its row, a gate is computed in it. */
export function changedAt(held: HeldTrack, step: number, slots: Slots): { place: Place | null; slot: number | null } {
  const side = held.gate === undefined ? "after" : "before";
  return { place: placeOf(held, step, side === "after" ? 1 : 0), slot: slots?.[side][step] ?? null };
}
/** The command that sets a number, or (`more`) another edit of a state; values computed by a model are scaled at their place. */
export const putting = (held: HeldTrack, entries: Record<string, unknown>, more: Record<string, unknown>): Command =>
  held.gate === undefined
    ? { do: "set", state: held.state, entries, ...more }
    : { do: "put", place: held.gate, entries, ...(more["how"] === "scale" ? { scale: more["amount"] } : more) };
/** Replaces the action of a click; false: not expected any more. */
export type Taker = (from: Position) => boolean;
interface Offered {
  edits: EditPanel;
  held: HeldTrack | undefined;
  cannot: string | undefined;
  track: Track;
  seq: number;
  slots: Slots;
  len: number;
  brush: Brush | null; // on this track
  found: Found | null;
  paste: (take: Taker | null) => void; // takes the place of the next click
}

let draws = 0; // of noise: each draw is different

/** Offers the edits of the state at a place. */
export function offer(given: Offered, at: Position | null): void {
  const { edits, held, cannot, track, seq, slots, len, brush, found, paste } = given;
  if (!held || !at || at.step >= len) {
    edits.offer("", "", []);
    if (cannot && at) edits.apply(cannot);
    return;
  }
  const { unit, step } = at,
    { place, slot } = changedAt(held, step, slots),
    isGate = held.gate !== undefined,
    [outer, ...inner] = (held.units ?? []).map(([name]) => name), // for a matrix: head, keys and values
    here = brush && found?.here.length && !inner.length ? found.here : null;
  const key = JSON.stringify([track.label, at, seq, slot, here]),
    one = inner.length
      ? [outer!, ...inner].map((name) => `${line(name)} ${entriesOf(held, step, null, null, unit)[name]}`).join(", ")
      : `unit ${unitText(track, unit)}`;
  const make = (): (Node | string)[] => {
    const within =
      (unit: number | null, ...all: string[]): Scope =>
      (row, seq, slot) => {
        const entries: Record<string, unknown> = entriesOf(held, row, seq, slot, unit);
        for (const name of all) delete entries[name];
        return entries;
      };
    const scopes: [text: string, entries: Scope][] = [["all units", within(null)]];
    if (here && outer)
      scopes.unshift([`${here.length} units on in the range`, (...at) => ({ ...within(null)(...at), [outer]: here })]);
    if (unit >= 0 && outer && inner.length)
      scopes.unshift([`all of ${line(outer)} ${within(unit)(step, null, null)[outer]}`, within(unit, ...inner)]);
    if (unit >= 0) scopes.unshift([one, within(unit)]);
    const whose: [string, boolean, boolean][] = [
      ...(held.slot ? [["this hypothesis", true, true] as [string, boolean, boolean]] : []),
      ...(held.seqs.length
        ? [[held.slot ? "all hypotheses" : "this sequence", true, false] as [string, boolean, boolean]]
        : []),
      ["all sequences", false, false],
    ];
    const scope = select("units", () => {}),
      of = select("hypotheses and sequences", () => {}),
      number = h("input", { type: "number", step: "any", value: "1", "aria-label": "number" });
    setOptions(
      scope,
      scopes.map(([text]) => text),
      0,
    );
    setOptions(
      of,
      whose.map(([text]) => text),
      0,
    );
    const entries: Scope = (...at) => scopes[scope.selectedIndex]![1](...at);
    const set = (more: Record<string, unknown>): Command[] => {
      const [, mine, one] = whose[of.selectedIndex] ?? whose[0]!;
      return [putting(held, entries(step, mine ? seq : null, one ? slot : null), more)];
    };
    const valued = (make: (value: number) => Record<string, unknown>) => () =>
      number.value === "" || !Number.isFinite(Number(number.value)) ? "Which number?" : set(make(Number(number.value)));
    const usual = "Paste from a step…",
      from = button(usual, () => {
        const wait = from.textContent === usual;
        from.textContent = wait ? "Click the step to copy from" : usual;
        paste(wait ? taken : null);
      });
    const taken = ({ step: other }: Position): boolean => {
      if (!from.isConnected) return false; // the panel is for another place now, and would edit that one
      from.textContent = usual;
      const there = slots ? (slots.after[other] ?? null) : null,
        paste = () => set({ how: "paste", from: placeOf(held, other, 1), of: entries(other, seq, there) });
      edits.apply(isOfOne(held, other, there) ? paste() : "The displayed hypothesis has no such step.");
      return true;
    };
    const act = (text: string, make: (value: number) => Record<string, unknown>) => edits.act(text, valued(make));
    return [
      scope,
      of,
      edits.act("Zero", () => set({ value: 0 })),
      number,
      ...(held.norm ? [] : [act("Set", (value) => ({ value }))]),
      act("Scale", (amount) => ({ how: "scale", amount })),
      ...(isGate ? [] : [act("Add noise", (amount) => ({ how: "noise", amount, seed: ++draws })), from]),
    ];
  };
  const what = `${track.label}${unit < 0 ? "" : `, ${one},`} ${isGate ? "in" : "after"} step ${step}`;
  edits.offer(key, `${what}:`, isOfOne(held, step, slot) ? [{ place, make }] : []);
}
