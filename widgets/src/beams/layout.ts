// From a beam tree to positions: pure geometry in CSS pixels, no page. x = step, y = slot; the best cut candidates hang under their parent.

import { shorten as cutTo } from "../labels";
import type { Cut, Node, Tree } from "./tree";

export type Zoom = "auto" | "labels" | "overview";
export interface Options {
  width: number; // of the space there is
  zoom: Zoom;
  cuts: number; // how many cut candidates per step to draw
  measure: (label: string) => number; // width of a label in a pill
}

export interface PlacedNode {
  node: Node;
  x: number;
  y: number;
  label: string;
  width: number;
  won: boolean;
  fromX: number;
  fromY: number; // where the edge from the parent starts
}
export interface PlacedCut {
  cut: Cut;
  x: number;
  y: number;
  label: string;
  fromX: number;
  fromY: number;
  room: number;
} // room: for its text
export interface Layout {
  labels: boolean; // pills with text; else dots
  width: number;
  height: number;
  axis: number; // height of the step axis on top
  x: number[];
  lanes: number[];
  root: { x: number; y: number };
  half: number; // half the height of a pill, or the radius of a dot
  columns: PlacedNode[][];
  cuts: PlacedCut[][];
  every: number; // each how-many-th step gets its number on the axis
}

export const PILL_HALF = 11;
const AXIS = 22,
  LANE = 46,
  STUB = 15,
  MARGIN = 34,
  GAP = 26,
  GAP_MIN = 16,
  GAP_MAX = 44,
  LONGEST = 14;
const OVERVIEW_HEIGHT = 420;

export function layout(tree: Tree, options: Options): Layout {
  const lanes = Math.max(0, ...tree.nodes.map((row) => row.length));
  const labels = tree.nodes.map((row) => row.map((node) => (node ? shorten(node.token) : "")));
  const widths = labels.map((row) => Math.max(26, ...row.map((label) => (label ? options.measure(label) + 18 : 0))));
  const pills = widths.reduce((sum, width) => sum + width, 0);
  const steps = tree.nodes.length;
  const fits = MARGIN * 2 + pills + steps * GAP_MIN <= options.width;
  const roomy = steps <= 60 && lanes <= 16;
  const withLabels = options.zoom === "labels" || (options.zoom === "auto" && (fits || roomy));
  return withLabels ? pillLayout(tree, options, labels, widths, pills, lanes) : dotLayout(tree, options, lanes);
}

export const shorten = (token: string): string => cutTo(token, LONGEST);

function pillLayout(
  tree: Tree,
  options: Options,
  labels: string[][],
  widths: number[],
  pills: number,
  lanes: number,
): Layout {
  const steps = tree.nodes.length;
  const gap = Math.min(
    GAP_MAX,
    Math.max(
      pills + steps * GAP_MIN + MARGIN * 2 <= options.width ? GAP_MIN : GAP,
      (options.width - MARGIN * 2 - pills) / Math.max(steps, 1),
    ),
  );
  const x: number[] = [];
  let at = MARGIN;
  for (const width of widths) {
    at += gap;
    x.push(at + width / 2);
    at += width;
  }
  const shown = tree.cuts.map((row) => row.slice(0, options.cuts));
  const stubs = new Array<number>(Math.max(lanes, 1)).fill(0); // how many stubs hang under each lane at most
  for (const row of shown) {
    const here = new Map<number, number>();
    for (const cut of row) {
      const lane = cut.parent?.slot ?? 0;
      here.set(lane, (here.get(lane) ?? 0) + 1);
      stubs[lane] = Math.max(stubs[lane]!, here.get(lane)!);
    }
  }
  const y: number[] = [];
  let down = AXIS + 6 + PILL_HALF + 4;
  for (let lane = 0; lane < Math.max(lanes, 1); lane++) {
    y.push(down);
    down += LANE + stubs[lane]! * STUB;
  }
  const root = { x: MARGIN - 10, y: y[0]! };
  const width = (node: Node) =>
    node.state === "carried" ? 10 : Math.max(26, options.measure(labels[node.step]![node.slot]!) + 18);
  const columns = place(tree, x, y, root, (node) => labels[node.step]![node.slot]!, width);
  const left = (step: number) => x[step]! - widths[step]! / 2 + 4;
  const cuts = shown.map((row, step) => {
    const here = new Map<number, number>();
    const room = (step + 1 < steps ? left(step + 1) : at + MARGIN) - left(step) - 16;
    return row.map((cut) => {
      const lane = cut.parent?.slot ?? 0;
      const order = here.get(lane) ?? 0;
      here.set(lane, order + 1);
      return {
        cut,
        label: shorten(cut.token),
        x: left(step),
        y: y[lane]! + PILL_HALF + 24 + order * STUB,
        room,
        fromX: cut.parent ? x[step - 1]! + width(cut.parent) / 2 : root.x,
        fromY: y[lane]!,
      };
    });
  });
  return {
    labels: true,
    width: at + MARGIN,
    height: down - LANE + PILL_HALF + 24,
    axis: AXIS,
    x,
    lanes: y,
    root,
    half: PILL_HALF,
    columns,
    cuts,
    every: 1,
  };
}

