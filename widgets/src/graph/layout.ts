// A graph whose positions Python computed (rfnb/viz/parts/graph.py): the paths of its edges, the neighbours of each node, and keyboard navigation.

import type { AnyHead } from "../frame";
import { line } from "../visible_text";

type Point = [number, number];
export interface Node {
  id: string;
  shape: "op" | "value" | "result" | "fold";
  lines: string[];
  words: string;
  x: number;
  y: number;
  width: number;
  height: number;
  opens?: number;
  wrong?: boolean;
}
export interface Edge {
  from: string;
  to: string;
  path: Point[];
  form: "steps" | "lines" | "bezier";
  label: string;
  hues?: number[];
  glyphs?: string[];
  ragged?: boolean[];
}
export interface Graph {
  width: number;
  height: number;
  bands: { label: string; y: number; height: number }[];
  nodes: Node[];
  edges: Edge[];
}
interface Op {
  id: string;
  name: string;
  dims: string;
  code: string;
}
export interface Level {
  label: string;
  up: number | null;
  graph: Graph;
}
/** `graph` of a plan, null with too many ops for a picture; `levels` of a flow: the whole, then the content of its boxes. */
export interface GraphHead extends AnyHead {
  graph?: Graph | null;
  levels?: Level[];
  places?: { name: string; meaning: string; ops: Op[] }[];
  legend?: { text: string; glyph: string; hue: number; ragged: boolean }[];
}

export const levelsOf = (head: GraphHead): Level[] =>
  Array.isArray(head.levels) ? head.levels : head.graph ? [{ label: "", up: null, graph: head.graph }] : [];

/** The levels from the whole down to one. */
export function trail(levels: Level[], level: number): number[] {
  const found = [level];
  for (let up = levels[level]?.up ?? null; up !== null && found.length <= levels.length; up = levels[up]?.up ?? null)
    found.unshift(up);
  return found;
}

/** The fault of a head as a sentence; null if it can be drawn. */
export function problem(head: GraphHead): string | null {
  const cannot = "This graph cannot be drawn:";
  if (head.graph === undefined && head.levels === undefined) return `${cannot} its picture is missing.`;
  const levels = levelsOf(head);
  for (const [number, { graph, up }] of levels.entries()) {
    if (up !== null && !(up >= 0 && up < number)) return `${cannot} level ${number} is in level ${line(String(up))}.`;
    if (!graph || !Array.isArray(graph.nodes) || !Array.isArray(graph.edges) || !Array.isArray(graph.bands))
      return `${cannot} the lists of nodes and lines are missing.`;
    if (![graph.width, graph.height].every((size) => size >= 0 && size < 1e6)) return `${cannot} it has no size.`;
    const ids = new Set(graph.nodes.map((node) => node?.id));
    for (const node of graph.nodes)
      if (!Array.isArray(node?.lines) || ![node.x, node.y, node.width, node.height].every(Number.isFinite))
        return `${cannot} node ${node?.id} has no place.`;
      else if (node.opens !== undefined && !(node.opens > number && node.opens < levels.length))
        return `${cannot} node ${node.id} opens to a level that is not there.`;
    for (const { from, to, path } of graph.edges) {
      if (!ids.has(from) || !ids.has(to))
        return `${cannot} a line goes from ${line(from)} to ${line(to)}, which are not both there.`;
      if (
        !Array.isArray(path) ||
        path.length < 2 ||
        !path.every((at) => Array.isArray(at) && at.length === 2 && at.every(Number.isFinite))
      )
        return `${cannot} the line from ${line(from)} to ${line(to)} has no path.`;
    }
  }
  return null;
}

const LARGEST = 1.6,
  TALLEST = 560; // maximal height of a picture in pixels

/** The zoom of a graph: as large as its space allows, at least 1. */
export const scaleOf = ({ width, height }: Graph, room: number): number =>
  Math.max(1, Math.min(LARGEST, room / Math.max(1, width), TALLEST / Math.max(1, height)));

/** `d` of an SVG path, `off` to the right. */
export function pathOf({ path, form }: Pick<Edge, "path" | "form">, off = 0): string {
  const at = ([x, y]: Point) => `${r(x + off)} ${r(y)}`;
  const [first, ...rest] = path;
  if (form === "lines") return `M${path.map(at).join("L")}`;
  if (form === "bezier") return `M${at(first!)}C${rest.map(at).join(" ")}`;
  let d = `M${at(first!)}`;
  rest.forEach((point, index) => {
    const before = path[index]!,
      middle = (before[1] + point[1]) / 2;
    d += `C${at([before[0], middle])} ${at([point[0], middle])} ${at(point)}`; // upright at both ends
  });
  return d;
}

/** The position of a line's marks: halfway. */
export function middleOf({ path, form }: Pick<Edge, "path" | "form">): Point {
  if (path.length % 2 || form === "lines") return path[path.length >> 1]!;
  if (form === "bezier") {
    const [p, q, r, s] = path.slice(path.length / 2 - 2) as [Point, Point, Point, Point];
    return [(p[0] + 3 * (q[0] + r[0]) + s[0]) / 8, (p[1] + 3 * (q[1] + r[1]) + s[1]) / 8];
  }
  const [a, b] = [path[path.length / 2 - 1]!, path[path.length / 2]!];
  return [(a[0] + b[0]) / 2, (a[1] + b[1]) / 2];
}

/** The node that a key leads to: down to its first reader, up to its first input, left and right in reading order. */
export function walk({ nodes, edges }: Graph, from: string, key: string): string | null {
  const order = [...nodes].sort((a, b) => a.y - b.y || a.x - b.x).map(({ id }) => id),
    index = order.indexOf(from);
  const to: Record<string, string | undefined> = {
    ArrowRight: order[index + 1],
    ArrowLeft: order[index - 1],
    Home: order[0],
    End: order.at(-1),
    ArrowDown: edges.find((edge) => edge.from === from)?.to,
    ArrowUp: edges.find((edge) => edge.to === from)?.from,
  };
  return to[key] ?? null;
}

/** The text of a node: itself, and its readers. */
export function sentence({ nodes, edges }: Graph, id: string): string {
  const named = new Map(nodes.map((node) => [node.id, node.lines[0] ?? node.id]));
  const readers = [...new Set(edges.filter((edge) => edge.from === id).map((edge) => named.get(edge.to)!))];
  const words = nodes.find((node) => node.id === id)?.words ?? id;
  return `${words}${readers.length ? `; goes to ${readers.join(", ")}` : ""}`;
}

const r = (value: number): string => String(Math.round(value * 10) / 10);
