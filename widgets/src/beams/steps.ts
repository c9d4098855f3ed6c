// The picture as a table: a row for each step, a column for each place of the beam, for those who do not see the picture.

import { h } from "../dom";
import { fixed } from "../number";
import { shorten } from "../labels";
import type { Cut, Node, Tree } from "./tree";

const MOST_STEPS = 200,
  MOST_SLOTS = 16,
  LONGEST = 20; // letters of a token

/** Fills the table; of a large search with its first steps and the best places. */
export function showSteps(box: HTMLElement, tree: Tree, axis: string): void {
  const slots = Math.max(0, ...tree.nodes.map((row) => row.length)),
    shown = Math.min(slots, MOST_SLOTS),
    steps = tree.nodes.slice(0, MOST_STEPS);
  const won = new Set(tree.best.map(([step, slot]) => `${step},${slot}`));
  const left = [
    ...(steps.length < tree.nodes.length ? [`${steps.length} of ${tree.nodes.length} steps`] : []),
    ...(shown < slots ? [`${shown} of ${slots} places`] : []),
  ];
  const column = (name: string) => h("th", { scope: "col" }, name);
  const body = steps.map((row, step) =>
    h(
      "tr",
      {},
      h("th", { scope: "row" }, String(step)),
      ...Array.from({ length: shown }, (_, slot) => h("td", {}, cell(row[slot] ?? null, won.has(`${step},${slot}`)))),
      h("td", {}, bestCut(tree.cuts[step]![0])),
    ),
  );
  const places = Array.from({ length: shown }, (_, slot) => column(`slot ${slot}`));
  box.replaceChildren(
    h(
      "table",
      {},
      h("caption", {}, ["Token, score, slot of the step before", ...left].join("; ")),
      h("thead", {}, h("tr", {}, column(axis), ...places, column("best that was cut"))),
      h("tbody", {}, ...body),
    ),
  );
}

const from = (parent: Node | null): string => (parent ? ` from ${parent.slot}` : "");

function cell(node: Node | null, won: boolean): string {
  if (!node) return "";
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
