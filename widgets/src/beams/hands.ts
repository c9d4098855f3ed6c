// What may be done by hand with a hypothesis, or with a candidate that was cut.

import { chance } from "../number";
import { h, on } from "../dom";
import type { Hands, HeldRows } from "../hands";
import { placeOf } from "../hands";
import { shorten } from "../labels";
import type { Command } from "../run";
import type { Place } from "./cursor";
import { keyOf, stepOf } from "./cursor";
import type { Node, Tree } from "./tree";
import { pathOf } from "./tree";

const MOST = 8, // labels that are offered at once
  LONGEST = 24; // letters of one

/** Of a search: what commands need. `cannot`: why no label is forced in it. */
export interface HeldSearch extends HeldRows {
  cannot?: string;
}
interface Offered {
  hands: Hands;
  tree: Tree;
  seq: number;
  held: HeldSearch | undefined;
  vocab: string[] | undefined;
  loopSteps: number[] | undefined;
}

/** Offers what may be done at a place of the picture. */
export function offer({ hands, tree, seq, held, vocab, loopSteps }: Offered, place: Place | null): void {
  if (!held || !place) return hands.offer("", "", []);
  const step = stepOf(place),
    item = place.kind === "cut" ? place.cut : place.node,
    name = shorten(item.token, LONGEST),
    { parent } = item,
    from = parent?.slot ?? 0,
    id = place.kind === "cut" ? place.cut.id : tree.spec.steps[step]!.ids?.[place.node.slot];
  const isFirst = (row: number) => loopSteps?.[row] === undefined || loopSteps[row] !== loopSteps[row - 1];
  const no = (row: number, of: Node | null) =>
    held.cannot ??
    (isFirst(row) ? null : "Only the first choice of a step is decided by hand.") ??
    (of && isComplete(of) ? "What is complete takes no further label." : null);
  const why = no(step, parent),
    key = JSON.stringify([seq, keyOf(place), [...pathOf(parent), item].map(({ token }) => token), id, why]);
  const here = (make: (id: number) => (HTMLElement | string)[]) => ({
    place: placeOf(held, step),
    make: () => (id === undefined || why !== null ? [why ?? ""] : make(id)),
  });
  const found = (slot: number, row: number) =>
    forcing(seq, slot, (force) => search(tree, slot, row, vocab, force, hands));
  if (place.kind === "cut") {
    const make = (id: number) => forcing(seq, from, (force) => [hands.act(`Force ${name} here`, () => force(id))]);
    return hands.offer(key, `${name}, that was cut,`, [here(make)]);
  }
  const { node } = place,
    after = placeOf(held, step, 1),
    next = hands.isAt(after) && no(step + 1, node) === null;
  const own = here((id) => [
    hands.act(`Ban ${name} here`, () => [{ do: "ban", label: id, hypothesis: from, seq }]),
    ...found(from, step),
  ]);
  hands.offer(key, `${name} in slot ${node.slot}:`, [
    ...(next ? [{ place: after, make: () => found(node.slot, step + 1) }] : []),
    own,
  ]);
}

const isComplete = ({ state, left }: Node): boolean => left || ["ended", "carried", "dropped"].includes(state);

/** With a choice whether anything else goes on. */
function forcing(
  seq: number,
  hypothesis: number,
  make: (force: (label: number | string) => Command[]) => HTMLElement[],
): HTMLElement[] {
  const only = h("input", { type: "checkbox" });
  const force = (label: number | string): Command[] => [{ do: "force", label, hypothesis, seq, only: only.checked }];
  return [...make(force), h("label", only, " and nothing else goes on")];
}

/** A field to find a label of the vocabulary: what is typed begins it, or is in it; at first the best ones, where they are known. */
function search(
  tree: Tree,
  slot: number,
  step: number,
  vocab: string[] | undefined,
  force: (label: number | string) => Command[],
  hands: Hands,
): HTMLElement[] {
  const { next } = tree.spec.steps[step] ?? {},
    best = next?.["all"] ?? next?.[slot] ?? [],
    shares = new Map(best.map(([, value, id]) => [id, value <= 0 ? ` ${chance(value)}` : ""]));
  const field = h("input", { type: "search", placeholder: "label", "aria-label": "find a label to force" }),
    found = h("span", { role: "group", "aria-label": "labels to force" });
  const fill = () => {
    const typed = field.value,
      all = (vocab ?? []).map((text, id) => ({ text, id })),
      low = typed.toLowerCase();
    const rank = (text: string) => {
      const at = text.toLowerCase().indexOf(low);
      return text === typed ? 0 : at ? (at > 0 ? 2 : 3) : 1;
    };
    const some: { text: string; id: number | string }[] = typed
      ? vocab
        ? all.filter(({ text }) => rank(text) < 3).sort((a, b) => rank(a.text) - rank(b.text))
        : [{ text: typed, id: /^\d+$/.test(typed) ? Number(typed) : typed }]
      : best.flatMap(([text, , id]) => (id === undefined ? [] : [{ text, id }]));
    const twice = new Set(some.filter(({ text }, at) => some.some((one, of) => of !== at && one.text === text)));
    found.replaceChildren(
      ...some.slice(0, MOST).map((one) => {
        const { text, id } = one,
          name = `${shorten(text, LONGEST)}${twice.has(one) ? ` (${id})` : ""}${shares.get(id as number) ?? ""}`;
        const button = hands.act(name, () => force(id));
        button.setAttribute("aria-label", `force ${name}`);
        return button;
      }),
      ...(typed && !some.length ? ["no such label"] : some.length > MOST ? [`and ${some.length - MOST} more`] : []),
    );
  };
  on(field, "input", fill);
  on(field, "keydown", (event) => {
    if (event.key === "Enter") found.querySelector("button")?.click();
  });
  fill();
  return [h("label", "Force ", field), found];
}
