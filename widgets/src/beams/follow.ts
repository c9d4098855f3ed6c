// The data that linked views need of a hypothesis: its slot of the beam in each step of the loop.

import type { Hypothesis } from "../selection";
import { line } from "../visible_text";
import type { Place } from "./cursor";
import { keyOf, tip } from "./cursor";
import type { Node, Tree } from "./tree";
import { cutText, pathOf, prefix, untold } from "./tree";

/** The hypothesis of a place: the one through a node, or the parent of a pruned candidate, with the step of the pruning. */
export function whole(tree: Tree, place: Place): { path: Node[]; cut: Place | null } {
  return place.kind === "node"
    ? { path: pathOf(tip(tree, place.node)), cut: null }
    : { path: pathOf(place.cut.parent), cut: place };
}

/** The same for linked views. `loopSteps`: the loop's step for each step; several choices in a step of the loop are one row. */
export function hypothesisOf(tree: Tree, place: Place, join: string, loopSteps?: number[]): Hypothesis {
  const { path, cut } = whole(tree, place);
  const made: Hypothesis = {
    place: keyOf(cut ?? { kind: "node", node: path.at(-1)! }),
    text: "",
    labels: [],
    before: [],
    after: [],
  };
  const add = (step: number, token: string, before: number, after: number | null): void => {
    const at = loopSteps?.[step] ?? step;
    if (made.labels[at] === undefined) made.before[at] = before;
    made.labels[at] = made.labels[at] === undefined ? token : `${made.labels[at]}|${token}`;
    if (after !== null) made.after[at] = after;
  };
  for (const node of path) add(node.step, node.written ? node.token : "", node.parent?.slot ?? 0, node.slot);
  if (cut?.kind === "cut") add(cut.cut.step, cut.cut.token, cut.cut.parent?.slot ?? 0, null);
  made.text = line(cut?.kind === "cut" ? cutText(cut.cut, join) : prefix(path, join)) || untold(path.at(-1)!);
  if (made.text.length > 60) made.text = `… ${made.text.slice(-58)}`;
  return made;
}