function dotLayout(tree: Tree, options: Options, lanes: number): Layout {
  const steps = Math.max(tree.nodes.length, 1);
  const pitch = Math.min(26, Math.max(3, (options.width - MARGIN * 2) / steps));
  const lane = Math.min(22, Math.max(4, OVERVIEW_HEIGHT / Math.max(lanes, 1)));
  const x = tree.nodes.map((_, step) => MARGIN + (step + 0.5) * pitch);
  const y = Array.from({ length: Math.max(lanes, 1) }, (_, slot) => AXIS + 6 + (slot + 0.5) * lane);
  const half = Math.min(5, Math.max(0.8, Math.min(pitch, lane) * 0.28));
  const root = { x: MARGIN - pitch / 2, y: y[0]! };
  const columns = place(
    tree,
    x,
    y,
    root,
    (node) => node.token,
    () => half * 2,
  );
  const few = pitch >= 8 && lane >= 8 ? Math.min(options.cuts, 3) : 0;
  const cuts = tree.cuts.map((row, step) =>
    row.slice(0, few).map((cut, order) => {
      const fromY = y[cut.parent?.slot ?? 0]!;
      return {
        cut,
        label: cut.token,
        x: x[step]! - pitch * 0.45,
        y: fromY + lane * 0.3 + order * 2,
        fromX: step ? x[step - 1]! : root.x,
        fromY,
        room: 0,
      };
    }),
  );
  return {
    labels: false,
    width: MARGIN * 2 + steps * pitch,
    height: AXIS + 12 + Math.max(lanes, 1) * lane,
    axis: AXIS,
    x,
    lanes: y,
    root,
    half,
    columns,
    cuts,
    every: [1, 2, 5, 10, 20, 50, 100, 200, 500].find((every) => every * pitch >= 34) ?? 1000,
  };
}

function place(
  tree: Tree,
  x: number[],
  y: number[],
  root: { x: number; y: number },
  label: (node: Node) => string,
  width: (node: Node) => number,
): PlacedNode[][] {
  const best = new Set(tree.best.map(([step, slot]) => `${step},${slot}`));
  return tree.nodes.map((row, step) =>
    row.flatMap((node, slot) => {
      if (!node) return [];
      const from = node.parent ? { x: x[step - 1]! + width(node.parent) / 2, y: y[node.parent.slot]! } : root;
      const won = best.has(`${step},${slot}`);
      return [
        { node, x: x[step]!, y: y[slot]!, label: label(node), width: width(node), won, fromX: from.x, fromY: from.y },
      ];
    }),
  );
}

export type Target = { kind: "node"; placed: PlacedNode } | { kind: "cut"; placed: PlacedCut };

/** What is at a point; a little beside it counts too. */
export function hit(made: Layout, x: number, y: number): Target | null {
  const step = nearest(made.x, x);
  const slack = made.labels ? 6 : 4;
  for (const placed of made.cuts[step] ?? []) {
    if (made.labels && Math.abs(y - placed.y) <= 8 && x >= placed.x - 14 && x <= placed.x + 60)
      return { kind: "cut", placed };
  }
  let found: PlacedNode | null = null;
  let distance = Infinity;
  for (const placed of made.columns[step] ?? []) {
    const far = Math.abs(y - placed.y);
    if (far < distance) {
      distance = far;
      found = placed;
    }
  }
  if (!found || distance > made.half + slack) return null;
  const reach = made.labels ? found.width / 2 + slack : Infinity;
  return Math.abs(x - found.x) <= reach ? { kind: "node", placed: found } : null;
}

/** Index of the entry of a sorted list that is nearest to a value. */
export function nearest(sorted: number[], value: number): number {
  let low = 0,
    high = sorted.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (sorted[middle]! <= value) low = middle;
    else high = middle;
  }
  return high >= 0 && Math.abs(sorted[high]! - value) < Math.abs(sorted[low]! - value) ? high : Math.max(low, 0);
}
