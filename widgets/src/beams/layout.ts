// From a beam tree to positions: pure geometry in CSS pixels, without a page. x is the step, y the slot; the best pruned candidates hang below their parent.
//
// Tokens are in pills, in columns as wide as their content, so that lines cross only between columns. Where that does not fit, the tree has dots,
// with tokens where there is room; where a step has only a few pixels, it has cells.

import { coarse } from "../dom";
import { shorten as cutTo } from "../labels";
import { times } from "../list";
import { fixed } from "../number";
import type { Cut, Node, Tree } from "./tree";
import { isWon } from "./tree";

export type Zoom = "auto" | "labels" | "overview";
export interface Options {
  width: number; // of the available space
  zoom: Zoom;
  cuts: number; // number of pruned candidates to draw per step
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
  fromY: number; // start of the edge from the parent
  bendFrom: number;
  bendTo: number; // it changes its height between these: between two columns
}
export interface PlacedCut {
  cut: Cut;
  x: number;
  y: number;
  label: string;
  margin: string; // in words; "" without a margin or space
  fromX: number;
  fromY: number;
  bendFrom: number;
  bendTo: number;
  width: number; // of its text, from x
  join: { x: number; y: number } | null; // left end of the hypothesis it was merged into, instead of a stub
}
export interface Layout {
  labels: boolean; // pills with text
  cells: boolean; // too small for dots
  width: number;
  height: number;
  axis: number; // height of the header that does not scroll
  rail: boolean; // whether the header has the upright tokens of a hypothesis
  x: number[];
  lanes: number[];
  root: { x: number; y: number };
  half: number; // half the height of a pill, or the radius of a dot
  tokens: boolean; // dots: whether some show their token
  nodes: (Node | null)[][];
  columns: PlacedNode[][]; // the nodes of each step; not with cells
  at: (node: Node) => PlacedNode;
  cuts: PlacedCut[][];
  turns: { x: number; y: number; label: string }[]; // dots: the tokens of survivors where they branch from other survivors
  parting: { x: number; y: number } | null; // where two searches diverge, and the line between them
  lane: number; // from one slot to the next
  every: number; // interval of the step numbers on the axis
}

export const PILL_HALF = 11;
/** Pixels between two searches in one picture, for their names. */
export const BETWEEN = 40;
/** Pixels of a step below which no edge and no dot can be told from the next. */
export const LEAST_PITCH = 6;
const AXIS = 20,
  LANE = 46,
  STUB = coarse() ? 30 : 15,
  MARGIN = 36,
  GAP = 20, // between columns, for edges
  GAP_MAX = 44,
  LEAST_PILL = 26,
  UNWRITTEN = 13, // the place of a hypothesis that stays as it is
  AROUND = 18, // what a pill is wider than its token
  BESIDE = 14, // the sign of a cut candidate, before its token
  MOST_LANES = 12,
  LONGEST = 14;
/** Letters of a token that stands on end. */
export const LONGEST_ON_END = 10;
const OVERVIEW_HEIGHT = 420,
  WIDEST = 110, // of a step
  NAMED = 17, // the least height of a lane in which dots have names
  SMALL = 0.85, // of the width of a token in an overview
  ON_END = 11; // pixels that a token on end takes

export function layout(tree: Tree, options: Options): Layout {
  const lanes = Math.max(0, ...tree.nodes.map((row) => row.length));
  const most = options.width - MARGIN * 2;
  const possible = tree.nodes.length * (LEAST_PILL + GAP) <= most && lanes <= MOST_LANES;
  if (options.zoom === "labels" || (options.zoom === "auto" && possible)) {
    const columns = [true, false].map((margins) => columnsOf(tree, options, margins));
    const fitting = columns.find(({ total }) => total <= most);
    if (fitting || options.zoom === "labels") return pillLayout(tree, options, fitting ?? columns[0]!, lanes);
  }
  return dotLayout(tree, options, lanes);
}

export const shorten = (token: string): string => cutTo(token, LONGEST);

const nameOf = ({ arm, token }: Cut): string => (arm ? `${arm} ` : "") + shorten(token);

