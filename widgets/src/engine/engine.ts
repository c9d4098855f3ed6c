// Runs a program for a text: computes what the kernel would, with nothing but this page.

import type { Axis, Named } from "./array";
import { lengthOf, like, named, ordered, picked, sizeOf, strideOf } from "./array";
import type { Command } from "../run";
import type { Change } from "./changes";
import { Decisions, withRows, withSet } from "./changes";
import { Kernel } from "./kernel";
import type { Call } from "./ops";
import { OPS, stacked, without } from "./ops";
import type {
  Counted,
  DimSpec,
  Given,
  Kind,
  Letters,
  Literal,
  LoopSpec,
  OpSpec,
  ProgramSpec,
  Ref,
  Size,
  Sizes,
} from "./program";
import { isLoop, nthOf, unitsOf } from "./program";
import type { Beams, Decided, Options } from "./search";
import { Stop, choose, hypotheses, wayOf } from "./search";

/** The current state of a loop. */
export interface Looped {
  name: string;
  steps: Decided[];
  beams: Beams | null;
  /** The number of steps made, and its limit. */
  made: number;
  most: number;
  /** The values of each output, step by step. */
  outputs: Named[][];
  /** By output, the value of the last step of each hypothesis. */
  lasts: Named[];
  states: Record<string, Named>[];
  /** The values observed inside the ops of each step. */
  offers: Offers[];
}
/** The values observed inside an op, by its number. */
export type Offers = Record<number, Record<string, Named>>;
export interface Result {
  loops: Looped[];
  values: Named[]; // results of the function
  offers: Offers; // of ops outside of loops
  names: Map<Axis, string[]>; // of the entries of axes
}
/** Inputs besides the text. */
export type Inputs = Record<string, number>;
/** The best hypothesis first. */
export interface Hypothesis {
  labels: number[];
  score: number;
  ended: boolean;
}

export class Engine {
  private readonly constants: Named[];

  readonly kernel: Kernel;

  /** `plain`: do not use wasm. */
  constructor(
    readonly spec: ProgramSpec,
    weights: readonly (Float32Array | Int32Array)[],
    plain = false,
  ) {
    this.kernel = new Kernel(plain);
    this.constants = spec.constants.map(({ dims, sparse }, at) =>
      named(dims, spec.constants[at]!.value ? [] : dims.map((axis) => this.size(axis, 0)), weights[at]!, 0, sparse),
    );
  }

  /** The names of ops in a program that are not implemented. */
  get missing(): string[] {
    const names = this.spec.blocks.flatMap((block) => (isLoop(block) ? block.ops : [block])).map(({ op }) => op);
    return [...new Set(names)].filter(
      (name) => !(name in OPS) && !["choice", "convert_to_tensor", "get_beam_scores"].includes(name),
    );
  }

  /** The letters or words of the model's vocabulary. */
  get letters(): string[] {
    const values = this.spec.blocks.map((block) => (isLoop(block) ? null : block.given["value"]));
    return [...values, ...this.spec.constants.map(({ value }) => value)].flatMap((value) =>
      value && typeof value === "object" && "letters" in value ? Object.keys(value.letters) : [],
    );
  }

  /** The letters or words of a text. */
  units(text: string): string[] {
    return unitsOf(text, this.spec.unit);
  }

  /** Throws an Error with a sentence if the program cannot run for this text. */
  run(text: string, inputs: Inputs = {}, changes: readonly Change[] = [], hidden?: number): Result {
    const work = this.work(text, inputs, changes, hidden);
    for (;;) {
      const { done, value } = work.next();
      if (done) return value;
    }
  }

  /** The same in small pieces of work. `hidden`: a letter whose table row is replaced by the mean row. */
  work(
    text: string,
    inputs: Inputs = {},
    changes: readonly Change[] = [],
    hidden?: number,
  ): Generator<undefined, Result> {
    const letters = this.units(text),
      { unit, limit } = this.spec;
    if (!letters.length && this.letters.length) throw new Error(`Type at least one ${unit}.`);
    if (letters.length > MOST_LETTERS)
      throw new Error(`This text has ${letters.length} ${unit}s; a page reads at most ${MOST_LETTERS}.`);
    if (limit) checkLimit(letters.length, limit);
    return new Run(this, letters, inputs, changes, hidden).work();
  }

