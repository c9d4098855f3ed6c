// The overview grid of all maps: which are side by side, in which order, and at which position. Pure geometry in CSS pixels, without a page.

import type { Block } from "../block";
import type { Frame } from "../frame";
import { apart } from "../labels";
import type { Head, MapEntry } from "./matrix";

/** The choice. `layer` and `head` beyond the last one mean the average of all. */
export interface Choice {
  layer: number;
  head: number;
  seq: number;
  step: number;
}
export type By = "layer" | "seq" | "step";
export type Order = "place" | "high" | "low" | "looks";
export interface Wanted {
  by: By; // what rows stand for
  order: Order;
  badge: number; // of head.badges; -1 for none
  least: number; // maps with a smaller badge value are drawn faintly
}

export interface Item extends Choice {
  maps: number[]; // one, or several whose mean it is
  label: string; // in full
  short: string;
  badge: number;
  looks: string;
  wrong: boolean;
  faint: boolean;
}
export interface Line {
  title: string;
  items: (Item | null)[];
}
/** Lines of maps: a table with a column for each head, or a sequence with line breaks. */
export interface Grid {
  cols: string[] | null;
  lines: Line[];
}

const layersOf = (head: Head): string[] => head.layers ?? [""];
const headsOf = (head: Head): string[] => head.heads ?? head.maps.map(({ label }) => label);
export const placeOf = (entry: MapEntry, index: number): [number, number] => entry.at ?? [0, index];

/** The maps at a place that are averaged: none if their axes differ, as in self- and cross-attention. */
export function mapsAt({ head, blocks }: Frame<Head>, { layer, head: column, step }: Omit<Choice, "seq">): number[] {
  const [layers, heads] = [layersOf(head).length, headsOf(head).length];
  const found = head.maps.flatMap((entry, index) => {
    const [own, other] = placeOf(entry, index);
    return (entry.step ?? 0) === step && (layer >= layers || own === layer) && (column >= heads || other === column)
      ? [index]
      : [];
  });
  const axes = new Set(
    found.map((index) => {
      const { block, row_dim, col_dim } = head.maps[index]!;
      return [row_dim?.name, col_dim?.name, ...(blocks[block]?.shape.slice(1) ?? [])].join();
    }),
  );
  return axes.size > 1 ? [] : found;
}

/** The nearest place with maps. */
export function nearest(frame: Frame<Head>, choice: Choice): Choice {
  const { head } = frame;
  if (mapsAt(frame, choice).length) return choice;
  const fits = head.maps.map((entry, index) => ({ at: placeOf(entry, index), step: entry.step ?? 0 }));
  const first =
    fits.find(({ at, step }) => at[0] === choice.layer && step === choice.step) ??
    fits.find(({ at, step }) => at[1] === choice.head && step === choice.step) ??
    fits.find(({ step }) => step === choice.step) ??
    fits[0];
  return first ? { ...choice, layer: first.at[0], head: first.at[1], step: first.step } : choice;
}

const MANY = 16; // maps: fewer than this are all visible at once

/** The most informative head: the largest difference; among many maps of weights the most diagonal one, else the one with the lowest
 * entropy; null without one. */
export function telling({ head, blocks }: Frame<Head>): number | null {
  if (head.signed) return strongest(head.maps.map(({ block }) => blocks[block]!));
  const block = blocks["badges"];
  if (head.live || head.maps.length <= MANY || !block) return null;
  const best = (looks: string, badge: string, sign: number): number | null => {
    const [word, column] = [(head.looks ?? []).indexOf(looks), (head.badges ?? []).indexOf(badge)];
    const found = head.maps.flatMap((entry, map) =>
      word >= 0 && column >= 0 && !entry.step && entry.looks?.[0] === word
        ? [[sign * block.at(map, 0, column), map]]
        : [],
    ) as [number, number][];
    return found.length ? found.reduce((most, one) => (one[0] > most[0] ? one : most))[1] : null;
  };
  return best("along the diagonal", "diagonal", 1) ?? best("at few", "entropy", -1);
}

/** The block with the value farthest from 0 in its first sequence. */
function strongest(blocks: Block[]): number {
  const ends = blocks.map(({ at, shape: [, rows = 0, cols = 0] }) => {
    let most = 0;
    for (let row = 0; row < rows; row++)
      for (let col = 0; col < cols; col++) {
        const away = Math.abs(at(0, row, col));
        if (away > most) most = away;
      }
    return most;
  });
  return ends.reduce((best, end, index) => (end > ends[best]! ? index : best), 0);
}

/** The possible meanings of rows, each only if it has several values. */
export function rowsBy(head: Head): By[] {
  const seqs = Math.max(0, ...head.maps.map(({ seqs }) => seqs.length));
  const has = { layer: layersOf(head).length, seq: seqs, step: head.slider?.labels.length ?? 1 };
  const found = (["layer", "seq", "step"] as const).filter((by) => has[by] > 1);
  return found.length ? found : ["layer"];
}

