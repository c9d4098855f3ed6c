// The views of a page that runs its model: the heads that Python wrote for the first text (rfnb/viz/runnable/page.py), with the values that the
// engine computed for another one. A view cannot tell whether its frame comes from a kernel.

import type { SeqSpec } from "../beams/tree";
import type { Axis, Named } from "./array";
import { each, lengthOf, named as namedArray, ordered, picked, sizeOf } from "./array";
import { seqOf } from "./beams";
import type { Change } from "./changes";
import { wordsOf } from "./changes";
import type { Looped, Result } from "./engine";
import type { OpSpec, ProgramSpec } from "./program";
import type { Decided } from "./search";
import { isLoop, nthOf, unitsOf } from "./program";

/** The location of the values of a map or track: inside an op, or in a state of a loop. */
export interface Look {
  loop: number | null; // null: outside of loops
  op?: number;
  name?: string;
  state?: string;
  first?: boolean; // whether the state before the first step is included
}
type Head = Record<string, any>;
type Along = "text" | "search" | "numbers" | string[];
export interface PartSpec {
  kind: string;
  head: Head;
  loop?: number; // the result of a search
  looks?: Look[]; // for each map or track
  /** For outputs: the index of the function's result, its axes, and the names of its classes. */
  result?: number;
  classes?: Axis;
  steps?: Axis | null;
  labels?: string[] | null;
  /** The names along an axis: the letters of the text, the labels of the best hypothesis, those of a vocabulary, or numbers. */
  along: Record<string, Along>;
}
export interface PageSpec {
  program: ProgramSpec;
  title: string;
  text: string;
  parts: PartSpec[];
}
export interface Plain {
  shape: number[];
  data: Float32Array;
}
/** A frame as sent from a worker to its page. */
export interface PlainFrame {
  kind: string;
  head: Head;
  blocks: Record<string, Plain>;
}
/** The search of a run. */
export interface Searched {
  seq: SeqSpec;
  path: string; // of its loop
  nth: number; // of those with this path
  steps: Decided[];
  vocab: string[] | null;
  name(label: number): string;
  end: number; // the label that continues a complete hypothesis
  ends: boolean; // whether hypotheses can be complete before the last step
  exponent: number; // of the length, for ranking results
  most: number; // steps
}
/** The best hypothesis of a search, and its slot in each step. */
interface Best {
  labels: string[];
  after: number[];
  before: number[];
}

export class Frames {
  constructor(private readonly page: PageSpec) {}

  /** The views of a run. */
  parts(text: string, result: Result): PlainFrame[] {
    return this.page.parts.map((part) => this.part(part, text, result));
  }

  /** All views for a text, below the state of its run. `changes`: the edits. */
  of(text: string, result: Result, changes: readonly Change[] = [], control: Head | null = null): PlainFrame {
    return this.together(text, this.parts(text, result), changes, control);
  }

  /** Several views in one frame. */
  together(text: string, own: PlainFrame[], changes: readonly Change[], control: Head | null): PlainFrame {
    const head = control && { ...control, vocab: own.find(({ head }) => head["vocab"])?.head["vocab"], seqs: [] },
      parts = [...(head ? [{ kind: "control", head, blocks: {} }] : []), ...own],
      said = (words: string) => words.replaceAll(this.page.text, text);
    return {
      kind: "group",
      head: {
        title: "",
        link: `page ${control?.["run"] ?? ""}${control?.["beside"] ? " beside another" : ""}`,
        ordered: true,
        parts: parts.map(({ kind, head }) => ({
          kind,
          head: {
            ...head,
            seqs: head["seqs"].map((seq: Head) => ({ ...seq, label: said(seq["label"] ?? "") })),
            hands: changes.flatMap(({ step, then }) => then.map((command) => [step, wordsOf(command)])),
          },
        })),
      },
      blocks: Object.fromEntries(
        parts.flatMap(({ blocks }, at) => Object.entries(blocks).map(([name, block]) => [`${at}/${name}`, block])),
      ),
    };
  }

