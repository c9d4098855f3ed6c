// What a program of rfnb/viz/runnable/program.py says.

import type { Axis } from "./array";
import type { StopSpec } from "./search";

/** A number, one that grows with the length of the text, or one that a person gives. */
export type Size = number | { times: number; plus: number } | { input: string };
export interface DimSpec {
  name: string;
  kind: string | null; // "batch", ...
  size: Size | null;
  vocab: string[] | null;
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
  | { input: string };
/** The labels of a text: one for each letter, between others. */
export interface Letters {
  letters: Record<string, number>;
  before: number[];
  after: number[];
}
export interface Literal {
  values: number[];
  shape: number[];
}
export interface OpSpec {
  op: string;
  given: Record<string, Given>;
  results: number[];
  as: { dims: Axis[]; sparse: Axis | null }[];
  offers: [kind: string, path: string, name: string][]; // what is seen inside of it
}
export interface LoopSpec {
  loop: string;
  path: string; // in the model
  axis: Axis;
  over: boolean; // whether it runs over the axis, else until it ends
  most: Size | null;
  initial: Record<string, Ref>;
  ops: OpSpec[];
  next: Record<string, Ref>;
  outputs: { value: Ref; last: boolean }[];
  end: { value: Ref; included: boolean } | null;
  stop: StopSpec | null;
}
export interface ProgramSpec {
  format: number;
  dims: DimSpec[];
  constants: { dims: Axis[]; sparse: Axis | null; dtype: string }[];
  blocks: (OpSpec | LoopSpec)[];
  result: Ref[]; // the arrays that the function gives
}

export const isLoop = (block: OpSpec | LoopSpec): block is LoopSpec => "loop" in block;