export function gridOf(frame: Frame<Head>, chosen: Choice, { by, order, badge, least }: Wanted): Grid {
  const { head } = frame,
    block = frame.blocks["badges"],
    [layers, heads] = [layersOf(head), headsOf(head)];
  const value = (map: number, seq: number, which: number): number =>
    block && which >= 0 && map < block.shape[0]! && seq < block.shape[1]! ? block.at(map, seq, which) : NaN;
  const item = (choice: Choice): Item | null => {
    const maps = mapsAt(frame, choice).filter((map) => choice.seq < head.maps[map]!.seqs.length);
    if (!maps.length) return null;
    const mean = choice.layer >= layers.length || choice.head >= heads.length;
    if (mean && maps.length < 2) return null;
    const [first] = maps as [number],
      entry = head.maps[first]!;
    const own = mean ? NaN : value(first, choice.seq, badge);
    const names = [
      choice.layer < layers.length ? layers[choice.layer]! : layers.length > 1 ? "mean of the layers" : "",
      choice.head < heads.length ? heads[choice.head]! : heads.length > 1 ? "mean of the heads" : "",
      by === "seq" ? head.seqs[entry.seqs[choice.seq]!]!.label : "",
      by === "step" && head.slider ? `${head.slider.name} ${head.slider.labels[choice.step]}` : "",
    ];
    const shorts = [layers, heads].map((labels, side) =>
      labels.length > 1 ? briefly(labels[side ? choice.head : choice.layer] ?? "mean") : "",
    );
    return {
      ...choice,
      maps,
      label: names.filter(Boolean).join(", ") || entry.label,
      short: shorts.filter(Boolean).join(" "),
      badge: own,
      looks: mean ? "" : (head.looks?.[entry.looks?.[choice.seq] ?? -1] ?? ""),
      wrong: maps.some((map) => !!head.maps[map]!.notes?.[choice.seq]),
      faint: least > 0 && !(own >= least),
    };
  };
  if (order === "place") return inPlace(frame, chosen, by, item);
  const all: Item[] = [];
  layers.forEach((_, layer) =>
    heads.forEach((_, column) => {
      const one = item({ ...chosen, layer, head: column });
      if (one) all.push(one);
    }),
  );
  if (order === "looks") {
    const words = [...(head.looks ?? []), ""];
    const lines = words.map((looks) => ({ looks, items: all.filter((one) => one.looks === looks) }));
    return {
      cols: null,
      lines: lines
        .filter(({ items }) => items.length)
        .map(({ looks, items }) => ({ title: `${looks || "no weights"} (${items.length})`, items })),
    };
  }
  const sign = order === "high" ? -1 : 1;
  const rank = ({ badge: own }: Item) => (Number.isNaN(own) ? Infinity : sign * own);
  return { cols: null, lines: [{ title: "", items: all.sort((a, b) => rank(a) - rank(b) || 0) }] };
}

function inPlace(frame: Frame<Head>, chosen: Choice, by: By, item: (choice: Choice) => Item | null): Grid {
  const { head } = frame,
    [layers, heads] = [layersOf(head), headsOf(head)];
  const columns = heads.length > 1 ? [...heads.keys(), heads.length] : [...heads.keys()];
  const seqs = head.maps[mapsAt(frame, chosen)[0] ?? 0]?.seqs ?? [];
  const rows: [string, Partial<Choice>][] =
    by === "layer"
      ? [...layers.keys(), ...(layers.length > 1 ? [layers.length] : [])].map((layer) => [
          layers[layer] ?? "mean",
          { layer },
        ])
      : by === "seq"
        ? seqs.map((index, seq) => [head.seqs[index]!.label, { seq }])
        : (head.slider?.labels ?? [""]).map((label, step) => [label, { step }]);
  const lines = rows.map(([title, change]) => ({
    title,
    items: columns.map((column) => item({ ...chosen, head: column, ...change })),
  }));
  const without = by === "layer" && !lines.at(-1)?.items.some(Boolean) ? layers.length : lines.length; // a mean that does not exist
  return { cols: columns.map((column) => heads[column] ?? "mean"), lines: lines.slice(0, without) };
}

/** "layer 3" as "L3". */
export function briefly(label: string): string {
  const found = /^(\p{L})\p{L}* (\d+)$/u.exec(label);
  return found ? `${found[1]!.toUpperCase()}${found[2]}` : label.length > 9 ? `${label.slice(0, 8)}…` : label;
}

/** The common word before a number in all labels: "head" in "head 0", "head 1"; "" without one. */
export function wordOf(labels: string[]): string {
  const words = new Set(
    labels.filter((label) => label !== "mean").map((label) => /^(\S+) \d+$/.exec(label)?.[1] ?? ""),
  );
  const [word] = words;
  return words.size === 1 ? word! : "";
}

export interface Placed {
  item: Item;
  x: number;
  y: number;
}
export interface GridLayout {
  size: number; // of a map, square
  caption: number; // height of the line below it
  left: number;
  top: number;
  width: number;
  height: number;
  places: Placed[];
  titles: { text: string; y: number; lone: boolean }[]; // lone: on a line of its own
  columns: { text: string; x: number }[];
}

