// What the marks of a beam tree mean.

import type { Tree } from "./tree";

const ALWAYS =
  "thick: the winner · double frame or square: complete, with its place in the n-best list · faint: died out · dotted: keeps its place";
const CUTS = [
  [undefined, "✕\u00a0cut, with its distance to the last survivor"],
  ["blocked", "⊘\u00a0blocked"],
  ["below the threshold", "▽\u00a0below\u00a0the\u00a0threshold"],
  ["merged", "⊃\u00a0merged"],
] as const;

/** Only the reasons that this search has. */
export function legend({ cuts }: Tree, blank: string | undefined): string {
  const reasons = new Set(cuts.flatMap((row) => row.map((cut) => cut.why)));
  const said = CUTS.flatMap(([why, words]) => (reasons.has(why) ? [words] : []));
  return [ALWAYS, ...(blank ? [`“${blank}”\u00a0no new label`] : []), ...said].join(" · ");
}
