// The fate of a hypothesis or candidate, in the same words as rfnb/viz/beams/tree.py; computed on demand.

import { visible } from "../visible_text";
import type { Place } from "./cursor";
import type { Node, Tree } from "./tree";
import { armOf } from "./tree";

export const verdictOf = (tree: Tree, place: Place): string =>
  place.kind === "cut" ? place.cut.verdict : ofNode(tree, place.node);

function ofNode(tree: Tree, node: Node): string {
  const where = placeOf(tree, node);
  switch (node.state) {
    case "carried": {
      let from = node;
      while (from.parent && from.state === "carried") from = from.parent;
      return `complete since step ${from.step}: ${where}`;
    }
    case "ended":
      return node.left ? `complete, and left the beam: ${where}` : `complete: ${where}`;
    case "dropped":
      return `complete, then cut after step ${node.last}: ${where}`;
    case "alive":
      return `kept: ${where}`;
    case "dead": {
      if (node.last > node.step) return `kept: ${where}; the last that continued it was cut after step ${node.last}`;
      const cut = tree.cuts[node.step + 1]?.find(({ parent }) => parent === node); // the best of its continuations
      return `kept: ${where}; nothing that continues it survived${cut ? `, at best ${visible(cut.token)} (${cut.verdict})` : ""}`;
    }
  }
}

/** The rank of a hypothesis in its step. */
function placeOf({ nodes, spec }: Tree, node: Node): string {
  const { arms } = spec,
    arm = armOf(arms, node),
    one = <T>(given: T | T[] | undefined) => (Array.isArray(given) ? given[Math.max(arm, 0)] : given),
    { ranks, of, top } = spec.steps[node.step]!,
    present = nodes[node.step]!.filter((other) => other !== null && armOf(arms, other) === arm) as Node[];
  const better = present.filter(
    ({ score, slot }) => score > node.score || (score === node.score && slot < node.slot),
  ).length;
  const rank = ranks?.[node.slot] ?? better + 1,
    best = one(top) ?? Math.max(...present.map(({ score }) => score)),
    behind = `${(best - node.score).toFixed(2)} nats behind the best`;
  return `rank ${rank} of ${one(of) ?? present.length}, ${rank > 1 ? behind : "the best"}`;
}
