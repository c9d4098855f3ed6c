// The runs of a page, the typed one and its edited branches, as a tree; and the result of an edit in words. The counterparts in a kernel:
// rfnb/control/ghosts.py, rfnb/viz/control/spec.py.

import type { SeqSpec } from "../beams/tree";
import { grow, pathOf, tokensOf } from "../beams/tree";
import type { Change } from "../engine/changes";
import type { Result } from "../engine/engine";
import { short } from "../number";
import type { Command, Entry, Lane, Result as Outcome } from "../run";

const EQUAL = 0.005; // nats

export interface Branch {
  number: number;
  name: string;
  parent: Branch | null;
  change: Change | null; // the edit at its start
  changes: Change[]; // all edits on its path
  result: Result;
  seq: SeqSpec | null;
}

/** The labels of the best hypothesis, and its score. */
function outcomeOf(seq: SeqSpec | null): { labels: string[]; score: number | null } {
  const [best] = seq ? grow(seq).nbest : [];
  return { labels: best ? tokensOf(pathOf(best)) : [], score: best?.score ?? null };
}

type Ran = Pick<Branch, "seq" | "result">;

/** How far the values are apart that a function without labels returns; NaN: they are others. */
function apart(a: Result, b: Result): number {
  let most = 0;
  for (const [at, { values }] of a.values.entries()) {
    const other = b.values[at]!.values;
    if (values.length !== other.length) return NaN;
    values.forEach((value, index) => {
      if (!Object.is(value, other[index])) most = Math.max(most, Math.abs(value - other[index]!)); // NaN stays
    });
  }
  return most;
}
/** The same in words, and the number that belongs to them. */
const wordsOf = (most: number): [words: string, number: string] =>
  most === 0 ? ["the same values", ""] : Number.isFinite(most) ? [CHANGE, short(most)] : ["other values", ""];
const CHANGE = "values change by up to";

/** The result of an edit, compared with the one without it. */
export function verdict(name: string, before: Ran, after: Ran, lane: Lane | null): Outcome {
  const old = outcomeOf(before.seq),
    { labels, score } = outcomeOf(after.seq),
    difference = score === null || old.score === null ? null : Math.round((score - old.score) * 1e5) / 1e5,
    some = labels.length + old.labels.length,
    values = some ? NaN : apart(before.result, after.result),
    same = some ? labels.join("\0") === old.labels.join("\0") : values === 0,
    said = [labels.join(" ") || (some ? "no labels" : wordsOf(values).join(" ").trim())];
  if (score !== null) said.push(score.toFixed(2).replace("-", "−"));
  if (same && some) said.push("no change");
  else if (difference !== null)
    said.push(
      Math.abs(difference) < EQUAL
        ? "as likely"
        : `${Math.abs(difference).toFixed(2)} nats ${difference > 0 ? "better" : "worse"}`,
    );
  const pruned = lane?.fell ? ` ${lane.labels[0]} was pruned at step ${lane.fell[0]}.` : "";
  return { labels, score, difference, same, words: `With ${name}: ${said.join(", ")}.${pruned}` };
}

/** The path of the best hypothesis from a step on; for a label that competes within the beam, up to its pruning. */
export function laneOf(seq: SeqSpec | null, first: number, then: readonly Command[]): Lane | null {
  if (!seq?.steps[first]) return null;
  const { nodes, nbest } = grow(seq),
    [command] = then,
    asked = then.length === 1 && command!.do === "force" && !command!["only"] ? command! : null;
  let end = nbest[0] ?? null,
    pruning: Lane["fell"] = null;
  if (asked) {
    const { ids, tokens } = seq.steps[first],
      { label, hypothesis } = asked;
    let slots = nodes[first]!.filter(
      (node) =>
        node &&
        (ids?.[node.slot] === label || tokens[node.slot] === label) &&
        (node.parent?.slot ?? 0) === (hypothesis ?? 0),
    );
    for (let row = first; slots.length && !pruning; row++) {
      const top = slots.reduce((best, node) => (node!.score > best!.score ? node : best))!;
      if (row === nodes.length - 1) break; // it survives
      const next = nodes[row + 1]!.filter((node) => node && slots.includes(node.parent));
      if (!next.length) {
        end = top;
        pruning = [row + 1, null];
      }
      slots = next;
    }
  }
  const path = pathOf(end).filter(({ step }) => step >= first),
    [begin] = path;
  if (!begin) return null;
  return {
    row: first,
    parent: begin.parent?.slot ?? null,
    before: begin.parent?.score ?? 0,
    labels: path.map(({ token }) => token),
    scores: path.map(({ score }) => score),
    ended: end!.state === "ended" || end!.state === "carried",
    fell: pruning,
  };
}

/** A run of the tree as shown in the rail. */
export function entryOf(branch: Branch): Entry {
  const { number, name, parent, change, result, seq } = branch,
    steps = result.loops.at(-1)?.made ?? 0,
    lane = parent && change ? laneOf(seq, change.step, change.then) : null,
    told = verdict(name, parent ?? branch, branch, lane),
    [text, far] = told.labels.length || told.same ? ["", ""] : wordsOf(apart((parent ?? branch).result, result));
  return {
    number,
    name,
    from: parent && change ? `from step ${change.step} of "${change.path}" of ${parent.name}` : "",
    state: "done",
    steps,
    text,
    far,
    ...(parent && change ? { parent: parent.number, step: change.step, tick: change.step, moves: true } : {}),
    results: [parent ? told : { ...told, difference: null, same: false, words: "" }],
    ...(lane ? { lanes: [lane] } : {}),
  };
}
