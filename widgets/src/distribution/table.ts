// The numbers of a distribution view as a table: a row for each step.

import { table } from "../dom";
import { shorten } from "../labels";
import { times } from "../list";
import { short } from "../number";
import type { Row, Scene } from "./layout";

const MOST = 500, // steps
  BEST = 5; // labels of each

/** The steps of a scene with their best labels, and the reference if there is one. */
export function stepsTable({ rows, reference, stepName, vocabName }: Scene): HTMLTableElement {
  const shown = rows.slice(0, MOST),
    best = Math.min(BEST, Math.max(0, ...shown.map((row) => row.best.length)));
  const ofReference = ({ reference: label, rank, logProb }: Row): string[] => [
    label === null ? "–" : shorten(label, 24),
    rank ? (rank === 1 ? "right" : `wrong, rank ${rank}`) : "–",
    rank ? short(0 - logProb) : "–",
  ];
  const bestOf = (row: Row, at: number): string => {
    const share = row.best[at];
    return share ? `${shorten(share.label, 24)} ${short(share.prob)}` : "–";
  };
  return table(
    shown.length < rows.length ? `the first ${MOST} of ${rows.length} steps` : `all ${rows.length} steps`,
    [
      stepName,
      ...(reference ? ["reference", "verdict", "loss, nats"] : []),
      ...times(best, (at) => (at ? `${vocabName} ${at + 1}` : `best ${vocabName}`)),
      "all others",
      "entropy, nats",
    ],
    shown.map((row) => [
      shorten(row.name),
      ...(reference ? ofReference(row) : []),
      ...times(best, (at) => bestOf(row, at)),
      ...(row.best.length ? [short(othersOf(row, best)), short(row.entropy)] : ["–", "–"]),
    ]),
  );
}

const othersOf = ({ best, rest }: Row, shown: number): number =>
  best.slice(shown).reduce((sum, { prob }) => sum + prob, rest);
