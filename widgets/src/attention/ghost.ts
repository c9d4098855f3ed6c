// Where ghosts would look: a row of each label of their lanes below the map, which stays as it is.

import { DOTTED, outline, within, write } from "../canvas";
import type { Table } from "../color";
import { css } from "../color";
import { shorten } from "../labels";
import type { Scene } from "../pane";
import type { HeldRun } from "../run";
import type { Palette } from "../theme";
import { visible } from "../visible";
import type { HeldMap } from "./hands";
import type { Layout } from "./layout";
import type { Scale } from "./matrix";

const GAP = 10,
  TALLEST = 20,
  LEAST = 12, // a label has room
  MOST = 48; // rows

/** A row of a ghost in the map that is shown; `begins`: its lane does. */
export interface GhostRow {
  label: string;
  weights: number[];
  begins: boolean;
}

/** The rows of the ghosts that are shown, in a map. */
export function ghostRows(run: HeldRun | null, held: HeldMap | undefined, seq: number): GhostRow[] {
  const fixed = held?.fixed ?? {},
    names = Object.keys(fixed);
  return (run?.shown ?? [])
    .filter(({ lane }) => held && lane?.seq === seq)
    .flatMap(({ lane, attention = [] }) => {
      const of = attention.find(
        (one) =>
          one.path === held!.attention &&
          Object.keys(one.fixed).length === names.length &&
          names.every((name) => one.fixed[name] === fixed[name]),
      );
      return (of?.rows ?? []).map((weights, at) => ({ label: lane!.labels[at] ?? "", weights, begins: !at }));
    })
    .slice(0, MOST);
}

const tallOf = ({ tall }: Layout): number => Math.max(LEAST, Math.min(TALLEST, tall));

/** The room that they take below a map. */
export const ghostHeight = (made: Layout, rows: GhostRow[]): number =>
  rows.length * tallOf(made) + rows.filter(({ begins }) => begins).length * GAP;

/** Draws them from `top` of the content on: fainter than weights that are made, within a dotted line. */
export function drawGhosts(
  g: CanvasRenderingContext2D,
  sight: Scene,
  made: Layout,
  from: number,
  rows: GhostRow[],
  look: { colors: Table; scale: Scale; palette: Palette },
): void {
  const { colors, scale, palette } = look,
    tall = tallOf(made);
  let y = from - sight.top;
  for (const { label, weights, begins } of rows) {
    if (begins) y += GAP;
    const here = y,
      width = weights.length * made.cell;
    within(g, made.left, made.top, sight.width - made.left, sight.height - made.top, () => {
      g.translate(made.left - sight.left, here);
      g.globalAlpha = 0.55;
      for (const [col, weight] of weights.entries()) {
        g.fillStyle = css(colors, scale.share(weight));
        g.fillRect(col * made.cell, 0.5, made.cell - (made.cell > 6 ? 1 : 0), tall - 1);
      }
      g.globalAlpha = 1;
      outline(g, -0.5, 0, width + 1, tall, palette.focus, 1, DOTTED);
    });
    within(g, 0, made.top - 5, made.left, sight.height - made.top + 5, () =>
      write(
        g,
        shorten(visible(label), 18),
        made.left - 6,
        here + tall / 2,
        `italic 11px ${palette.font}`,
        palette.focus,
        "right",
        made.left - 8,
      ),
    );
    y += tall;
  }
}