/** A candidate's distance from the last survivor, in words: it is not a log probability. */
export function marginOf({ margin }: Cut): string {
  if (margin === null) return "";
  const far = fixed(Math.abs(margin), Math.abs(margin) < 0.005 ? 4 : 2);
  return margin > 0 ? `${far} ahead` : `gap ${far}`;
}

interface Columns {
  pills: number[][];
  widths: number[];
  total: number;
  margins: boolean;
}

function columnsOf(tree: Tree, { cuts, measure }: Options, margins: boolean): Columns {
  const pills = tree.nodes.map((row) =>
    row.map((node) =>
      !node
        ? 0
        : node.state === "carried"
          ? 10
          : !node.written
            ? UNWRITTEN
            : Math.max(LEAST_PILL, measure(shorten(node.token)) + AROUND),
    ),
  );
  const widths = pills.map((row, step) =>
    Math.max(
      LEAST_PILL,
      ...row,
      ...tree.cuts[step]!.slice(0, cuts).map((cut) => (cut.into ? 0 : BESIDE + stubWidth(cut, measure, margins))),
    ),
  );
  const total = widths.reduce((sum, width) => sum + width, 0) + widths.length * GAP;
  return { pills, widths, total, margins };
}

const stubWidth = (cut: Cut, measure: Options["measure"], margins: boolean): number =>
  measure(nameOf(cut)) + (margins && cut.margin !== null ? 5 + measure(marginOf(cut)) * 0.8 : 0);

function pillLayout(tree: Tree, options: Options, { pills, widths, total, margins }: Columns, lanes: number): Layout {
  const steps = tree.nodes.length,
    { arms } = tree.spec;
  const gap = Math.min(GAP_MAX, Math.max(GAP, GAP + (options.width - MARGIN * 2 - total) / Math.max(steps, 1)));
  const left: number[] = [],
    x: number[] = [];
  let end = MARGIN;
  for (const width of widths) {
    end += gap;
    left.push(end);
    x.push(end + width / 2);
    end += width;
  }
  const shown = tree.cuts.map((row) => row.slice(0, options.cuts));
  const stubs = new Array<number>(Math.max(lanes, 1)).fill(0); // the maximal number of stubs below each lane
  const orders = shown.map((row) => {
    const here = new Map<number, number>();
    return row.map((cut) => {
      const lane = cut.parent?.slot ?? 0,
        order = here.get(lane) ?? 0;
      if (cut.into) return 0;
      here.set(lane, order + 1);
      stubs[lane] = Math.max(stubs[lane]!, order + 1);
      return order;
    });
  });
  const y: number[] = [];
  let down = AXIS + 14 + PILL_HALF + 4;
  for (let lane = 0; lane < Math.max(lanes, 1); lane++) {
    y.push(down);
    down += LANE + stubs[lane]! * STUB;
    if (lane + 1 === arms?.split) down += BETWEEN;
  }
  const root = { x: MARGIN - 6, y: y[0]! };
  const ends = (node: Node): number => x[node.step]! + pills[node.step]![node.slot]! / 2;
  const right = (step: number): number => (step < 0 ? root.x : left[step]! + widths[step]!);
  const at = (node: Node): PlacedNode => ({
    node,
    won: isWon(tree, node),
    x: x[node.step]!,
    y: y[node.slot]!,
    label: shorten(node.token),
    width: pills[node.step]![node.slot]!,
    fromX: node.parent ? ends(node.parent) : root.x,
    fromY: node.parent ? y[node.parent.slot]! : root.y,
    bendFrom: right(node.step - 1),
    bendTo: left[node.step]!,
  });
  const cuts = shown.map((row, step) =>
    row.map((cut, index) => {
      const lane = cut.parent?.slot ?? 0;
      return {
        cut,
        label: nameOf(cut),
        margin: margins ? marginOf(cut) : "",
        x: left[step]! + BESIDE,
        y: y[lane]! + PILL_HALF + 24 + orders[step]![index]! * STUB,
        width: stubWidth(cut, options.measure, margins),
        fromX: cut.parent ? ends(cut.parent) : root.x,
        fromY: y[lane]!,
        bendFrom: right(step - 1),
        bendTo: left[step]!,
        join: cut.into && { x: x[step]! - pills[step]![cut.into.slot]! / 2, y: y[cut.into.slot]! },
      };
    }),
  );
  return {
    labels: true,
    cells: false,
    tokens: true,
    rail: false,
    width: end + MARGIN,
    height: down - LANE + PILL_HALF + 24,
    axis: AXIS,
    x,
    lanes: y,
    root,
    half: PILL_HALF,
    nodes: tree.nodes,
    columns: columnsBy(tree, at),
    at,
    cuts,
    turns: [],
    parting: arms ? { x: left[arms.at]! - gap / 2, y: (y[arms.split] ?? down) - LANE / 2 - BETWEEN / 2 } : null,
    lane: LANE,
    every: 1,
  };
}