  private part(part: PartSpec, text: string, result: Result): PlainFrame {
    const { kind, head } = part,
      [label] = head["seqs"].map((seq: Head) => seq["label"]) as string[];
    if (kind === "beams")
      return { kind, head: { ...head, seqs: [{ label, ...this.seq(part.loop!, head, result) }] }, blocks: {} };
    if (kind === "distribution") return this.outputs(part, text, result);
    if (part.result !== undefined) return this.outputMap(part, text, result);
    return kind === "attention" ? this.attention(part, text, result) : this.states(part, text, result);
  }

  /** The search of a run, if it has one. */
  search(result: Result): Searched | null {
    const part = this.page.parts.find(({ kind }) => kind === "beams");
    if (!part) return null;
    const loop = this.page.program.blocks.filter(isLoop)[part.loop!]!,
      { steps, most } = result.loops[part.loop!]!,
      { vocab, end } = this.labels(part.loop!);
    return {
      seq: this.seq(part.loop!, part.head, result),
      path: loop.path,
      nth: nthOf(this.page.program, part.loop!),
      steps,
      vocab,
      name: (label) => vocab?.[label] ?? String(label),
      end,
      ends: loop.end !== null,
      exponent: (part.head["length_exponent"] as number | undefined) ?? 0,
      most,
    };
  }

  /** The labels of the choice of a loop. */
  private labels(loop: number): { vocab: string[] | null; end: number } {
    const spec = this.page.program.blocks.filter(isLoop)[loop]!,
      choice = spec.ops.find(({ op }) => op === "choice")!;
    return {
      vocab: this.page.program.dims[choice.as[0]!.sparse as number]?.vocab ?? null,
      end: (choice.given["end_label"] as number | undefined) ?? 0,
    };
  }

  /** The attentions in the steps of a loop: their paths, and numbers of positions. */
  attendedIn(path: string, result: Result, step: number): [path: string, length: number][] {
    const loops = this.page.program.blocks.filter(isLoop),
      at = loops.findIndex((loop) => loop.path === path);
    return loops[at]!.ops.flatMap(({ offers, given }, op) =>
      offers
        .filter(([kind]) => kind === "attention")
        .map(([, own, name]): [string, number] => {
          const weights = result.loops[at]!.offers[step]?.[op]?.[name];
          return [own, weights ? lengthOf(weights, (given["axis"] as { dim: Axis }).dim) : 0];
        }),
    );
  }

  /** The loop of the first open view that has one. */
  get loopOnView(): number | null {
    const open = this.page.parts.filter(({ head }) => !head["folded"]);
    return open.map(({ loop, looks }) => loop ?? looks?.[0]?.loop ?? null).find((loop) => loop !== null) ?? null;
  }

  /** The axis that the views of a loop run over. */
  axisOf(loop: number): string {
    const part = this.page.parts.find((part) => part.loop === loop || part.looks?.[0]?.loop === loop);
    return String(part?.head["axis"] ?? "");
  }

  private seq(loop: number, { length_exponent: exponent = 0, join = " " }: Head, { loops }: Result): SeqSpec {
    const { vocab } = this.labels(loop);
    return seqOf(loops[loop]!, (label) => vocab?.[label] ?? String(label), exponent, join);
  }

  private best(loop: number, result: Result): Best {
    const seq = this.seq(loop, this.page.parts.find((part) => part.loop === loop)?.head ?? {}, result),
      path = seq.best ?? [];
    return {
      labels: path.map(([step, slot]) => seq.steps[step]!.tokens[slot]!),
      after: path.map(([, slot]) => slot),
      before: path.map(([step, slot]) => (step ? seq.steps[step]!.parents[slot]! : 0)),
    };
  }

