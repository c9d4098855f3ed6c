// Labels along an axis: shortened, and thinned so that they never overlap.

import { times } from "./list";
import { visible } from "./visible_text";

export type Measure = (text: string) => number;

/** A visible label: marks for invisible characters, truncated after `most` letters. */
export function shorten(label: string, most = 16): string {
  const text = visible(label),
    letters = [...text];
  return letters.length <= most ? text : `${letters.slice(0, most - 1).join("")}…`;
}

/** Labels by `shorten`; paths that would look equal lose the parts that all of them share. */
export function apart(labels: string[], most = 16): string[] {
  const short = labels.map((label) => shorten(label, most));
  if (new Set(short).size === new Set(labels).size) return short;
  const paths = labels.map((label) => label.split(".")).filter(({ length }) => length > 1),
    [first = []] = paths;
  if (paths.some(({ length }) => length !== first.length)) return labels.map((label) => shorten(label, most + 8));
  const differs = first.map((part, at) => paths.some((path) => path[at] !== part));
  return labels.map((label) => {
    const parts = label.split(".");
    return shorten(parts.length > 1 ? parts.filter((_, at) => differs[at]).join(".") : label, most + 8);
  });
}

/** The interval of drawn labels if each needs `room` pixels and has `pitch`: 1, 2, 5, 10, 20, ... */
export function stride(pitch: number, room: number): number {
  for (let base = 1; base < 1e9; base *= 10)
    for (const step of [1, 2, 5]) if (base * step * pitch >= room) return base * step;
  return 1e9;
}

/** The positions of drawn labels. */
export function drawn(count: number, pitch: number, room: number): number[] {
  const every = stride(pitch, room);
  return times(Math.ceil(count / every), (index) => index * every);
}

/** As `drawn`; a text in more than a third of the rows (blanks of an alignment) is left out if not all labels fit. */
export function telling(texts: string[], pitch: number, room: number): number[] {
  const counts = new Map<string, number>();
  if (pitch < room) for (const text of texts) counts.set(text, (counts.get(text) ?? 0) + 1);
  const most = [...counts].find(([, count]) => 3 * count > texts.length)?.[0];
  if (most === undefined) return drawn(texts.length, pitch, room);
  let last = -Infinity;
  return texts.flatMap((text, index) => (text === most || (index - last) * pitch < room ? [] : [(last = index)]));
}

/** Caches widths: measuring is the slow part of drawing text. */
export function measurer(g: CanvasRenderingContext2D | null, font: string): Measure {
  const known = new Map<string, number>();
  return (text) => {
    let width = known.get(text);
    if (width === undefined) {
      if (g) {
        g.font = font;
        width = g.measureText(text).width;
      } else width = text.length * 6.6;
      known.set(text, width);
    }
    return width;
  };
}