  size(axis: Axis, length: number, inputs: Inputs = {}, found?: number): number {
    if (axis === "beam" || axis === "single") return found ?? 1;
    const { size, name } = this.spec.dims[axis]!;
    if (found !== undefined) return found; // as observed in an array
    if (size === null) throw new Error(`the dim ${name} has no size`);
    return sizeIn(size, length, inputs);
  }

  constant(number: number): Named {
    return this.constants[number]!;
  }
}

const sizeIn = (size: Size, length: number, inputs: Inputs): number =>
  typeof size === "number" ? size : "input" in size ? inputs[size.input]! : size.times * length + size.plus;
const MOST_LETTERS = 500;
function checkLimit(length: number, { least, most, but }: NonNullable<DimSpec["limit"]>): void {
  if (most !== null && length > most)
    throw new Error(`This is too long for the model: it reads at most ${most}, and here there are ${length}.`);
  if (length < least)
    throw new Error(`This is too short for the model: it reads at least ${least}, and here there are ${length}.`);
  if (but.includes(length))
    throw new Error(`The model computes something else for length ${length}, which was not recorded.`);
}

/** One run for one text. */
class Run {
  private readonly values: Named[] = [];
  private readonly loops: Looped[] = [];
  private readonly offers: Offers = {};
  private readonly made = new Map<number, Named>(); // constants computed from the text
  private readonly found = new Map<Axis, number>(); // sizes observed in arrays
  private step: StepRun | null = null;
  private readonly letters = new Map<number, number>(); // the values that hold the text, and the number of entries before it

  constructor(
    private readonly engine: Engine,
    private readonly text: string[],
    private readonly inputs: Inputs,
    private readonly changes: readonly Change[],
    private hidden: number | undefined, // until it is
  ) {}

  *work(): Generator<undefined, Result> {
    for (const [number, block] of this.engine.spec.blocks.entries()) {
      if (isLoop(block)) yield* this.loop(block);
      else this.op(block, this.values, number, this.offers);
      yield;
    }
    if (this.hidden !== undefined) throw new Error("No letter is looked up in a table.");
    const values = this.engine.spec.result.map((ref) => this.at(ref));
    return { loops: this.loops, values, offers: this.offers, names: this.names() };
  }

  private names(): Map<Axis, string[]> {
    const { named = {}, dims } = this.engine.spec,
      found = new Map<Axis, string[]>();
    for (const [axis, ref] of Object.entries(named)) {
      const { values, sparse } = this.at(ref),
        vocab = dims[sparse as number]?.vocab;
      if (vocab)
        found.set(
          Number(axis),
          Array.from(values, (label) => vocab[label] ?? String(label)),
        );
    }
    return found;
  }

  private size(axis: Axis): number {
    return this.engine.size(axis, this.text.length, this.inputs, this.found.get(axis));
  }

  private note({ dims, shape }: Named): void {
    for (let at = 0; at < dims.length; at++) {
      const axis = dims[at]!,
        limit = typeof axis === "number" ? this.engine.spec.dims[axis]!.limit : undefined;
      if (limit) checkLimit(shape[at]!, limit);
      this.found.set(axis, shape[at]!);
    }
  }

  private op(spec: OpSpec, into: Named[], number: number, offers: Offers): void {
    const made =
      spec.op === "convert_to_tensor"
        ? [this.given(spec.given["value"] as Letters, spec.as[0]!, spec.results[0]!)]
        : this.called(spec, number, offers);
    if (this.hidden !== undefined && spec.op === "gather") made[0] = this.hiding(spec, made[0]!);
    spec.results.forEach((number, at) => {
      const own = (into[number] = this.whole(made[at]!, spec.as[at]!));
      if (own.dims.some((axis) => axis !== "beam" && !spec.as[at]!.dims.includes(axis)))
        throw new Error(`This page cannot run ${spec.op} as it is called: save it again.`);
      this.note(own);
    });
  }

  private called(spec: OpSpec, number: number, offers: Offers): Named[] {
    if (spec.op === "get_beam_scores") {
      const [, loop] = spec.given["x"] as Ref,
        { beams, steps } = this.loops[loop as number]!;
      return [hypotheses(beams!.scores, steps[0]!.dims, 0, null)];
    }
    const run = OPS[spec.op];
    if (!run) throw new Error(`a page has no op ${spec.op}`);
    const given = this.givenTo(spec);
    const call: Call = {
      given: this.step ? this.step.together(given) : given,
      as: spec.as,
      size: (axis) => this.size(axis),
      kernel: this.engine.kernel,
      offer: (name, value) => ((offers[number] ??= {})[name] = this.changed(spec, name, value, given)),
    };
    return run(call);
  }