  private names(
    along: Along | undefined,
    count: number,
    text: string,
    best: Best | null,
    known: string[] | null = null,
  ): string[] {
    if (Array.isArray(along) && along.length === count) return along;
    const letters = unitsOf(text, this.page.program.unit);
    if (along === "search" && best) return best.labels;
    if (along !== "text" && known) return known;
    return Array.from({ length: count }, (_, at) => (along === "text" ? (letters[at] ?? "") : String(at)));
  }

  /** The names of the entries of an axis: labels of the run, or those of its vocabulary; null without. */
  private known(axis: Axis | null | undefined, count: number, { names }: Result): string[] | null {
    const found = names.get(axis!) ?? this.page.program.dims[axis as number]?.vocab;
    return found?.length === count ? found : null;
  }

  /** The names of a history that gets one entry in each step: those from before the loop, then the label that each step reads. */
  private history(loop: number, axis: Axis, count: number, result: Result, best: Best): string[] | null {
    const { dims, blocks } = this.page.program,
      { grows, ops, next } = blocks.filter(isLoop)[loop]!,
      { states, made } = result.loops[loop]!,
      begin = grows.find(([, , after]) => after === axis)?.[0],
      chosen = ops.find(({ op }) => op === "choice")!.results[0]!,
      read = Object.keys(next).find((state) => String(next[state]) === `value,${chosen}`),
      size = count - made;
    if (begin === undefined || read === undefined) return null;
    const before = [...result.names].find(
      ([of, names]) => dims[of as number]!.name === dims[begin]!.name && names.length === size,
    );
    if (size && !before) return null;
    const { vocab } = this.labels(loop),
      first = states[0]![read]!.values[0]!,
      found = [...(before?.[1] ?? []), vocab?.[first] ?? String(first), ...best.labels.slice(0, -1)];
    return Array.from({ length: count }, (_, at) => found[at] ?? ""); // other hypotheses may be longer
  }

  private attention(part: PartSpec, text: string, result: Result): PlainFrame {
    const { head } = part,
      blocks: Record<string, Plain> = {},
      [look] = part.looks as [Look],
      best = this.bestOf(look, result),
      shapes: number[][] = [];
    let most = 0,
      axes: [row: Axis | null, col: Axis | null] = [null, null];
    const maps = (head["maps"] as Head[]).map((map, number) => {
      const own = part.looks![number]!,
        values = rowsOf(own, result, this.page.program, 0),
        op = this.opOf(own),
        cols = (op.given["axis"] as { dim: Axis }).dim,
        over = op.given["target"] as { dim: Axis } | undefined,
        along = own.loop === null ? (over?.dim ?? this.axis(map["row_dim"].name, cols)) : null,
        cut: Cut = (row) => [[...(along === null ? [] : [along]), cols], this.fixed(part, number, row, [along, cols])];
      const table = values.of(cut, best && best.before);
      if (!number) axes = [along, cols];
      if (own.loop === null && along === null) table.shape = [1, table.data.length]; // of one query
      for (const value of table.data) if (value > most) most = value;
      shapes.push(table.shape);
      const held = map["held"] && { ...map["held"], widths: table.shape[1] }; // for this text
      blocks[`map${number}`] = { ...table, shape: [1, ...table.shape] };
      if (best) blocks[`map${number}/slots`] = values.slots(cut);
      const slots = best ? { slots: `map${number}/slots` } : {};
      return { ...map, ...(held ? { held } : {}), ...slots, block: `map${number}` } as Head;
    });
    const [rows, cols] = shapes[0] as [number, number],
      col = maps[0]!["col_dim"].name as string,
      row = maps[0]!["row_dim"].name as string;
    const grown = best && this.history(look.loop!, axes[1]!, cols, result, best);
    const seq = {
      label: head["seqs"][0].label,
      rows: this.names(part.along[row], rows, text, best, this.known(axes[0], rows, result)),
      cols: this.names(part.along[col], cols, text, best, grown ?? this.known(axes[1], cols, result)),
      row_len: rows,
      col_len: cols,
    };
    return { kind: part.kind, head: { ...head, maps, seqs: [seq], range: [0, most], ...slotsOf(best) }, blocks };
  }

