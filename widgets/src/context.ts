// What every view is given, and what it gives back.

import type { Frame } from "./frame";
import type { Bus } from "./selection";
import type { Palette } from "./theme";

export interface Context {
  palette(): Palette; // colours as they are now
  onTheme(changed: () => void): void; // called when they change; ends with the view
  bus: Bus; // what linked views point at, on the axis `head.axis`
  busOf(axis: string): Bus; // the same on another axis
}

export interface Rendered {
  update(frame: Frame): void;
  destroy(): void;
}

/** `render.ts` of each view exports one. */
export type Render = (el: HTMLElement, frame: Frame, ctx: Context) => Rendered;