function dotLayout(tree: Tree, options: Options, lanes: number): Layout {
  const steps = Math.max(tree.nodes.length, 1);
  const pitch = Math.min(WIDEST, Math.max(1, (options.width - MARGIN * 2) / steps));
  const cells = pitch < LEAST_PITCH;
  const lane = Math.min(coarse() ? 36 : 22, Math.max(4, OVERVIEW_HEIGHT / Math.max(lanes, 1)));
  const known = new Map<string, { label: string; wide: number; tall: number }>();
  const measured = ({ token }: Node) => {
    const there = known.get(token);
    if (there) return there;
    const label = shorten(token),
      made = { label, wide: options.measure(label) * 0.9, tall: options.measure(cutTo(token, LONGEST_ON_END)) };
    known.set(token, made);
    return made;
  };
  // A token in place of its dot has the whole pitch except for the edges at both sides; if few tokens fit, all are dots.
  const written = (node: Node) => node.written && node.state !== "carried",
    fits = (node: Node): boolean => written(node) && measured(node).wide + 8 <= pitch,
    tokens = lane >= 14 && !cells && mostly(tree, fits),
    read = tokens && tree.nodes.flat().every((node) => !node || !isWon(tree, node) || !written(node) || fits(node)),
    rail = pitch >= ON_END && !read; // no label twice
  let longest = 0;
  if (rail)
    for (const row of tree.nodes) for (const node of row) if (node) longest = Math.max(longest, measured(node).tall);
  const axis = AXIS + (rail ? Math.ceil(longest) + 8 : 0);
  const x = tree.nodes.map((_, step) => MARGIN + (step + 0.5) * pitch);
  const { arms } = tree.spec,
    between = (slot: number) => (arms && slot >= arms.split ? BETWEEN : 0);
  const y = times(Math.max(lanes, 1), (slot) => axis + 14 + (slot + 0.5) * lane + between(slot));
  const half = Math.min(5, Math.max(0.8, Math.min(pitch, lane) * 0.28));
  const root = { x: MARGIN - Math.min(pitch / 2, 10), y: y[0]! };
  const wideOf = (node: Node): number => (tokens && fits(node) ? measured(node).wide + 2 : 0);
  const widest = tree.nodes.map((row) => row.reduce((most, node) => Math.max(most, node ? wideOf(node) : 0), 0));
  const at = (node: Node): PlacedNode => {
    const wide = wideOf(node),
      { parent } = node;
    const from = parent ? { x: x[parent.step]!, y: y[parent.slot]! } : root;
    return {
      node,
      won: isWon(tree, node),
      x: x[node.step]!,
      y: y[node.slot]!,
      label: wide ? measured(node).label : "",
      width: wide || half * 2,
      fromX: from.x + (parent ? wideOf(parent) / 2 : 0),
      fromY: from.y,
      bendFrom: from.x + (parent ? widest[parent.step]! / 2 : 0), // beside the text
      bendTo: x[node.step]! - widest[node.step]! / 2,
    };
  };
  const few = cells ? 0 : Math.min(options.cuts, Math.floor((lane * 0.6) / 3), pitch >= 8 ? 64 : 0);
  const cuts = tree.cuts.map((row, step) => {
    const here = new Map<number, number>(),
      before = step ? x[step - 1]! + widest[step - 1]! / 2 : root.x;
    return row.slice(0, options.cuts).flatMap((cut): PlacedCut[] => {
      const from = cut.parent?.slot ?? 0,
        order = here.get(from) ?? 0;
      here.set(from, order + 1);
      const join = cut.into && { x: x[step]! - half, y: y[cut.into.slot]! };
      if (order >= few && !join) return [];
      const tip = { x: x[step]! - pitch * 0.42, y: y[from]! + lane * 0.28 + order * 3 };
      return [
        {
          cut,
          label: "",
          margin: "",
          ...tip,
          fromX: before,
          fromY: y[from]!,
          bendFrom: before,
          bendTo: x[step]! - widest[step]! / 2,
          width: 0,
          join,
        },
      ];
    });
  });
  return {
    labels: false,
    cells,
    tokens,
    rail,
    width: MARGIN * 2 + steps * pitch,
    height: axis + 20 + Math.max(lanes, 1) * lane + between(lanes),
    axis,
    x,
    lanes: y,
    root,
    half,
    nodes: tree.nodes,
    columns: cells ? [] : columnsBy(tree, at),
    at,
    cuts,
    turns: cells || lane < NAMED ? [] : turns(tree, at, half, measured),
    parting: arms ? { x: x[arms.at]! - pitch / 2, y: (y[arms.split] ?? 0) - (lane + BETWEEN) / 2 } : null,
    lane,
    every: [1, 2, 5, 10, 20, 50, 100, 200, 500].find((every) => every * pitch >= 34) ?? 1000,
  };
}

