// Why a search in a page missed the expected result, and what would produce it, found by running the program again: rfnb/control/why_not.py. The
// cause of a margin is found by hiding one letter at a time, since a page has no gradients.

import type { Node, SeqSpec } from "../beams/tree";
import { grow, pathOf } from "../beams/tree";
import type { Change } from "../engine/changes";
import type { Result } from "../engine/engine";
import type { Searched } from "../engine/frames";
import type { Decided } from "../engine/search";
import { minus } from "../number";

const MOST = 64; // positions of an attention, hidden letters
const CAUSES = 6;

export interface Repair {
  words: string;
  changes: Change[]; // none: an option of the search, which was not tried
}
export interface Why {
  expected: string;
  text: string;
  wrong: boolean;
  causes: string;
  repairs: Repair[];
}
/** The parts of a run that a question needs. `again`: the search with further edits and without a letter; null if impossible. */
export interface Asking {
  search: Searched;
  result: Result;
  letters: string[];
  /** The paths of the attentions in its loop, and their numbers of positions in a step. */
  attention(step: number): [path: string, length: number][];
  again(changes: Change[], hidden?: number): Promise<Searched | null>;
}
interface Way {
  ids: number[];
  slots: number[];
  scores: number[];
}

/** The partial answers, one after another. */
export async function* whyNot(expected: string, asking: Asking): AsyncGenerator<Why> {
  const { search, again } = asking,
    { name, exponent } = search,
    found = bestOf(search.seq);
  if (!found) throw new Error("The search has found nothing: there is nothing to compare with.");
  let tokens = idsOf(expected, search);
  const why: Why = { expected, text: "", wrong: false, causes: "", repairs: [] },
    texts = (ids: number[]) => ids.map(name).join(" "),
    rating = (score: number, length: number) => score / Math.max(length, 1) ** exponent,
    foundScore = found.scores.at(-1)!;
  if (tokens.length > search.most) tokens = tokens.slice(0, -1); // the limit of steps
  if (same(tokens, found.ids)) {
    yield { ...why, text: `The search found it: ${texts(tokens)} (${foundScore.toFixed(3)}).` };
    return;
  }
  const forced = (ids: number[], first: number, count: number): Change[] =>
    ids.slice(first, first + count).map((label, at) => ({
      path: search.path,
      nth: search.nth,
      step: first + at,
      then: [{ do: "force", label, hypothesis: at || !first ? 0 : found.slots[first - 1]!, seq: 0, only: true }],
    }));
  const followed = async (ids: number[], hidden?: number): Promise<Decided[] | null> => {
    const made = await again(forced(ids, 0, ids.length), hidden);
    return made && made.steps.length >= ids.length ? made.steps : null;
  };
  const scoreOf = async (ids: number[], hidden?: number): Promise<number | null> =>
    (await followed(ids, hidden))?.[ids.length - 1]!.scores[0] ?? null;
  /** The label that a limit forbids, in a sequence that cannot be forced; null: the model gives it probability 0. */
  const forbiddenAt = async (): Promise<number | null> => {
    for (let count = tokens.length - 1; count > 0; count--) {
      const step = (await followed(tokens.slice(0, count)))?.[count];
      if (step) return lossOf(step, tokens[count]!) === "blocked" ? count : null;
    }
    return null;
  };
  const isShort = tokens.length > search.most,
    score = isShort ? null : await scoreOf(tokens),
    pruning = findPruning(tokens, search),
    blocked = pruning?.loss === "blocked",
    forbidden = score !== null || isShort || blocked ? null : await forbiddenAt();
  const kind =
    score === null
      ? blocked || forbidden !== null
        ? "not allowed"
        : isShort
          ? "too long"
          : search.steps[0]!.threshold // what is forced falls below it, too
            ? "unknown"
            : "impossible"
      : rating(score, tokens.length) > rating(foundScore, found.ids.length)
        ? "search error"
        : "model error";
  const wanted = texts(tokens),
    said = texts(found.ids),
    far = score === null ? "" : farOf(score, foundScore),
    means = {
      "search error": `The model prefers ${wanted} to ${said}${far}: the search lost it`,
      "model error": `The model prefers ${said} to ${wanted}${far}`,
      "not allowed": `${wanted} is not allowed: a limit of the search forbids ${forbidden === null ? "it" : `${name(tokens[forbidden]!)} at step ${forbidden}`}`,
      "too long": `${wanted} is longer than the search allows`,
      unknown: `Whether the model prefers ${said} to ${wanted} is not known: it was pruned before its score was complete`,
      impossible: `The model gives ${wanted} the probability 0`,
    }[kind];
  why.text = `${means}. It ${
    !pruning
      ? "was in the beam until the end"
      : blocked
        ? `was forbidden at step ${pruning.step}`
        : `was pruned at step ${pruning.step}${
            pruning.score === -Infinity
              ? ""
              : ` on rank ${pruning.rank}${pruning.margin < 0 ? `, ${(-pruning.margin).toFixed(2)} nats behind the last hypothesis kept` : ""}`
          }`
  }.`;
  yield { ...why };
  if (pruning?.loss === "below") {
    const behind = Math.max(...search.steps[pruning.step]!.scores) - pruning.score,
      words = `threshold=${(Math.ceil(100 * behind) / 100).toFixed(2)} keeps it in step ${pruning.step}`;
    why.repairs.push({ words, changes: [] });
  }
  if (kind === "too long") {
    const most = tokens.length + Number(search.ends && tokens.at(-1) !== endOf(search));
    why.repairs.push({ words: `max_seq_len=${most} allows its length`, changes: [] });
  }
  yield { ...why };
  if (score === null && kind !== "unknown") return;
  const first = partOf(tokens, found.ids);
  const gives = async (changes: Change[]) => {
    const made = await again(changes),
      best = made && bestOf(made.seq);
    return best && same(best.ids, tokens);
  };
  for (let count = 1; count < tokens.length - first; count++) {
    const changes = forced(tokens, first, count);
    if (!(await gives(changes))) continue;
    why.repairs.push({ words: `${texts(tokens.slice(first, first + count))} at ${first}`, changes });
    break;
  }
  yield { ...why };
  for (const [path, length] of asking.attention(first))
    for (let position = 0; position < Math.min(length, MOST); position++) {
      const then = [{ do: "attention", path, entries: {}, focus: position }],
        changes = [{ path: search.path, nth: search.nth, step: first, then }];
      if (!(await gives(changes))) continue;
      why.repairs.push({ words: `${path} all on position ${position} in step ${first}`, changes });
      yield { ...why };
    }
  if (kind === "model error") why.repairs.push(...exponents(tokens, score!, search.seq));
  if (pruning?.loss === "rank" && pruning.margin <= 0 && pruning.score !== -Infinity)
    why.repairs.push({ words: `beam_size=${pruning.rank} keeps it in step ${pruning.step}`, changes: [] });
  yield { ...why };
  if (score === null) return;
  const parts: [string, number][] = [];
  for (const [at, letter] of asking.letters.slice(0, MOST).entries()) {
    const own = await scoreOf(tokens, at),
      other = await scoreOf(found.ids, at);
    if (own === null || other === null) return; // the hidden unit is not a row of a table
    parts.push([letter, score - foundScore - (own - other)]);
  }
  const most = [...parts].sort((a, b) => Math.abs(b[1]) - Math.abs(a[1])).slice(0, CAUSES);
  if (most.length)
    why.causes = `With one letter hidden at a time it is due to ${most
      .map(([letter, part]) => `${letter} ${part < 0 ? "" : "+"}${part.toFixed(2)}`)
      .join(", ")} (nats for what was expected).`;
  yield { ...why };
}

