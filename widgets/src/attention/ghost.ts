// Attention of previews: below the map, one row for each label of a preview's lane; the map itself does not change.

import { DOTTED, outline, within, write } from "../canvas";
import type { Table } from "../color";
import { css } from "../color";
import { shorten } from "../labels";
import type { Scene } from "../pane";
import type { GhostRows, HeldRun } from "../run";
import type { Palette } from "../theme";
import { visible } from "../visible_text";
import type { HeldMap } from "./handles";
import type { Layout } from "./layout";
import type { Scale } from "./matrix";

const GAP = 10,
  TALLEST = 20,
  LEAST = 12, // a label has room
  MOST = 48; // rows

/** A row of a ghost in the displayed map; `begins`: the first of its lane. */
export interface GhostRow {
  label: string;
  weights: number[];
  begins: boolean;
}

/** The rows of the displayed ghosts, in one map or in the mean of several. */
export function ghostRows(run: HeldRun | null, maps: (HeldMap | undefined)[], seq: number): GhostRow[] {
  return (run?.shown ?? [])
    .filter(({ lane }) => lane?.seq === seq)
    .flatMap(({ lane, attention = [] }) => {
      const found = maps.map((held) => attention.find((one) => held && isOf(one, held))?.rows);
      const rows = found.every((each) => each) ? mean(found as number[][][]) : [];
      return rows.map((weights, at) => ({ label: lane!.labels[at] ?? "", weights, begins: !at }));
    })
    .slice(0, MOST);
}

function isOf({ path, fixed }: GhostRows, held: HeldMap): boolean {
  const own = held.fixed ?? {},
    names = Object.keys(own);
  return (
    path === held.attention &&
    Object.keys(fixed).length === names.length &&
    names.every((name) => fixed[name] === own[name])
  );
}

/** The mean of maps of the same size; [] if they differ. */
function mean(maps: number[][][]): number[][] {
  const [first = [], ...others] = maps;
  if (others.some((map) => map.length !== first.length || map.some((row, at) => row.length !== first[at]!.length)))
    return [];
  return first.map((row, at) => row.map((_, col) => maps.reduce((sum, map) => sum + map[at]![col]!, 0) / maps.length));
}

const tallOf = ({ tall }: Layout): number => Math.max(LEAST, Math.min(TALLEST, tall));

/** Their height below a map. */
export const ghostHeight = (made: Layout, rows: GhostRow[]): number =>
  rows.length * tallOf(made) + rows.filter(({ begins }) => begins).length * GAP;

/** Draws them from `top` of the content on: fainter than computed weights, in a dotted frame. */
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
