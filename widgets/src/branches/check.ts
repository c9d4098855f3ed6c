// The head of a `branches` spec (rfnb/viz/branches/spec.py), and the description of its faults.

import type { AnyHead } from "../frame";

export interface Branch {
  name: string;
  depth: number;
  parent: number | null;
  left: number | null; // the tick before which it branches off
  ticks: number;
  marks: number[]; // ticks of edits
  state: string;
  story: string;
  changes: string[];
  outcome: string[];
}
export type Edit = [a: string, b: string, edit: "=" | "s" | "i" | "d"];
export interface Result {
  label: string;
  same: boolean;
  scores: (number | null)[];
  counts: Record<string, number> | null; // of each kind of edit
  columns: Edit[];
  more: number;
  only?: string; // the only side that has it
}
export type Two = [number, number];
export interface Pair {
  of: Two;
  said: string[];
  results: Result[];
  rest: number;
}
/** A part belongs to one branch (`side`), or to a pair: both searches in one tree, or A - B. */
export interface PartHead extends AnyHead {
  key?: string;
  side?: number;
  pair?: Two;
  same?: boolean;
  folded?: boolean; // whether it is initially closed
}
export interface Head extends AnyHead {
  branches: Branch[];
  pair: Two | null;
  pairs: Pair[];
  parts: { kind: string; head: PartHead }[];
}

const whole = (number: unknown): boolean => Number.isInteger(number) && (number as number) >= 0;

/** In the words of `rfnb/viz/branches/content.py`. */
export function problem(head: unknown): string | null {
  const { branches, pairs, parts, pair } = (head ?? {}) as Partial<Head>,
    begin = "These branches cannot be drawn: ";
  if (!Array.isArray(branches) || !branches.length) return `${begin}there is no list of them.`;
  for (const [index, branch] of branches.entries()) {
    const wrong = fault(branch, index);
    if (wrong) return `${begin}branch ${index} ${wrong}.`;
  }
  if (!Array.isArray(pairs) || !Array.isArray(parts)) return `${begin}there is no list of pairs and parts.`;
  const isPair = (of: unknown) =>
    Array.isArray(of) && of.length === 2 && of.every((at) => whole(at) && at < branches.length);
  return [...pairs.map((one) => one?.of), ...(pair ? [pair] : [])].every(isPair)
    ? null
    : `${begin}a pair does not consist of two of them.`;
}

function fault(branch: Branch | null, index: number): string | null {
  if (typeof branch?.name !== "string") return "has no name";
  const { depth, ticks, parent, left, marks, changes, outcome } = branch;
  if (![depth, ticks].every(whole)) return "has no number of steps";
  if (parent !== null && parent !== undefined && !(whole(parent) && parent < index))
    return "leaves one that is not above it";
  if (left !== null && left !== undefined && !whole(left)) return "leaves at no step";
  return [marks, changes, outcome].every(Array.isArray) ? null : "has no list of changes";
}