const same = (a: readonly number[], b: readonly number[]): boolean => a.join() === b.join();

function farOf(one: number, other: number): string {
  const [better, worse] = [Math.max(one, other), Math.min(one, other)];
  return ` (${better.toFixed(3)} and ${worse.toFixed(3)}: ${(better - worse).toFixed(2)} nats)`;
}

/** The first place in which two sequences differ. */
function partOf(one: readonly number[], other: readonly number[]): number {
  const length = Math.min(one.length, other.length),
    at = one.findIndex((id, place) => place >= length || id !== other[place]);
  return at < 0 || at >= length ? length - 1 : at;
}

const wayOf = (seq: SeqSpec, node: Node): Way => {
  const path = pathOf(node);
  return {
    ids: path.map(({ step, slot }) => seq.steps[step]!.ids![slot]!),
    slots: path.map(({ slot }) => slot),
    scores: path.map(({ score }) => score),
  };
};

function bestOf(seq: SeqSpec): Way | null {
  const [best] = grow(seq).nbest;
  if (!best) return null;
  const way = wayOf(seq, best);
  return { ...way, scores: [...way.scores.slice(0, -1), best.score] };
}

/** The end label. */
function endOf({ steps, end }: Searched): number {
  for (const [at, { labels, parents, scores, ended }] of steps.entries()) {
    const slot = ended.findIndex(
      (one, slot) => one && scores[slot] !== -Infinity && !steps[at - 1]?.ended[parents[slot]!],
    );
    if (slot >= 0) return labels[slot]!;
  }
  return end;
}