  /** Rows of a table, with the row of a letter replaced by the mean of all. */
  private hiding({ given }: OpSpec, rows: Named): Named {
    const { source, indices } = given,
      read = Array.isArray(indices) ? this.letters.get(indices[1] as number) : undefined;
    if (!Array.isArray(source) || source[0] !== "constant" || read === undefined || (indices as Ref)[0] !== "value")
      return rows;
    const table = this.at(source),
      axis = ((given["axis"] as { dim: Axis } | undefined)?.dim ?? this.at(indices as Ref).sparse)!,
      { values: all, shape } = ordered(table, [axis, ...table.dims.filter((one) => one !== axis)]),
      width = all.length / shape[0]!,
      values = rows.values.slice(),
      begin = (read + this.hidden!) * width;
    values.fill(0, begin, begin + width);
    for (let at = 0; at < all.length; at++) values[begin + (at % width)]! += all[at]! / shape[0]!;
    this.hidden = undefined;
    return { ...rows, values };
  }

  /** A value observed inside an op, with the edits of this step. */
  private changed({ offers }: OpSpec, name: string, value: Named, given: Record<string, unknown>): Named {
    const [, path] = offers.find(([kind, , own]) => kind === "attention" && own === name) ?? [];
    let made = value;
    for (const command of path === undefined ? [] : (this.step?.commands ?? []))
      if (command.do === "attention" && command["path"] === path)
        made = withRows(made, command, given["axis"] as Axis, this.engine.spec);
    return made;
  }

  private value(value: Given): unknown {
    if (Array.isArray(value)) return this.at(value);
    if (value && typeof value === "object") {
      if ("dim" in value) return value.dim;
      if ("input" in value) return this.inputs[value.input];
      if ("number" in value) return Number(value.number);
      if ("times" in value) return sizeIn(value, this.text.length, this.inputs);
      if ("list" in value) return value.list.map((one) => this.value(one));
      if ("map" in value)
        return Object.fromEntries(Object.entries(value.map).map(([name, one]) => [name, this.value(one)]));
    }
    return value;
  }

  private at([kind, at, path]: Ref): Named {
    if (kind === "constant") return this.constant(at as number);
    if (kind === "output") return this.output(at as number, path as number);
    if (kind === "final") return this.loops[at as number]!.states.at(-1)![path as string]!;
    if (kind === "outer" || !this.step) return this.values[at as number]!;
    return this.step.at(kind as string, at!);
  }

  private constant(number: number): Named {
    const spec = this.engine.spec.constants[number]!;
    if (!spec.value) return this.engine.constant(number);
    const made = this.made.get(number) ?? this.given(spec.value, spec);
    this.made.set(number, made);
    return made;
  }

  /** The collected outputs of a loop, along the path of each hypothesis. */
  private output(number: number, at: number): Named {
    const { outputs, steps, lasts, beams } = this.loops[number]!,
      { axis, outputs: specs, as } = this.engine.spec.blocks.filter(isLoop)[number]!,
      all = outputs[at]!,
      last = steps.at(-1);
    if (!all.length) return this.ofNoStep(specs[at]!, axis, as[at]!, this.loops[number]!.states[0]!);
    if (specs[at]!.last) return this.collected(lasts[at]!, as[at]!, beams?.ended.length);
    const parts = all.slice(0, beams ? Math.max(...beams.counts) : all.length);
    if (!last) return this.collected(stacked(parts, axis, all[0]), as[at]!);
    const ways = Array.from(last.parents, (_, slot) => wayOf(steps, slot)[1]),
      along = (part: Named, step: number) => {
        if (!all.some(({ dims }) => dims.includes("beam"))) return part;
        const whole = part.dims.includes("beam") ? part : ordered(part, [...part.dims, "beam"], [...part.shape, 1]),
          count = lengthOf(whole, "beam"); // one for all, before the first choice
        return picked(
          whole,
          "beam",
          Int32Array.from(ways, (slots) => (count > 1 ? slots[step]! : 0)),
        );
      };
    return this.collected(stacked(parts.map(along), axis, along(all[0]!, 0)), as[at]!, ways.length);
  }

