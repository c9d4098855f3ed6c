// The input that every view gets, and the interface that it implements.

import type { ExactOf } from "./exact_values";
import type { Frame } from "./frame";
import type { Held, HeldRun } from "./run";
import type { Bus } from "./selection";
import type { Palette } from "./theme";

export interface Context {
  palette(): Palette; // the current colours
  onTheme(changed: () => void): void; // called when they change; ends with the view
  bus: Bus; // the selection of linked views, on the axis `head.axis`
  busOf(axis: string): Bus; // the selection on another axis
  hasChooser(): boolean; // whether the page around the view has a chooser for the sequence
  exact: ExactOf; // exact values of inexact blocks, from the kernel
  held: Held | null; // the displayed run, whether or not a kernel answers
  readonly run: HeldRun | null; // the displayed run if a kernel holds it and answers; else null (a saved page, a plain trace)
}

/** A view in the page. A frame of its kind has heads of type H, as written by Python; missing data is explained in a sentence. */
export interface Rendered<H> {
  update(frame: Frame<H>): void;
  destroy(): void;
}

/** Exported by the `render.ts` of each view. */
export type Render<H> = (el: HTMLElement, frame: Frame<H>, ctx: Context) => Rendered<H>;
