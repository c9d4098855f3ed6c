// The description of what is under the cursor of a distribution.

import { h, quiet } from "../dom";
import { shorten } from "../labels";
import { exact, short } from "../number";
import type { Position, Row, Scene } from "./layout";

/** The label under the cursor with its probability, and a description of the step. */
export function words(scene: Scene, { step, item }: Position): (Node | string)[] {
  const row = scene.rows[step]!,
    at = [quiet(`${scene.stepName} `), h("b", shorten(row.name, 40)), ": "];
  if (!row.best.length) return [...at, "no numbers, NaN or infinity"];
  const share = row.best[item];
  const here = share
    ? [
        h("b", shorten(share.label, 40)),
        ` ${short(share.prob)}`,
        quiet(` (log ${exact(share.logProb)}), rank ${item + 1}`),
      ]
    : [`all other labels ${short(row.rest)}`];
  return [...at, ...here, quiet("; "), ...ofReference(scene, row), quiet(`; entropy ${short(row.entropy)} nats`)];
}

function ofReference(scene: Scene, row: Row): (Node | string)[] {
  if (row.reference === null) return [quiet(scene.reference ? "no reference here" : "no reference")];
  const label = h("b", shorten(row.reference, 40));
  if (!row.rank) return [quiet("reference "), label, quiet(", without a probability")];
  const verdict = row.rank === 1 ? "✓ right" : "✗ wrong";
  return [
    quiet("reference "),
    label,
    ` ${verdict}`,
    quiet(
      `, probability ${short(Math.exp(row.logProb))}, loss ${exact(0 - row.logProb)} nats, rank ${row.rank} of ${scene.size}`,
    ),
  ];
}