const GAP = 4,
  SIZE_MOST = 56,
  SIZE_LEAST = 15,
  ROW_LEAST = 26,
  FLOW = 46,
  CAPTION = 14,
  LINE = 15;

export function layoutGrid(
  { cols, lines }: Grid,
  { width, height }: { width: number; height: number },
  measure: (text: string) => number,
  badged: boolean,
): GridLayout {
  const places: Placed[] = [],
    titles: GridLayout["titles"] = [];
  // One layer with many heads is not a table.
  if (!cols || (lines.length === 1 && cols.length * (FLOW + GAP) > width)) return flow(lines, width, places, titles);
  const texts = lines.map(({ title }) => title);
  const word = wordOf(texts);
  const plain = texts.map((text) => (word && text.startsWith(`${word} `) ? text.slice(word.length + 1) : text));
  const titled = apart(plain, 18);
  const widest = Math.min(160, Math.max(0, ...titled.map(measure)));
  const left = texts.some(Boolean) ? Math.ceil(Math.max(widest, measure(word ? `${word} ↓` : "")) + 10) : 2;
  const fit = Math.floor((width - left) / Math.max(1, cols.length)) - GAP;
  const top = cols.some(Boolean) ? 2 * LINE : 2;
  const down = Math.floor((height - top) / Math.max(1, lines.length)) - GAP - (badged ? CAPTION : 0); // all rows visible, if they are large enough
  const size = Math.min(SIZE_MOST, Math.max(SIZE_LEAST, Math.min(fit, Math.max(ROW_LEAST, down)))),
    caption = badged && size >= 20 ? CAPTION : 0;
  lines.forEach(({ items }, row) => {
    const y = top + row * (size + caption + GAP);
    titles.push({ text: titled[row]!, y: y + size / 2, lone: false });
    items.forEach((item, col) => {
      if (item) places.push({ item, x: left + col * (size + GAP), y });
    });
  });
  const head = wordOf(cols);
  const columns = cols.map((text, col) => ({
    text: head && text.startsWith(`${head} `) ? text.slice(head.length + 1) : text,
    x: left + col * (size + GAP) + size / 2,
  }));
  const tall = lines.length * (size + caption + GAP);
  return {
    size,
    caption,
    left,
    top,
    width: left + cols.length * (size + GAP),
    height: top + tall,
    places,
    titles,
    columns,
  };
}

function flow(lines: Line[], width: number, places: Placed[], titles: GridLayout["titles"]): GridLayout {
  const across = Math.max(1, Math.floor((width + GAP) / (FLOW + GAP))),
    caption = 2 * 11 + 3;
  let y = 2;
  for (const { title, items } of lines) {
    if (title) {
      titles.push({ text: title, y: y + LINE / 2, lone: true });
      y += LINE + 2;
    }
    items.forEach((item, index) => {
      if (item)
        places.push({
          item,
          x: 2 + (index % across) * (FLOW + GAP),
          y: y + Math.floor(index / across) * (FLOW + caption + GAP),
        });
    });
    y += Math.ceil(items.length / across) * (FLOW + caption + GAP) + 4;
  }
  return {
    size: FLOW,
    caption,
    left: 0,
    top: 0,
    width: 2 + across * (FLOW + GAP),
    height: y,
    places,
    titles,
    columns: [],
  };
}

export function hitGrid({ places, size, caption }: GridLayout, x: number, y: number): Item | null {
  const half = GAP / 2;
  const found = places.find(
    (one) => x >= one.x - half && x < one.x + size + half && y >= one.y - half && y < one.y + size + caption + half,
  );
  return found?.item ?? null;
}

export const same = (one: Choice, other: Choice): boolean =>
  one.layer === other.layer && one.head === other.head && one.seq === other.seq && one.step === other.step;

/** The map that a key leads to from the chosen one; null for other keys. */
export function walkGrid({ places }: GridLayout, chosen: Choice, key: string): Item | null {
  const at = places.findIndex(({ item }) => same(item, chosen));
  if (!places.length) return null;
  if (key === "Home") return places[0]!.item;
  if (key === "End") return places[places.length - 1]!.item;
  if (key === "ArrowLeft" || key === "ArrowRight") {
    const to = at + (key === "ArrowLeft" ? -1 : 1);
    return places[Math.max(0, Math.min(places.length - 1, to))]!.item;
  }
  if (key !== "ArrowUp" && key !== "ArrowDown") return null;
  const from = places[at] ?? places[0]!;
  const beyond = places.filter(({ y }) => (key === "ArrowUp" ? y < from.y : y > from.y));
  if (!beyond.length) return from.item;
  const next = beyond.reduce((best, one) =>
    Math.abs(one.y - from.y) < Math.abs(best.y - from.y) ||
    (one.y === best.y && Math.abs(one.x - from.x) < Math.abs(best.x - from.x))
      ? one
      : best,
  );
  return next.item;
}