  /** The outputs of a loop without steps: empty; for a last value the initial state. */
  private ofNoStep(
    { last, state }: LoopSpec["outputs"][0],
    axis: Axis,
    kind: Kind,
    states: Record<string, Named>,
  ): Named {
    if (last && state !== null) return this.collected(states[state]!, kind);
    const known = kind.dims.every(
      (one) =>
        one === axis || this.found.has(one) || (typeof one === "number" && this.engine.spec.dims[one]!.size !== null),
    );
    if (last || !known)
      throw new Error(
        "This is too short for the model: a loop of it has no step, and what the code then returns was not recorded.",
      );
    const shape = kind.dims.map((one) => (one === axis ? 0 : this.size(one)));
    return named(kind.dims, shape, kind.whole ? new Int32Array() : new Float32Array(), 0, kind.sparse);
  }

  /** The values of steps, with the axis names used after the loop. */
  private collected(array: Named, kind: Kind, count = 1): Named {
    const there = (dims: readonly Axis[], others: readonly Axis[]) =>
        dims.filter((axis) => axis !== "beam" && !others.includes(axis)),
      after = there(kind.dims, array.dims),
      made = withAxes(array, new Map(there(array.dims, kind.dims).map((axis, at) => [axis, after[at]!])));
    if (made.dims.includes("beam") || !kind.dims.includes("beam")) return this.whole(made, kind);
    return this.whole(ordered(made, [...made.dims, "beam"], [...made.shape, count]), kind);
  }

  /** With all axes that it has in the program; it may get more from the lengths. */
  private whole(array: Named, { dims, sparse, whole }: Kind): Named {
    const more = dims.filter((axis) => axis !== "beam" && !array.dims.includes(axis)),
      is = array.values instanceof Int32Array === whole;
    if (!more.length && is && array.sparse === sparse) return array;
    const shape = [...array.shape, ...more.map((axis) => this.size(axis))],
      { values, ...rest } = more.length ? ordered(array, [...array.dims, ...more], shape) : array;
    return { ...rest, values: is ? values : whole ? Int32Array.from(values) : Float32Array.from(values), sparse };
  }

  /** An array of the function; `result`: its number, if it is the result of an op. */
  private given(
    value: Letters | Literal | Sizes | Counted | number,
    { dims, sparse, whole }: Kind,
    result?: number,
  ): Named {
    const shape = dims.map((axis) => this.size(axis));
    let values: number[];
    if (typeof value === "object" && "letters" in value) {
      const labels = new Map(Object.entries(value.letters)); // “constructor” is a word, too
      const found = this.text.map((letter) => {
        const label = labels.get(letter) ?? labels.get(letter.toLowerCase()); // capitals are accepted, as by the command
        if (label === undefined)
          throw new Error(
            `“${letter}” is not one of the ${this.engine.spec.unit}s that the model knows: ${someOf([...labels.keys()])}`,
          );
        return label;
      });
      values = [...value.before, ...found, ...value.after];
      if (result !== undefined) this.letters.set(result, value.before.length);
    } else if (typeof value !== "object") values = [value];
    else if ("sizes" in value) values = value.sizes.map((size) => sizeIn(size, this.text.length, this.inputs));
    else if ("from" in value) values = Array.from({ length: sizeOf(shape) }, (_, at) => value.from + at);
    else values = value.values.map(Number);
    const array = whole ? Int32Array.from(values) : Float32Array.from(values);
    return named(dims, shape, array, 0, sparse);
  }