  private states(part: PartSpec, text: string, result: Result): PlainFrame {
    const { head } = part,
      blocks: Record<string, Plain> = {},
      best = this.bestOf(part.looks![0]!, result);
    let steps = 0;
    const tracks = (head["tracks"] as Head[]).map((track, number) => {
      const look = part.looks![number]!,
        values = rowsOf(look, result, this.page.program, NaN),
        { before } = track,
        along = look.loop === null ? this.axis(part.head["step_dim"].name) : null;
      let units: Axis[] = [];
      const cut: Cut = (row) => [[...(along === null ? [] : [along]), ...(units = this.units(row, track, along))], {}],
        table = values.of(cut, best && (before ? best.before : best.after)),
        count = table.shape[1]!,
        names = units.length === 1 && count <= MOST_NAMES ? this.known(units[0], count, result) : null;
      steps = table.shape[0]!;
      const most = table.data.reduce((top, value) => Math.max(top, Math.abs(value)), 0) || 1;
      blocks[`track${number}`] = { ...table, shape: [1, ...table.shape] };
      const slots = best && track["slots"] ? { slots: `track${number}/slots` } : {};
      if (slots.slots) blocks[slots.slots] = values.slots(cut);
      return {
        ...track,
        ...slots,
        ...(names ? { names } : {}),
        block: `track${number}`,
        range: track["gate"] ? [0, 1] : [-most, most],
      };
    });
    const along = part.along[head["step_dim"].name],
      names = this.names(along, steps, text, best),
      seq = { label: head["seqs"][0].label, steps: names, len: steps };
    return { kind: part.kind, head: { ...head, tracks, seqs: [seq], ...slotsOf(best) }, blocks };
  }

  /** The best classes of each position, as rfnb/viz/distribution/scores.py has them. */
  private outputs({ head, along, ...part }: PartSpec, text: string, { values }: Result): PlainFrame {
    const found = values[part.result!]!,
      axes = [...(part.steps === null ? [] : [part.steps!]), part.classes!],
      others = found.dims.filter((axis) => !axes.includes(axis)),
      count = part.steps === null ? 1 : lengthOf(found, part.steps!),
      size = lengthOf(found, part.classes!),
      scores = ordered(found, [...others, ...axes]).values,
      most = Math.min(TOP, size),
      top = new Float32Array(count * most).fill(-1),
      [logs, rest, entropy] = [count * most, count, count].map((length) => new Float32Array(length).fill(NaN)),
      names = this.names(along[head["step_dim"]?.name], count, text, null),
      tokens: Record<string, string> = {};
    let broken = 0;
    for (let step = 0; step < count; step++) {
      const own = distributed(scores.subarray(step * size, (step + 1) * size), head["estimated_type"]);
      if (!own) {
        broken++;
        continue;
      }
      rest![step] = own.slice(most).reduce((sum, [, log]) => sum + Math.exp(log), 0);
      entropy![step] = own.reduce((sum, [, log]) => (log > -Infinity ? sum - Math.exp(log) * log : sum), 0);
      own.slice(0, most).forEach(([label, log], at) => {
        top[step * most + at] = label;
        logs![step * most + at] = log;
        tokens[label] = part.labels?.[label] ?? String(label);
      });
    }
    const note = broken ? { note: `no distribution (NaN or infinity) in ${broken} of ${count}` } : {},
      seq = { label: head["seqs"][0].label, len: count, steps: names, ...note };
    const blocks = {
      top: { shape: [1, count, most], data: top },
      top_log_probs: { shape: [1, count, most], data: logs! },
      rest: { shape: [1, count], data: rest! },
      entropy: { shape: [1, count], data: entropy! },
    };
    return { kind: "distribution", head: { ...head, tokens, seqs: [seq] }, blocks };
  }

