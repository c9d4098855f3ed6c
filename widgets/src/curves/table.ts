// The numbers of a curves view as a table: a row for each visible x, a column for each drawn series.

import { table as grid } from "../dom";
import { exact } from "../number";
import type { Curve } from "./layout";
import { pointAt } from "./layout";

const MOST_ROWS = 200,
  MOST_COLS = 48;

export function table(curves: Curve[], name: string, at: number[]): HTMLElement {
  const rows = at.slice(0, MOST_ROWS),
    cols = curves.slice(0, MOST_COLS);
  const value = (curve: Curve, x: number): string => {
    const index = pointAt(curve, x);
    return curve.x[index] === x ? exact(curve.y[index]!) : curve.thin ? "…" : "–"; // …: the kernel may have it
  };
  const left =
    rows.length < at.length || cols.length < curves.length
      ? ` (the first ${rows.length} × ${cols.length} of ${at.length} × ${curves.length}; zoom to see others)`
      : "";
  const heads = [name, ...cols.map((curve) => `${curve.name}${curve.unit && ` (${curve.unit})`}`)];
  return grid(
    `${name} ${exact(at[0]!)} to ${exact(at[at.length - 1]!)}${left}`,
    heads,
    rows.map((x) => [exact(x), ...cols.map((curve) => value(curve, x))]),
  );
}
