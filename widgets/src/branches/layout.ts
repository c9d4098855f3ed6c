// From branches to positions: where each leaves, where its changes are and where it ends, in percent of the rail; and which two are compared.

import type { Branch, Head, Pair, Two } from "./check";

/** `below`: at which places lines to branches go down, with the rows that they go through. */
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

/** The lines that go through a row: which of them begin in it, and which end. */
export const through = (all: Row[], row: number): { at: number; begins: boolean; ends: boolean }[] =>
  all.flatMap(({ down }) =>
    down
      .filter(({ from, to }) => from <= row && row <= to)
      .map(({ at, from, to }) => ({ at, begins: from === row, ends: to === row })),
  );

/** The ticks that are written on the axis. */
export function axis(branches: Branch[]): { text: string; at: number }[] {
  const most = Math.max(1, ...branches.map(({ ticks }) => ticks)),
    every = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000].find((step) => most / step <= 8) ?? most;
  return Array.from({ length: Math.floor(most / every) + 1 }, (_, at) => ({
    text: String(at * every),
    at: (100 * at * every) / most,
  }));
}

/** What two chosen ones are compared by: A is the one that was made so; null: the page has not these two. */
export const pairOf = ({ pairs }: Head, [a, b]: Two): Pair | null =>
  pairs.find(({ of }) => of[0] === a && of[1] === b) ?? pairs.find(({ of }) => of[0] === b && of[1] === a) ?? null;

/** The two that are chosen after a row was: of the two before, the one that was chosen earlier goes. */
export const chosenAfter = (order: number[], row: number): number[] =>
  order.includes(row) ? order : [...order, row].slice(-2);
