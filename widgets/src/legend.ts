// The legend: the meaning of the colours and marks of a picture.

import { times } from "./list";
import type { Table } from "./color";
import { css } from "./color";
import { h } from "./dom";

/** The colours from the lowest to the highest value, with numbers below. */
export function ramp(colors: Table, numbers: string[], title: string): HTMLElement {
  const bar = h("span.rfnb-ramp");
  const stops = times(9, (index) => css(colors, index / 8));
  bar.style.background = `linear-gradient(to right, ${stops.join(", ")})`;
  const ticks = numbers.map((number) => h("span", number));
  return h("span.rfnb-ramp-box", { title }, bar, h("span.rfnb-ramp-ticks", ...ticks));
}

export const key = (mark: "frame" | "padding" | "missing" | "causal" | "masked", words: string): HTMLElement =>
  h("span.rfnb-key", h("i", { class: `rfnb-key-${mark}` }), words);
