// The edits that a person can make at a hypothesis or a pruned candidate.

import { chance } from "../number";
import { h, on } from "../dom";
import type { EditPanel, HeldRows } from "../handles";
import { placeOf } from "../handles";
import type { Change } from "../ghosts";
import { shorten } from "../labels";
import type { Command } from "../run";
import type { Place } from "./cursor";
import { keyOf, stepOf } from "./cursor";
import { line } from "../visible_text";
import type { Cut, Node, Tree } from "./tree";
import { pathOf } from "./tree";

const MOST = 8, // labels in the list
  LONGEST = 24; // letters of one

/** The fields of a search that commands need. `cannot`: why labels cannot be forced in it. */
export interface HeldSearch extends HeldRows {
  cannot?: string;
}
export interface Offered {
  edits: EditPanel;
  tree: Tree;
  seq: number;
  held: HeldSearch | undefined;
  vocab: string[] | undefined;
  loopSteps: number[] | undefined;
}

/** The reason why no label can be forced in a row of a search after a hypothesis; null if it can. */
function refusal({ held, loopSteps }: Offered, row: number, after: Node | null): string | null {
  const isFirst = loopSteps?.[row] === undefined || loopSteps[row] !== loopSteps[row - 1];
  return (
    held?.cannot ??
    (isFirst ? null : "Only the first choice of a step can be edited.") ??
    (after && isComplete(after) ? "A complete hypothesis takes no further label." : null)
  );
}

/** The edit that keeps a pruned candidate, alone or as one of the beam; null if there is none. */
export function changeOf(offered: Offered, cut: Cut, alone = true): Change | null {
  const { held, seq, loopSteps } = offered,
    place = held && placeOf(held, cut.step);
  if (!place || cut.id === undefined || refusal(offered, cut.step, cut.parent) !== null) return null;
  const force = { do: "force", label: cut.id, hypothesis: cut.parent?.slot ?? 0, seq, only: alone },
    name = `${line(cut.token)} at ${loopSteps?.[cut.step] ?? cut.step}`;
  return { at: keyOf({ kind: "cut", cut }), place, then: [force], name, seq };
}

/** Offers the edits at a place of the picture. */
export function offer(offered: Offered, place: Place | null): void {
  const { edits, tree, seq, held, vocab, loopSteps } = offered;
  if (!held || !place) return edits.offer("", "", []);
  const step = stepOf(place),
    item = place.kind === "cut" ? place.cut : place.node,
    name = shorten(item.token, LONGEST),
    { parent } = item,
    from = parent?.slot ?? 0,
    id = place.kind === "cut" ? place.cut.id : tree.spec.steps[step]!.ids?.[place.node.slot];
  const why = refusal(offered, step, parent),
    at = loopSteps?.[step] ?? step,
    key = JSON.stringify([seq, keyOf(place), [...pathOf(parent), item].map(({ token }) => token), id, why]);
  const here = (make: (id: number) => (HTMLElement | string)[]) => ({
    place: placeOf(held, step),
    make: () => (id === undefined || why !== null ? [why ?? ""] : make(id)),
  });
  const found = (slot: number, row: number, at: number) =>
    forcing(seq, slot, (force) => search(tree, slot, row, vocab, force, edits, at));
  if (place.kind === "cut") {
    const make = () => [
      edits.act(`Force ${name} alone`, () => changeOf(offered, place.cut)!.then, `${name} at ${at}`),
      edits.act(
        "Let the beam decide",
        () => changeOf(offered, place.cut, false)!.then,
        `${name} at ${at}, in the beam`,
      ),
    ];
    return edits.offer(key, `${name}, that was cut,`, [here(make)]);
  }
  const { node } = place,
    after = placeOf(held, step, 1),
    next = edits.isAt(after) && refusal(offered, step + 1, node) === null;
  const own = here((id) => [
    edits.act(`Ban ${name} here`, () => [{ do: "ban", label: id, hypothesis: from, seq }], `no ${name} at ${at}`),
    ...found(from, step, at),
  ]);
  edits.offer(key, `${name} in slot ${node.slot}:`, [
    ...(next ? [{ place: after, make: () => found(node.slot, step + 1, at + 1) }] : []),
    own,
  ]);
}

const isComplete = ({ state, left }: Node): boolean => left || ["ended", "carried", "dropped"].includes(state);

/** With a choice whether other hypotheses survive: forcing a label alone shows its own result. */
function forcing(
  seq: number,
  hypothesis: number,
  make: (force: (label: number | string) => Command[]) => HTMLElement[],
): HTMLElement[] {
  const beam = h("input", { type: "checkbox" });
  const force = (label: number | string): Command[] => [{ do: "force", label, hypothesis, seq, only: !beam.checked }];
  return [...make(force), h("label", beam, " let the beam decide")];
}

/** A search field for labels of the vocabulary, by prefix or substring; initially the best ones, if known. */
function search(
  tree: Tree,
  slot: number,
  step: number,
  vocab: string[] | undefined,
  force: (label: number | string) => Command[],
  edits: EditPanel,
  at: number,
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
        const button = edits.act(name, () => force(id), `${shorten(text, LONGEST)} at ${at}`);
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
