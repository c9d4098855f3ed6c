// What the colours and marks of a picture mean.

import type { Table } from "./color";
import { css } from "./color";
import { h } from "./dom";

/** The colours from the lowest to the highest value, with numbers below. */
export function ramp(colors: Table, numbers: string[], title: string): HTMLElement {
  const bar = h("span", { class: "rfnb-ramp" });
  const stops = Array.from({ length: 9 }, (_, index) => css(colors, index / 8));
  bar.style.background = `linear-gradient(to right, ${stops.join(", ")})`;
  const ticks = numbers.map((number) => h("span", {}, number));
  return h("span", { class: "rfnb-ramp-box", title }, bar, h("span", { class: "rfnb-ramp-ticks" }, ...ticks));
}

export const key = (mark: "frame" | "padding" | "missing" | "causal" | "masked", words: string): HTMLElement =>
  h("span", { class: "rfnb-key" }, h("i", { class: `rfnb-key-${mark}` }), words);