/** The tokens below dots at which survivors branch from other survivors, as far as they fit; the same as on paper. */
function turns(
  { nodes }: Tree,
  at: Layout["at"],
  half: number,
  measured: (node: Node) => { label: string; wide: number },
): Layout["turns"] {
  const live = nodes
    .flat()
    .map((node) => node && at(node))
    .filter((one): one is PlacedNode => !!one && (one.won || one.node.state === "alive" || one.node.state === "ended"));
  const ways = new Map<Node | null, number>(),
    ends = new Map<number, number>();
  for (const { node } of live) ways.set(node.parent, (ways.get(node.parent) ?? 0) + 1);
  return live.flatMap(({ node, won, label, x, y }) => {
    if (won || label || !node.written || ways.get(node.parent)! < 2) return [];
    const own = measured(node),
      wide = own.wide * SMALL;
    if (x - wide / 2 <= (ends.get(y) ?? -Infinity)) return [];
    ends.set(y, x + wide / 2 + 3);
    return [{ x, y: y + half + 6, label: own.label }];
  });
}

const columnsBy = ({ nodes }: Tree, at: Layout["at"]): PlacedNode[][] =>
  nodes.map((row) => row.flatMap((node) => (node ? [at(node)] : [])));

/** Whether something holds for at least half of the hypotheses with a label. */
function mostly({ nodes }: Tree, holds: (node: Node) => boolean): boolean {
  let balance = 0;
  for (const row of nodes) for (const node of row) if (node?.written) balance += holds(node) ? 1 : -1;
  return balance >= 0;
}

export type Target = { kind: "node"; placed: PlacedNode } | { kind: "cut"; placed: PlacedCut };

/** The place at a point, with some tolerance. */
export function hit(made: Layout, x: number, y: number): Target | null {
  const step = nearest(made.x, x);
  const slack = made.labels ? 6 : 4;
  for (const placed of made.labels ? (made.cuts[step] ?? []) : [])
    if (
      !placed.join &&
      Math.abs(y - placed.y) <= STUB / 2 &&
      x >= placed.x - BESIDE &&
      x <= placed.x + placed.width + 4
    )
      return { kind: "cut", placed };
  let found: Node | null = null;
  let distance = Infinity;
  for (const node of made.nodes[step] ?? []) {
    if (!node) continue;
    const far = Math.abs(y - made.lanes[node.slot]!);
    if (far < distance) {
      distance = far;
      found = node;
    }
  }
  if (!found || distance > made.half + slack) return null;
  const placed = made.at(found),
    reach = made.labels ? placed.width / 2 + slack : Infinity;
  return Math.abs(x - placed.x) <= reach ? { kind: "node", placed } : null;
}

/** The index of the entry of a sorted list nearest to a value. */
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
