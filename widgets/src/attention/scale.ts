// Scaling or switching off the chosen map in all steps of a held run; pointing at the button shows a preview of the effect.

import type { Context } from "../context";
import { button, h, on, slider, status } from "../dom";
import type { Change } from "../ghosts";
import { Ghosts } from "../ghosts";
import { placeOf } from "../handles";
import { times } from "../list";
import { line } from "../visible_text";
import type { HeldMap } from "./handles";

export class HeadScale {
  readonly element = h("div.rfnb-head-scale", { role: "group", "aria-label": "this head by hand", hidden: "" });
  private readonly button = button("", () => this.keep(), { "data-do": "scale", "aria-keyshortcuts": "Delete" });
  private readonly said = status("div.rfnb-quiet");
  private readonly ghosts: Ghosts;
  private factor = 0;
  private name = "";
  private seq = 0;
  private held: HeldMap | undefined;

  constructor(
    private readonly ctx: Context,
    private readonly made: (change: Change) => void,
  ) {
    this.ghosts = new Ghosts(ctx, () => this.tell());
    const factor = slider({ min: "0", max: "2", step: "0.25", value: "0", "aria-label": "factor" }, (value) => {
      this.factor = value;
      this.rename();
      this.ghosts.rest(this.change);
    });
    for (const each of [this.button, factor]) {
      for (const begins of ["pointerenter", "focus"] as const) on(each, begins, () => this.ghosts.rest(this.change));
      for (const ends of ["pointerleave", "blur"] as const) on(each, ends, () => this.ghosts.rest(null));
    }
    this.element.append(this.button, h("label.rfnb-choice", "× ", factor), this.said);
  }

  /** Takes another map; without a place in a model there are no buttons. */
  show(held: HeldMap | undefined, name: string, seq: number): void {
    const words = line(name).replace(/,/g, "");
    if (words !== this.name || seq !== this.seq) this.ghosts.clear();
    Object.assign(this, { held, seq, name: words });
    this.element.hidden = !this.change;
    this.rename();
  }

  keep(): void {
    const { change } = this;
    this.ghosts.clear();
    if (change) this.made(change);
  }

  /** From the map's first step on. */
  private get change(): Change | null {
    const { held, factor, name, seq } = this;
    if (!this.ctx.run || !held?.weights) return null;
    const rows = held.steps ?? [0],
      place = times(rows.length, (row) => placeOf(held, row)).find((each) => each),
      entries = { ...held.fixed }, // for all targets
      how = factor ? { scale: factor } : { value: 0 };
    return place
      ? {
          at: `scale ${name} ${factor}`,
          place,
          then: [{ do: "put", place: held.weights, entries, lasting: true, ...how }],
          name: factor ? `${name} × ${factor}` : `${name} = 0`,
          seq,
        }
      : null;
  }

  private rename(): void {
    this.button.textContent = this.factor ? `${this.name} × ${this.factor}` : `Without ${this.name}`;
  }

  /** Previews the effect: a sentence here, and rows below the map. */
  private tell(): void {
    const told = this.ghosts.shown.flatMap(({ told }) => (told ? [told] : []));
    this.said.textContent = told.map(({ refused, words }) => line(refused ?? words ?? "")).join("");
    this.ctx.run?.show(told);
  }

  destroy(): void {
    this.ghosts.clear();
  }
}
