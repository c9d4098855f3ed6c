// The picture as a table for screen readers: a row for each step, a column for each slot of the beam.

import { table } from "../dom";
import { times } from "../list";
import { fixed } from "../number";
import { shorten } from "../labels";
import type { Cut, Node, Tree } from "./tree";
import { isWon } from "./tree";

const MOST_STEPS = 200,
  MOST_SLOTS = 16,
  LONGEST = 20; // letters of a token

/** Fills the table; a large search has its first steps and best slots. */
export function showSteps(box: HTMLElement, tree: Tree, axis: string): void {
  const slots = Math.max(0, ...tree.nodes.map((row) => row.length)),
    shown = Math.min(slots, MOST_SLOTS),
    steps = tree.nodes.slice(0, MOST_STEPS);
  const left = [
    ...(steps.length < tree.nodes.length ? [`${steps.length} of ${tree.nodes.length} steps`] : []),
    ...(shown < slots ? [`${shown} of ${slots} places`] : []),
  ];
  const body = steps.map((row, step): [string, ...string[]] => [
    String(step),
    ...times(shown, (slot) => cell(row[slot] ?? null, tree)),
    bestCut(tree.cuts[step]![0]),
  ]);
  const { arms } = tree.spec,
    name = (slot: number) => (slot < arms!.split ? `A ${slot}` : `B ${slot - arms!.split}`),
    places = times(shown, (slot) => (arms ? name(slot) : `slot ${slot}`));
  box.replaceChildren(
    table(["Token, score, slot of the step before", ...left].join("; "), [axis, ...places, "best that was cut"], body),
  );
}

const from = (parent: Node | null): string => (parent ? ` from ${parent.slot}` : "");

function cell(node: Node | null, tree: Tree): string {
  if (!node) return "";
  const won = isWon(tree, node);
  const fate = {
    alive: "",
    ended: ", complete",
    carried: ", keeps its place",
    dropped: ", complete, then cut",
    dead: ", died out",
  };
  return `${shorten(node.token, LONGEST)} ${fixed(node.score, 2)}${from(node.parent)}${fate[node.state]}${won ? ", winner" : ""}`;
}

const bestCut = (cut: Cut | undefined): string =>
  cut ? `${shorten(cut.token, LONGEST)} ${fixed(cut.score, 2)}${from(cut.parent)}: ${cut.verdict}` : "";
