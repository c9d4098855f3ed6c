// Keyboard navigation in a beam tree: left to the parent, right to the continuation, up and down through the step, pruned candidates last.

import { fixed } from "../number";
import type { Cut, Node, Tree } from "./tree";
import { line, visible } from "../visible_text";
import { childrenOf, cutText, isWon, pathOf, prefix, untold } from "./tree";
import { verdictOf } from "./verdict";

const LONGEST = 40;

export type Place = { kind: "node"; node: Node } | { kind: "cut"; cut: Cut };

export const keyOf = (place: Place | null): string =>
  place === null
    ? ""
    : place.kind === "node"
      ? `${place.node.step},${place.node.slot}`
      : `${place.cut.step},cut${place.cut.index}`;

export const stepOf = (place: Place): number => (place.kind === "node" ? place.node.step : place.cut.step);

/** The place with a key such as "3,1" or "3,cut0"; null if it does not exist (any more). */
export function placeOf(tree: Tree, key: string): Place | null {
  const [step, rest] = key.split(",");
  if (rest === undefined) return null;
  if (rest.startsWith("cut")) {
    const cut = tree.cuts[Number(step)]?.[Number(rest.slice(3))];
    return cut ? { kind: "cut", cut } : null;
  }
  const node = tree.nodes[Number(step)]?.[Number(rest)];
  return node ? { kind: "node", node } : null;
}

/** The place that a key leads to; the same place at the edge, null for other keys. */
export function walk(tree: Tree, at: Place | null, key: string, cuts: number): Place | null {
  if (!["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "Home", "End"].includes(key)) return null;
  if (!at) return start(tree);
  switch (key) {
    case "ArrowLeft":
      return node(at.kind === "cut" ? at.cut.parent : at.node.parent) ?? at;
    case "ArrowRight":
      return at.kind === "node" ? (node(onward(tree, at.node)) ?? at) : at;
    case "Home":
      return (
        node(at.kind === "node" ? pathOf(at.node)[0] : ((at.cut.parent && pathOf(at.cut.parent)[0]) ?? null)) ?? at
      );
    case "End":
      return at.kind === "node" ? (node(tip(tree, at.node)) ?? at) : at;
    default:
      return beside(tree, at, key === "ArrowUp" ? -1 : 1, cuts);
  }
}

/** The end of the winner's path, or the best node of the last step. */
export function start(tree: Tree): Place | null {
  const end = tree.best[tree.best.length - 1];
  const won = end && tree.nodes[end[0]]?.[end[1]];
  return node(won ?? tree.nodes[tree.nodes.length - 1]?.find((other) => other) ?? null);
}

const node = (found: Node | null | undefined): Place | null => (found ? { kind: "node", node: found } : null);

/** The continuation to follow: on the winner's path, else the one that goes furthest, else the best. */
function onward(tree: Tree, from: Node): Node | null {
  const children = childrenOf(tree, from);
  return (
    children.find((child) => isWon(tree, child)) ??
    children.sort((a, b) => b.last - a.last || b.score - a.score)[0] ??
    null
  );
}

/** The last node of the hypothesis through a node. */
export function tip(tree: Tree, from: Node): Node {
  let at = from;
  for (let next = onward(tree, at); next; next = onward(tree, at)) at = next;
  return at;
}

function beside(tree: Tree, at: Place, direction: 1 | -1, cuts: number): Place {
  const step = stepOf(at);
  const column: Place[] = [
    ...tree.nodes[step]!.flatMap((other): Place[] => (other ? [{ kind: "node", node: other }] : [])),
    ...tree.cuts[step]!.slice(0, cuts).map((cut): Place => ({ kind: "cut", cut })),
  ];
  const index = column.findIndex((place) => keyOf(place) === keyOf(at));
  return column[index + direction] ?? at;
}

/** The last whole tokens of a long text. */
function ending(text: string, join: string): string {
  const end = text.slice(-LONGEST),
    at = join ? end.indexOf(join) : -1;
  return `… ${end.slice(at < 0 ? 0 : at + join.length)}`;
}

/** One place in a sentence, for the status line and for screen readers. */
export function sentence(tree: Tree, place: Place, join: string): string {
  const item = place.kind === "node" ? place.node : place.cut;
  const text = line(place.kind === "node" ? prefix(pathOf(place.node), join) : cutText(place.cut, join));
  const shown = text.length > LONGEST ? ending(text, join) : text.trim() || untold(item); // so that the verdict is visible
  const added = tree.parts.flatMap((name, at) => (item.parts[at] ? [`${name} ${fixed(item.parts[at], 3)}`] : []));
  const made = added.length ? ` (${added.join(", ")})` : "";
  const where =
    place.kind === "node" ? `step ${item.step}, slot ${place.node.slot}` : `step ${item.step}, cut candidate`;
  return `${where}: ${shown}. Score ${fixed(item.score, 3)}, token ${visible(item.token)} ${fixed(item.gain, 3)}${made}. ${verdictOf(tree, place)}.`;
}