  /** The values of each class, one row for each position. */
  private outputMap({ head, along, ...part }: PartSpec, text: string, { values }: Result): PlainFrame {
    const found = values[part.result!]!,
      [map] = head["maps"] as [Head],
      axes = [...(part.steps === null ? [] : [part.steps!]), part.classes!],
      others = found.dims.filter((axis) => !axes.includes(axis)),
      rows = part.steps === null ? 1 : lengthOf(found, part.steps!),
      cols = lengthOf(found, part.classes!);
    const seq = {
      label: head["seqs"][0].label,
      rows: part.steps === null ? ["all"] : this.names(along[map["row_dim"].name], rows, text, null),
      cols: this.names(part.labels ?? "numbers", cols, text, null),
      row_len: rows,
      col_len: cols,
    };
    const data = Float32Array.from(ordered(found, [...others, ...axes]).values);
    return {
      kind: part.kind,
      head: { ...head, seqs: [seq] },
      blocks: { [map["block"]]: { shape: [1, rows, cols], data } },
    };
  }

  private bestOf({ loop }: Look, result: Result): Best | null {
    return loop !== null && result.loops[loop]!.steps.length ? this.best(loop, result) : null;
  }

  /** The dim with a name; `not`: another one with the same name. */
  private axis(name: string, not: Axis | null = null): Axis | null {
    const at = this.page.program.dims.findIndex((dim, at) => dim.name === name && at !== not);
    return at < 0 ? null : at;
  }

  private opOf({ loop, op }: Look): OpSpec {
    const { blocks } = this.page.program;
    return loop === null ? (blocks[op!] as OpSpec) : blocks.filter(isLoop)[loop]!.ops[op!]!;
  }

  /** The unit axes of a row, from the name of their dim. */
  private units(row: Named, track: Head, along: Axis | null): Axis[] {
    const open = row.dims.filter((axis) => axis !== "beam" && axis !== along && !this.isBatch(axis)),
      names = String(track["unit_dim"]?.name ?? "").split(" × ");
    const order = (axis: Axis) => names.indexOf(typeof axis === "number" ? this.page.program.dims[axis]!.name : axis);
    return open.sort((a, b) => order(a) - order(b));
  }

  private isBatch(axis: Axis): boolean {
    return typeof axis === "number" && this.page.program.dims[axis]!.kind === "batch";
  }

  /** The entries of a map: those of its held place, else by its number among the maps of the same weights. */
  private fixed(part: PartSpec, number: number, row: Named, shown: (Axis | null)[]): Record<string, number> {
    const held = part.head["maps"][number]["held"]?.fixed as Record<string, number> | undefined;
    if (held) return held;
    const { dims } = this.page.program,
      key = JSON.stringify(part.looks![number]),
      same = part.looks!.flatMap((look, at) => (JSON.stringify(look) === key ? [at] : []));
    const open = row.dims.filter(
      (axis): axis is number => typeof axis === "number" && !shown.includes(axis) && lengthOf(row, axis) > 1,
    );
    if (open.reduce((count, axis) => count * lengthOf(row, axis), 1) !== same.length)
      throw new Error(`A page does not know which of its weights the map “${part.head["maps"][number].label}” has.`);
    const found: Record<string, number> = {},
      isHead = (axis: number) => Number(dims[axis]!.name.includes("head"));
    let rest = same.indexOf(number);
    for (const axis of open.sort((a, b) => isHead(a) - isHead(b)).reverse()) {
      found[dims[axis]!.name] = rest % lengthOf(row, axis);
      rest = Math.floor(rest / lengthOf(row, axis));
    }
    return found;
  }
}

/** The labels of scores with their log probabilities, best first; null if they are not probabilities. */
function distributed(scores: ArrayLike<number>, kind: string): [label: number, log: number][] | null {
  const all = Array.from(scores, (value) => (kind === "probs" ? Math.log(value) : value)),
    top = all.reduce((most, value) => (Number.isNaN(value) || value > most ? value : most), -Infinity);
  if (!Number.isFinite(top)) return null;
  const less = kind === "logits" ? top + Math.log(all.reduce((sum, value) => sum + Math.exp(value - top), 0)) : 0;
  return all.map((value, label): [number, number] => [label, value - less]).sort((a, b) => b[1] - a[1] || a[0] - b[0]);
}
const TOP = 20, // number of classes per position in a view
  MOST_NAMES = 64; // of units

