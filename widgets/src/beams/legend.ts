// The legend of a beam tree.

import type { Layout } from "./layout";
import type { Smaller, Tree } from "./tree";

const CUTS = [
  [undefined, "✕\u00a0cut"],
  ["blocked", "⊘\u00a0blocked"],
  ["below the threshold", "▽\u00a0below\u00a0the\u00a0threshold"],
  ["merged", "⊃\u00a0merged"],
] as const;

/** Explains only what the picture contains. */
export function legend({ cuts, spec: { blank } }: Tree, made: Layout, smaller?: Smaller): string {
  const said = made.labels
    ? [
        "thick: the winner",
        "double frame: complete, with its place in the n-best list",
        "dashed: died out",
        "dotted: keeps its place",
      ]
    : made.cells
      ? ["line: the winner", "dark: complete", "middle: goes on", "light: died out"]
      : ["thick: the winner", "square: complete", "small: died out", "larger: more of the probability"];
  if (made.rail) said.push("on top: the tokens of the winner, or of where you point");
  if (made.turns.length) said.push("named: what leaves another way");
  if (blank && !made.cells) said.push(`hollow: “${blank}”,\u00a0no new label`);
  if (smaller) said.push(`faint: not in a beam of ${smaller.size}`);
  if (smaller?.lost !== undefined && smaller.best) said.push("dashed line: its result");
  const shown = made.cuts.flat();
  if (!shown.length) return said.join(" · ");
  const reasons = new Set(cuts.flatMap((row) => row.map((cut) => cut.why)));
  if (made.labels) said.push(...CUTS.flatMap(([why, words]) => (reasons.has(why) ? [words] : [])));
  else said.push("dashes: cut candidates");
  if (shown.some((stub) => stub.margin))
    said.push("in italics: nats behind the last survivor (gap), or ahead of it; no log probability");
  return said.join(" · ");
}