  private *loop(spec: LoopSpec): Generator<undefined, void> {
    const grown = (from: 0 | 2) => new Map<Axis, Axis>(spec.grows.map((axes) => [axes[from], axes[1]])),
      states = mapped(spec.initial, (ref) => withAxes(this.at(ref), grown(0))),
      after = grown(2),
      most = spec.over ? this.size(spec.axis) : sizeIn(spec.most ?? 0, this.text.length, this.inputs),
      looped: Looped = {
        name: spec.loop,
        steps: [],
        beams: null,
        made: 0,
        most,
        outputs: spec.outputs.map(() => []),
        lasts: [],
        states: [states],
        offers: [],
      };
    const own = nthOf(this.engine.spec, this.loops.push(looped) - 1);
    const stop = spec.stop && new Stop(spec.stop, most);
    let stopped = false;
    while (looped.made < most && !stopped && !looped.beams?.ended.every(Boolean)) {
      const here = this.changes.filter(
          ({ path, nth = 0, step }) => path === spec.path && nth === own && step === looped.made,
        ),
        commands = here.flatMap(({ then }) => then);
      for (const command of commands)
        if (command.do === "set") {
          const now = looped.states.at(-1)!,
            name = String(command["state"]);
          if (!now[name]) throw new Error(`There is no state ${name}.`);
          looped.states[looped.states.length - 1] = { ...now, [name]: withSet(now[name], command, this.engine.spec) };
        }
      for (const state of Object.values(looped.states.at(-1)!)) this.note(state);
      const step = (this.step = new StepRun(looped, spec, (ref) => this.at(ref), commands));
      const offers: Offers = {};
      looped.offers.push(offers);
      for (const [number, op] of spec.ops.entries())
        if (op.op === "choice") this.found.set("beam", step.choose(this.givenTo(op), op, this.engine.spec));
        else this.op(op, step.values, number, offers);
      const { beams } = looped;
      step.finish(after);
      this.step = null;
      looped.made++;
      stopped = stop?.after(looped.steps.at(-1)!, beams, looped.made) ?? false;
      yield;
    }
    const { beams } = looped;
    this.found.set(spec.axis, beams ? Math.max(...beams.counts) : looped.made);
    if (beams) this.found.set("beam", beams.ended.length);
    if (beams && spec.ops.some(({ op, given }) => op === "choice" && given["length_normalization"])) {
      const longest = beams.lengths.map((length, slot) => length + Number(!spec.end?.included && !beams.ended[slot]));
      looped.beams = { ...beams, scores: beams.scores.map((score) => score / Math.max(1, ...longest)) };
    }
  }

  private givenTo(op: OpSpec): Record<string, unknown> {
    return mapped(op.given, (value) => this.value(value));
  }
}

/** One step of a loop. */
class StepRun {
  readonly values: Named[] = [];
  private turn = 0;
  private decided: Decided | null = null;

  constructor(
    private readonly looped: Looped,
    private readonly spec: LoopSpec,
    private readonly valueOf: (ref: Ref) => Named, // also for values outside the step
    readonly commands: readonly Command[],
  ) {}

  at(kind: string, at: Ref[number]): Named {
    if (kind === "value") return this.values[at as number]!;
    if (kind === "state") return this.looped.states.at(-1)![at as string]!;
    if (kind === "next") return this.valueOf(this.spec.next[at as string]!);
    if (kind === "index") return named([], [], Int32Array.of(this.looped.made), 0, this.spec.axis);
    if (kind === "frame") {
      const { axis } = this.spec;
      return without(picked(this.valueOf(at as Ref), axis, [this.looped.made]), axis);
    }
    throw new Error(`there is no ${kind} in a step`);
  }

  /** Gathers values from before the choice for the surviving hypotheses, if other operands are from after it. */
  together(given: Record<string, unknown>): Record<string, unknown> {
    const { turn } = this;
    if (!turn) return given;
    const arrays = Object.values(given).filter((value): value is Named => isArray(value));
    if (!arrays.some((array) => array.turn === turn && array.dims.includes("beam"))) return given;
    return Object.fromEntries(
      Object.entries(given).map(([name, value]) => [name, isArray(value) ? this.brought(value) : value]),
    );
  }

  private brought(array: Named): Named {
    if (!this.decided || array.turn === this.turn) return array;
    return { ...picked(array, "beam", this.decided.parents), turn: this.turn };
  }

  /** The number of surviving hypotheses. */
  choose(options: Record<string, unknown>, op: OpSpec, { dims }: ProgramSpec): number {
    const { looped, commands } = this,
      scores = options["scores"] as Named,
      axis = options["axis"] as Axis;
    if (this.decided) throw new Error("a page makes one choice in a step");
    const best = (total: Float32Array, width: number, count: number) =>
      new Decisions(commands, total, width, dims[axis as number]?.vocab ?? null).best(total, count);
    const decided = choose(scores, axis, looped.beams, options as unknown as Options, looped.steps, best);
    this.decided = decided;
    looped.steps.push(decided);
    this.turn = 1;
    this.values[op.results[0]!] = hypotheses(decided.labels, decided.dims, 1, op.as[0]!.sparse);
    return decided.labels.length;
  }

