// What every view is given, and what it gives back.

import type { ExactOf } from "./exact_values";
import type { Frame } from "./frame";
import type { Held, HeldRun } from "./run";
import type { Bus } from "./selection";
import type { Palette } from "./theme";

export interface Context {
  palette(): Palette; // colours as they are now
  onTheme(changed: () => void): void; // called when they change; ends with the view
  bus: Bus; // what linked views point at, on the axis `head.axis`
  busOf(axis: string): Bus; // the same on another axis
  hasChooser(): boolean; // whether the page around the view lets choose the sequence
  exact: ExactOf; // exact values of blocks that are not, from the kernel
  held: Held | null; // the run that is shown, whether or not a kernel answers
  readonly run: HeldRun | null; // the run that is shown, where a kernel holds it and answers; else null (a saved page, a plain trace)
}

/** A view in the page. A frame of its kind has heads of type H, as written by Python; missing data is explained in a sentence. */
export interface Rendered<H> {
  update(frame: Frame<H>): void;
  destroy(): void;
}

/** `render.ts` of each view exports one. */
export type Render<H> = (el: HTMLElement, frame: Frame<H>, ctx: Context) => Rendered<H>;
