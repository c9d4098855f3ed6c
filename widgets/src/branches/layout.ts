// From branches to positions in percent of the rail: where each branches off, where it was edited and where it ends; and which two are compared.

import type { Branch, Head, Pair, Two } from "./check";

/** `below`: the positions of vertical lines to branches, with the rows that they cross. */
export interface Row {
  start: number;
  end: number;
  marks: number[];
  down: { at: number; from: number; to: number }[];
}

export function rows(branches: Branch[]): Row[] {
  const most = Math.max(1, ...branches.map(({ ticks }) => ticks)),
    percent = (tick: number | null) => (100 * Math.min(tick ?? 0, most)) / most;
  const all = branches.map(({ left, ticks, marks }) => ({
    start: percent(left),
    end: percent(ticks),
    marks: marks.map(percent),
    down: [] as Row["down"],
  }));
  branches.forEach(({ parent, left }, to) => {
    if (parent !== null) all[parent]!.down.push({ at: percent(left), from: parent, to });
  });
  return all;
}

/** The lines that cross a row, and which of them begin or end in it. */
export const through = (all: Row[], row: number): { at: number; begins: boolean; ends: boolean }[] =>
  all.flatMap(({ down }) =>
    down
      .filter(({ from, to }) => from <= row && row <= to)
      .map(({ at, from, to }) => ({ at, begins: from === row, ends: to === row })),
  );

/** The labelled ticks of the axis. */
export function axis(branches: Branch[]): { text: string; at: number }[] {
  const most = Math.max(1, ...branches.map(({ ticks }) => ticks)),
    every = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000].find((step) => most / step <= 8) ?? most;
  return Array.from({ length: Math.floor(most / every) + 1 }, (_, at) => ({
    text: String(at * every),
    at: (100 * at * every) / most,
  }));
}

/** The comparison of two chosen branches, in the order in which it was made; null if the page lacks it. */
export const pairOf = ({ pairs }: Head, [a, b]: Two): Pair | null =>
  pairs.find(({ of }) => of[0] === a && of[1] === b) ?? pairs.find(({ of }) => of[0] === b && of[1] === a) ?? null;

/** The two chosen branches after a choice: the earlier one of the previous two is dropped. */
export const chosenAfter = (order: number[], row: number): number[] =>
  order.includes(row) ? order : [...order, row].slice(-2);