  /** The hypotheses after the step: which ones have ended, and which ones are affected by the step. */
  private end(): [beams: Beams | null, idle: number[]] {
    const { looped, spec, decided } = this,
      old = looped.beams,
      ends = spec.end ? this.brought(this.valueOf(spec.end.value)).values : null;
    if (!decided && !ends) return [null, []];
    const parents = decided ? Array.from(decided.parents) : Array.from(ends!, (_, at) => at),
      before = parents.map((parent) => old?.ended[parent] ?? false),
      ended = before.map((one, slot) => one || Boolean(ends?.[slot])),
      idle = spec.end && !spec.end.included ? ended : before,
      lengths = parents.map((parent, slot) => (old?.lengths[parent] ?? 0) + Number(!before[slot])),
      counts = parents.map((parent, slot) => (old?.counts[parent] ?? 0) + Number(!idle[slot])),
      scores = decided?.scores ?? new Float32Array(ended.length);
    return [{ scores, ended, lengths, counts }, idle.flatMap((one, slot) => (one ? [slot] : []))];
  }

  /** `after`: the axes of grown states, as named before the next step. */
  finish(after: Map<Axis, Axis>): void {
    const { looped, spec, decided } = this,
      before = looped.states.at(-1)!,
      [beams, idle] = this.end(),
      count = beams?.ended.length ?? 1;
    const next = Object.fromEntries(
      Object.keys(before).map((path) => {
        const ref = spec.next[path],
          old = this.brought(before[path]!),
          value = ref ? kept(this.brought(this.valueOf(ref)), old, idle, count) : old;
        return [path, withAxes({ ...value, turn: 0 }, after)];
      }),
    );
    spec.outputs.forEach(({ value, last, state }, at) => {
      const now = this.brought(this.valueOf(value));
      looped.outputs[at]!.push({ ...now, turn: 0 });
      if (!last) return;
      const initial = state === null ? { ...now, values: like(now.values, now.values.length) } : before[state]!,
        earlier = this.brought(looped.lasts[at] ?? initial);
      looped.lasts[at] = { ...kept(now, earlier, idle, count), turn: 0 };
    });
    if (decided) decided.ended = beams!.ended;
    if (beams) looped.beams = beams;
    looped.states.push(next);
  }
}

/** Values after a step; hypotheses that it does not affect keep their previous ones. */
function kept(next: Named, old: Named, idle: readonly number[], count: number): Named {
  if (!idle.length || old.dims.some((axis) => !next.dims.includes(axis) && axis !== "beam")) return next; // it has grown, and the old one has no such axis
  if (idle.length === count) return old;
  const made = next.dims.includes("beam") ? next : ordered(next, [...next.dims, "beam"], [...next.shape, count]),
    values = made.values.slice(),
    before = ordered(old, made.dims, made.shape).values,
    inner = strideOf(made, "beam"),
    all = inner * count;
  for (const slot of idle)
    for (let from = slot * inner; from < values.length; from += all)
      values.set(before.subarray(from, from + inner), from);
  return { ...made, values };
}

const withAxes = (array: Named, axes: Map<Axis, Axis>): Named =>
  axes.size ? { ...array, dims: array.dims.map((axis) => axes.get(axis) ?? axis) } : array;
const mapped = <From, To>(values: Record<string, From>, fn: (value: From) => To): Record<string, To> =>
  Object.fromEntries(Object.entries(values).map(([name, value]) => [name, fn(value)]));
const someOf = (names: string[]): string => names.slice(0, SOME).join(" ") + (names.length > SOME ? " …" : "");
const SOME = 60;

const isArray = (value: unknown): value is Named =>
  typeof value === "object" && value !== null && "values" in value && "dims" in value;

/** The final hypotheses of a search, best first, with their labels up to their end. */
export function hypothesesOf({ steps, beams }: Looped, end = 0): Hypothesis[] {
  if (!beams) return [];
  return Array.from(beams.scores, (score, slot) => {
    const [labels] = wayOf(steps, slot),
      ended = beams.ended[slot]!,
      at = ended ? labels.indexOf(end) : -1;
    return { labels: at < 0 ? labels : labels.slice(0, at), score, ended };
  });
}
