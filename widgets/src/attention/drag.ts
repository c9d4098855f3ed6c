// Dragging a weight inside the map: its row is renormalized, and the labels that the run would produce appear beside it.

import { write } from "../canvas";
import type { Change } from "../ghosts";
import { Trial } from "../ghosts";
import type { Context } from "../context";
import { entriesOf, isOfOne, placeOf } from "../handles";
import { shorten } from "../labels";
import { times } from "../list";
import { chance, share } from "../number";
import type { Grip, Scene } from "../pane";
import type { Told } from "../run";
import type { Palette } from "../theme";
import { line } from "../visible_text";
import type { HeldMap } from "./handles";
import type { Layout } from "./layout";
import type { Matrix, Position } from "./matrix";
import { withRow } from "./matrix";
import { withWeight } from "./row";

const FULL = 110; // pixels from a weight of 0 to one of 1
/** Pixels beside a map for the labels that result from a drag. */
export const BESIDE = 116;

interface Given {
  held: HeldMap;
  matrix: Matrix; // with the exact row
  seq: number;
  name: string; // of the row
  slots: { before: number[]; after: number[] } | null;
}

/** Whether the weights of a row can be edited: all of them are in the page, a step computes them, and their hypothesis is known. */
export const isMovable = (held: HeldMap, { stored }: Matrix, row: number, slots: Given["slots"]): boolean =>
  !!placeOf(held, row) && isOfOne(held, row, slots?.before[row] ?? null) && stored.down <= 1 && stored.across <= 1;

/** Grips a weight of a computed row; `changed` is called with the map as it would be, and with null at the end. */
export class Drag {
  told: Told | null = null;
  row = -1;
  private readonly trial: Trial;

  constructor(
    ctx: Context,
    private readonly changed: (matrix: Matrix | null) => void,
    private readonly keep: (change: Change) => void,
  ) {
    this.trial = new Trial(ctx, (told) => {
      if (this.row < 0) return;
      this.told = told;
      this.changed(this.now);
    });
  }

  private now: Matrix | null = null;

  grab({ held, matrix, seq, slots, name: label }: Given, { row, col }: Position): Grip | null {
    const width = typeof held.widths === "number" ? held.widths : held.widths[row]!,
      slot = slots?.before[row] ?? null,
      place = placeOf(held, row),
      open = (at: number) => at < matrix.colLen && !matrix.hidden(row, at);
    if (!place || !isMovable(held, matrix, row, slots) || !open(col) || col >= width) return null;
    const values = times(width, (at) => (at < matrix.colLen ? matrix.value(row, at) || 0 : 0)),
      entries = entriesOf(held, row, seq, slot);
    const change = (_: number, down: number): Change => {
      const drawn = withWeight(values, col, values[col]! - down / FULL, open),
        name = `${line(label)}: ${share(drawn[col]!).replace(/^0|\.00$/, "")} on ${line(matrix.colLabel(col))}`,
        then = [{ do: "attention", path: held.attention, entries, row: drawn }];
      this.row = row;
      this.changed((this.now = withDrawn(matrix, row, drawn)));
      return { at: "drag", place, then, name, seq };
    };
    const over = () => {
      this.row = -1;
      this.now = this.told = null;
      this.changed(null);
    };
    return this.trial.grip(change, over, this.keep);
  }

  stop(): void {
    this.trial.stop();
  }

  /** The labels from the dragged row on, each with its probability; previous labels are struck through. "…": for an earlier weight. */
  draw(
    g: CanvasRenderingContext2D,
    { left, top, height }: Scene,
    made: Layout,
    matrix: Matrix,
    palette: Palette,
  ): void {
    const lane = this.told?.lane;
    if (this.row < 0 || !lane) return;
    const x = made.left + matrix.cols * made.cell + 10 - left;
    for (const [at, label] of lane.labels.entries()) {
      const row = this.row + at,
        y = made.top + (row + 0.5) * made.tall - top;
      if (row >= matrix.rows || y < made.top || y > height) continue;
      const was = matrix.rowLabel(row),
        before = at ? lane.scores[at - 1]! : lane.before,
        sure = chance(Math.min(0, lane.scores[at]! - before)),
        differs = was !== label;
      let from = x;
      if (differs) {
        const font = `11px ${palette.font}`,
          old = shorten(was, 8);
        g.font = font;
        const width = g.measureText(old).width;
        write(g, old, from, y, font, palette.muted);
        g.fillStyle = palette.muted;
        g.fillRect(from, y - 0.5, width, 1);
        from += width + 6;
      }
      const text = `${shorten(label, 8)}  ${sure}${this.trial.behind ? " …" : ""}`;
      write(g, text, from, y, `${differs ? "bold " : ""}11px ${palette.font}`, differs ? palette.focus : palette.muted);
    }
  }
}

/** The map with another row, also in the drawn cells. */
function withDrawn(matrix: Matrix, row: number, drawn: number[]): Matrix {
  const made = withRow(matrix, row, drawn);
  return {
    ...made,
    about: matrix.about,
    stored: { ...matrix.stored, value: (r, c) => (r === row ? drawn[c]! : matrix.stored.value(r, c)) },
  };
}