/** The indices of the expected labels, including the end. */
function idsOf(expected: string, search: Searched): number[] {
  const { vocab, steps, ends, most } = search,
    end = ends ? endOf(search) : -1,
    known = vocab ? new Map(vocab.map((label, id) => [label, id])) : null,
    isSpelt = !known?.has(expected) && [...expected].every((letter) => known?.has(letter)); // a label for each letter
  const ids = (isSpelt ? [...expected] : expected.split(/\s+/)).flatMap((label) => {
    if (!label) return [];
    const id = known?.get(label) ?? (/^\d+$/.test(label) ? Number(label) : -1);
    if (!(id >= 0 && id < steps[0]!.width)) throw new Error(`There is no label “${label}”.`);
    return [id];
  });
  if (ends && !ids.includes(end)) ids.push(end);
  if (!ids.length || (ids.includes(end) && ids.indexOf(end) !== ids.length - 1))
    throw new Error("The expected output has at least one label, and no label after the end label.");
  if (!ends && ids.length < most) throw new Error(`What was expected stops in the middle: it has ${most} labels here.`);
  return ids;
}

interface Pruning {
  step: number;
  rank: number; // among all candidates, from 1
  margin: number; // its score minus that of the worst kept one
  score: number;
  loss: Loss;
}
type Loss = "rank" | "below" | "blocked"; // pruned by rank, below the threshold, or forbidden by a limit

/** The reason why a label in a slot did not survive. */
function lossOf({ total, threshold, logs, width }: Decided, label: number, slot = 0): Loss {
  const place = slot * width + label;
  if (total[place] !== -Infinity || !Number.isFinite(logs[place])) return "rank";
  return threshold && threshold.total[place]! < threshold.least && Number.isFinite(threshold.total[place])
    ? "below"
    : "blocked";
}

/** Finds the step in which the expected sequence was pruned, and its candidate there; null if it survived. */
function findPruning(tokens: readonly number[], { steps, end }: Searched): Pruning | null {
  let slot = 0;
  for (const [step, decided] of steps.entries()) {
    const { parents, labels, scores, width, ended } = decided,
      before = steps[step - 1]?.ended[slot] ?? false,
      label = before ? end : tokens[step];
    if (label === undefined) return null;
    const next = scores.findIndex((one, at) => one !== -Infinity && parents[at] === slot && labels[at] === label);
    if (next >= 0 && (ended[next] || step < tokens.length)) {
      slot = next;
      continue;
    }
    const place = slot * width + label,
      loss = lossOf(decided, label, slot),
      total = loss === "below" ? decided.threshold!.total : decided.total,
      own = total[place]!,
      kept = scores.filter(Number.isFinite);
    return {
      step,
      rank: total.filter((other, at) => other > own || (other === own && at < place)).length + 1,
      margin: own - Math.min(...kept),
      score: own,
      loss,
    };
  }
  return null;
}

/** A length exponent with which it is the best known hypothesis. */
function exponents(tokens: readonly number[], score: number, seq: SeqSpec): Repair[] {
  const others = grow(seq)
    .nodes.flat()
    .filter((node): node is Node => !!node && ["ended", "dropped"].includes(String(node.state)))
    .map((node) => wayOf(seq, node))
    .filter(({ ids }) => !same(ids, tokens));
  for (let tenth = 1; tenth <= 30; tenth++) {
    const rating = (total: number, length: number) => total / length ** (tenth / 10);
    if (others.every(({ ids, scores }) => rating(score, tokens.length) > rating(scores.at(-1)!, ids.length)))
      return [{ words: `length_exponent=${(tenth / 10).toFixed(1)}, if it is in the beam at the end`, changes: [] }];
  }
  return [];
}

/** The answer in the form of a page. */
export const told = ({ repairs, text, causes, ...why }: Why) => ({
  ...why,
  text: minus(text),
  causes: minus(causes),
  repairs: repairs.map(({ words, changes }): [string, boolean] => [words, changes.length > 0]),
});
