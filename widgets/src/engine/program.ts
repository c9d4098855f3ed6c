// The format of a program, as written by rfnb/viz/runnable/program.py.

import type { Axis } from "./array";
import type { StopSpec } from "./search";

export type Unit = "letter" | "word";

/** The letters or words of a text. */
export const unitsOf = (text: string, unit: Unit): string[] =>
  unit === "word" ? text.split(/\s+/).filter(Boolean) : [...text];

/** A number: constant, growing with the length of the text, or an input. */
export type Size = number | { times: number; plus: number } | { input: string };
export interface DimSpec {
  name: string;
  kind: string | null; // "batch", ...
  size: Size | null;
  vocab: string[] | null;
  /** Sizes for which the recorded code holds, where it decided by them. */
  limit?: { least: number; most: number | null; but: number[] };
}
export type Ref = (string | number | Ref)[]; // ["value", 3], ["outer", 3], ["constant", 0], ["state", path], ["frame", ref], ["index"]
export type Given =
  | Ref
  | { dim: Axis }
  | { list: Given[] }
  | { map: Record<string, Given> }
  | number
  | string
  | boolean
  | null
  | Letters
  | Literal
  | Sizes
  | Counted
  | Size
  | { number: string }; // a number that JSON lacks
/** The labels of a text: one for each letter or word, between constant ones. */
export interface Letters {
  letters: Record<string, number>;
  before: number[];
  after: number[];
}
export interface Literal {
  values: (number | string)[]; // a string: a number that JSON lacks
  shape: number[];
}
/** Numbers of which some grow with the text. */
export interface Sizes {
  sizes: Size[];
  shape: number[];
}
/** Consecutive integers. */
export interface Counted {
  from: number;
}
/** The kind of an array: its axes, the axis that its values index, whether they are integers. */
export interface Kind {
  dims: Axis[];
  sparse: Axis | null;
  whole: boolean;
}
export interface OpSpec {
  op: string;
  given: Record<string, Given>;
  results: number[];
  as: Kind[];
  offers: [kind: string, path: string, name: string][]; // values observed inside it
}
export interface LoopSpec {
  loop: string;
  path: string; // in the model
  axis: Axis;
  over: boolean; // whether it runs over the axis, or until it ends
  most: Size | null;
  initial: Record<string, Ref>;
  /** The growing axes of states: before the loop, before and after a step. */
  grows: [initial: number, before: number, after: number][];
  ops: OpSpec[];
  next: Record<string, Ref>;
  /** `last`: only the last value is needed or, without steps, that of a state before the loop. */
  outputs: { value: Ref; last: boolean; state: string | null }[];
  as: Kind[]; // of these
  end: { value: Ref; included: boolean } | null;
  stop: StopSpec | null;
}
export interface ProgramSpec {
  format: number;
  unit: Unit; // the unit of the text
  longest?: number; // the length of the longest text with which the function was called
  limit?: DimSpec["limit"]; // of the length of the text
  dims: DimSpec[];
  /** Weights, and values computed from the text. */
  constants: (Kind & { value?: Letters | Sizes | Counted })[];
  blocks: (OpSpec | LoopSpec)[];
  result: Ref[]; // the results of the function
  named?: Record<string, Ref>; // by axis, the labels that name its entries
}

/** Which of the loops with its path a loop is. */
export function nthOf({ blocks }: ProgramSpec, at: number): number {
  const loops = blocks.filter(isLoop);
  return loops.slice(0, at).filter(({ path }) => path === loops[at]!.path).length;
}
export const isLoop = (block: OpSpec | LoopSpec): block is LoopSpec => "loop" in block;
