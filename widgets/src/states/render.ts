// The states view in the page: the strips under one axis of steps, and what is under the cursor.

import { diverging } from "../color";
import type { Context, Render } from "../context";
import type { Frame } from "../frame";
import { rowOf } from "../exact";
import { key, ramp } from "../legend";
import type { Box, Scene as Sight } from "../pane";
import { elsewhere, PanedView } from "../paned";
import { draw, stripsOf } from "./draw";
import type { Head, Layout, Position, Scene } from "./layout";
import { faults, hit, layout, problem, sceneOf, walk } from "./layout";
import { words } from "./words";

class StatesView extends PanedView<Head, Position, Layout> {
  private scene!: Scene;
  private strips: (HTMLCanvasElement | null)[] | null = null;

  constructor(el: HTMLElement, ctx: Context) {
    super(el, ctx, {
      name: "states",
      title: "States",
      hint: "Point at a value, or focus the strips and use the arrow keys; + and − zoom.",
      mostHeight: 760,
    });
  }

  protected missing(frame: Frame<Head>): string | null {
    const { tracks, seqs, live } = frame.head;
    return problem(frame) ?? (tracks.length && seqs.length ? null : `No states${live ? " yet" : ""}.`);
  }

  protected sequences(): [string, boolean][] {
    const { head } = this.frame,
      wrong = faults(head);
    return head.seqs.map(({ label }, seq) => [label, !!wrong[seq]]);
  }

  protected open(): [string, string, string] {
    this.scene = sceneOf(this.frame, this.seq)!;
    const wrong = faults(this.frame.head),
      here = wrong[this.seq]!;
    const others = wrong.filter((said, seq) => said && seq !== this.seq).length;
    return [here && `${this.scene.seq}: ${here}`, "", elsewhere(here, others, "sequence")];
  }

  protected has({ track, unit, step }: Position): boolean {
    const { steps, tracks } = this.scene;
    return step < steps && track < tracks.length && unit < tracks[track]!.units;
  }

  protected lastStep(): number {
    return this.scene.len - 1;
  }

  protected drawLegend(): void {
    const { len, steps } = this.scene;
    const title = "each track has its own scale, the same on both sides of 0";
    this.legend.replaceChildren(ramp(diverging(this.ctx.palette().dark), ["−", "0", "+"], title));
    if (len < steps) this.legend.append(key("padding", "after the end"));
  }

  protected layout(width: number): Layout {
    const { scene, zoom, measure } = this;
    this.strips = null;
    return layout(scene, { width, zoom, measure });
  }

  protected paint(g: CanvasRenderingContext2D, sight: Sight): void {
    const { scene, made, linked } = this,
      palette = this.ctx.palette(),
      colors = diverging(palette.dark);
    this.strips ??= stripsOf(scene, made, colors);
    const { strips, pane, cursor } = this;
    draw(g, sight, { scene, made, palette, colors, strips, cursor: cursor.at, linked, focused: pane.focused });
  }

  protected hit(x: number, y: number): Position | null {
    return hit(this.made, this.scene, x, y);
  }

  protected walk(key: string): Position | null {
    return walk(this.scene, this.cursor.at, key);
  }

  protected boxOf({ track, unit, step }: Position): Box {
    const { left, cell, tracks } = this.made,
      { strip, height, norm, normHeight } = tracks[track]!;
    const tall = height / Math.max(1, this.scene.tracks[track]!.units);
    const [y, high] = unit < 0 ? [norm, normHeight] : [strip + unit * tall, tall + 4];
    return { x: left + step * cell - 2, y: y - 2, width: cell + 4, height: high };
  }

  protected stepOf({ step }: Position): number {
    return step;
  }

  protected words(at: Position): (Node | string)[] {
    return words(this.scene, at, this.exactly(at));
  }

  /** The exact values of a step, if they are there; else they are asked for, and what is said follows. */
  private exactly({ track, unit, step }: Position): Float32Array | null {
    const { block, about } = this.scene.tracks[track]!,
      values = this.frame.blocks[block]!;
    if (!about || unit < 0 || step >= values.shape[1]!) return null;
    return rowOf(this.ctx.exact, block, values, this.seq, step, () => this.point());
  }

  protected describe(at: Position | null) {
    const { seq, tracks, len, steps } = this.scene,
      all = tracks.map(({ label, units, unitName }) => `${label} with ${units} ${unitName}`);
    const rows = (some: typeof tracks) => some.reduce((sum, { units }) => sum + units + 1, 0);
    const row = at && rows(tracks.slice(0, at.track)) + (at.unit < 0 ? tracks[at.track]!.units : at.unit);
    const text = at
      ? words(this.scene, at, this.exactly(at)).map((part) => (typeof part === "string" ? part : part.textContent))
      : [];
    return {
      label: `States of ${seq}: ${all.join(", ")}, over ${len} steps`,
      cell: at && { row: row!, col: at.step, rows: rows(tracks), cols: steps, text: text.join("") },
      data: { row: String(at?.unit ?? ""), col: String(at?.step ?? ""), track: at ? tracks[at.track]!.label : "" },
    };
  }
}

export const render: Render<Head> = (el, frame, ctx) => {
  const view = new StatesView(el, ctx);
  view.update(frame);
  return view;
};
