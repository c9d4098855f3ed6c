// What a program of rfnb/viz/runnable/program.py says.

import type { Axis } from "./array";
import type { StopSpec } from "./search";

export type Unit = "letter" | "word";

/** The letters or words of a text. */
export const unitsOf = (text: string, unit: Unit): string[] =>
  unit === "word" ? text.split(/\s+/).filter(Boolean) : [...text];

/** A number, one that grows with the length of the text, or one that a person gives. */
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
  | { number: string }; // that JSON does not have
/** The labels of a text: one for each letter or word, between others. */
export interface Letters {
  letters: Record<string, number>;
  before: number[];
  after: number[];
}
export interface Literal {
  values: (number | string)[]; // a string: what JSON does not have as a number
  shape: number[];
}
/** Numbers of which some grow with the text. */
export interface Sizes {
  sizes: Size[];
  shape: number[];
}
/** Whole numbers from one on. */
export interface Counted {
  from: number;
}
/** What an array is: its axes, what its values are labels of, whether they are whole numbers. */
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
  offers: [kind: string, path: string, name: string][]; // what is seen inside of it
}
export interface LoopSpec {
  loop: string;
  path: string; // in the model
  axis: Axis;
  over: boolean; // whether it runs over the axis, else until it ends
  most: Size | null;
  initial: Record<string, Ref>;
  /** Axes of states that get longer: before the loop, before and after a step. */
  grows: [initial: number, before: number, after: number][];
  ops: OpSpec[];
  next: Record<string, Ref>;
  /** `last`: what is wanted is the last value only, or where no step counts, that of a state before the loop. */
  outputs: { value: Ref; last: boolean; state: string | null }[];
  as: Kind[]; // of these
  end: { value: Ref; included: boolean } | null;
  stop: StopSpec | null;
}
export interface ProgramSpec {
  format: number;
  unit: Unit; // what a text is read by
  dims: DimSpec[];
  /** Weights, and what was made of the text. */
  constants: (Kind & { value?: Letters | Sizes | Counted })[];
  blocks: (OpSpec | LoopSpec)[];
  result: Ref[]; // the arrays that the function gives
}

export const isLoop = (block: OpSpec | LoopSpec): block is LoopSpec => "loop" in block;