const slotsOf = (best: Best | null): Head =>
  best ? { best: true, slots_of_best: { before: [best.before], after: [best.after] } } : {};

/** The displayed axes of a row, and the entries of the other axes. */
type Cut = (row: Named) => [axes: Axis[], fixed: Record<string, number>];
interface Rows {
  of(cut: Cut, slots: number[] | null): Plain;
  slots(cut: Cut): Plain;
}

/** The values at a location, row by row: the steps of its loop, or the entries of an axis. `lacks`: the fill value for shorter rows. */
function rowsOf(look: Look, { loops, offers }: Result, program: ProgramSpec, lacks: number): Rows {
  const { loop, op, name, state } = look,
    named = (axis: Axis) => (typeof axis === "number" ? program.dims[axis]!.name : axis);
  const cutAt = (row: Named, cut: Cut, slot: number): Plain => {
    const [axes, fixed] = cut(row);
    let found = row;
    const others = row.dims.filter((axis) => !axes.includes(axis));
    for (const one of others)
      if (one === "beam") found = picked(found, one, [Math.min(slot, lengthOf(found, one) - 1)]);
      else if (lengthOf(found, one) > 1) found = picked(found, one, [fixed[named(one)] ?? 0]);
    const shape = axes.map((axis) => lengthOf(found, axis)),
      { values } = ordered(found, [...others, ...axes], [...others.map(() => 1), ...shape]);
    return { shape, data: Float32Array.from(values) };
  };
  if (loop === null) {
    const whole = offers[op!]![name!]!;
    return {
      of: (cut) => {
        const { shape, data } = cutAt(whole, cut, 0),
          [rows = 1] = shape;
        return { shape: [rows, data.length / rows], data };
      },
      slots: () => ({ shape: [0], data: new Float32Array() }),
    };
  }
  const { states, offers: seen, steps, ...looped } = loops[loop] as Looped,
    made = looped.made + Number(look.first ?? false),
    at = (step: number): Named =>
      state === undefined ? seen[step]![op!]![name!]! : states[step + Number(!look.first)]![state]!;
  /** `null`: a missing row. */
  const table = (rows: (Plain | null)[], shape: number[], cut: Cut): Plain => {
    // Also for steps after the displayed end.
    const sizes = Array.from({ length: made }, (_, step) => cut(at(step))[0].map((axis) => lengthOf(at(step), axis))),
      most = (sizes[0] ?? [0]).map((_, axis) => Math.max(...sizes.map((size) => size[axis]!))),
      width = sizeOf(most),
      data = new Float32Array(rows.length * width).fill(NaN);
    rows.forEach((row, number) => {
      if (!row) return;
      const into = data.subarray(number * width, (number + 1) * width);
      if (row.data.length === width) return into.set(row.data);
      into.fill(lacks);
      const axes = row.shape.map((_, axis) => axis);
      each(axes, row.shape, [namedArray(axes, most, into)], ([place], entry) => {
        into[place!] = row.data[entry]!;
      });
    });
    return { shape: [...shape, width], data };
  };
  return {
    of: (cut, slots) => {
      const count = slots?.length ?? made,
        rows = Array.from({ length: count }, (_, step) => cutAt(at(step), cut, slots?.[step] ?? 0));
      return table(rows, [count], cut);
    },
    slots: (cut) => {
      const most = Math.max(1, ...steps.map(({ parents }) => parents.length)),
        rows = Array.from({ length: made * most }, (_, number) => {
          const row = at(Math.floor(number / most)),
            slot = number % most,
            has = row.dims.includes("beam");
          return slot < (has ? lengthOf(row, "beam") : most) ? cutAt(row, cut, slot) : null;
        });
      return table(rows, [1, made, most], cut);
    },
  };
}
