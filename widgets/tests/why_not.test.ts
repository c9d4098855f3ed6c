import { describe, expect, it } from "vitest";
import { named } from "../src/engine/array";
import { seqOf } from "../src/engine/beams";
import type { Change } from "../src/engine/changes";
import { Decisions } from "../src/engine/changes";
import type { Looped } from "../src/engine/engine";
import type { Searched } from "../src/engine/frames";
import type { Beams, Options } from "../src/engine/search";
import { choose } from "../src/engine/search";
import type { Why } from "../src/page/why_not";
import { whyNot } from "../src/page/why_not";

const VOCAB = ["</s>", "a", "b", "c"],
  FIRST = [0, 0.55, 0.45, 0],
  AFTER = [
    [0.25, 0.25, 0.25, 0.25],
    [0.02, 0.5, 0.24, 0.24],
    [0.01, 0.01, 0.01, 0.97],
    [0.97, 0.01, 0.01, 0.01],
  ];
interface Given extends Partial<Options> {
  first?: number[];
  after?: number[][];
  most?: number;
  endless?: boolean;
}

/** A search whose labels depend on the one before, as `told_to` of tests/control/test_why_not.py. */
function search(
  { first = FIRST, after = AFTER, most = 6, endless = false, ...options }: Given,
  changes: Change[],
): Searched {
  const looped: Looped = {
      name: "",
      steps: [],
      beams: null,
      made: 0,
      most,
      outputs: [],
      lasts: [],
      states: [],
      offers: [],
    },
    { steps } = looped;
  let beams: Beams | null = null;
  while (steps.length < most && !beams?.ended.every(Boolean)) {
    const rows = beams ? Array.from(steps.at(-1)!.labels, (label) => after[label]!) : [first],
      logs = Float32Array.from(rows.flat(), Math.log),
      commands = changes.filter(({ step }) => step === steps.length).flatMap(({ then }) => then),
      before: Beams | null = beams;
    const decided = choose(
      named(["beam", 0], [rows.length, 4], logs),
      0,
      beams,
      { beam_size: 4, ...options },
      steps,
      (total, width, count) => new Decisions(commands, total, width, VOCAB).best(total, count),
    );
    decided.ended = Array.from(
      decided.labels,
      (label, slot) => !endless && (label === 0 || !!before?.ended[decided.parents[slot]!]),
    );
    steps.push(decided);
    const lengths = decided.ended.map(() => steps.length);
    beams = { scores: decided.scores, ended: decided.ended, lengths, counts: lengths };
  }
  const name = (label: number) => VOCAB[label]!;
  const seq = seqOf(looped, name, 0, " ");
  return { seq, path: "search", nth: 0, steps, vocab: VOCAB, name, end: 0, ends: !endless, exponent: 0, most };
}

async function ask(given: Given, expected: string): Promise<Why> {
  let last: Why | null = null;
  const asking = {
    search: search(given, []),
    result: null as never,
    letters: [],
    attention: () => [],
    again: async (changes: Change[]) => {
      try {
        return await Promise.resolve(search(given, changes));
      } catch {
        return null;
      }
    },
  };
  for await (const why of whyNot(expected, asking)) last = why;
  return last!;
}
const wordsOf = ({ repairs }: Why) => repairs.map(({ words }) => words);

describe("why a page did not say it", () => {
  it.each([
    ["the search", { beam_size: 1 }, "b c", "the search lost it", ["b at 0", "beam_size=2 keeps it in step 0"]],
    [
      "a threshold",
      { first: [0, 0.96, 0.04, 0], threshold: 2 },
      "bc", // a label for each letter
      "is not known: it was pruned before its score was complete. It was pruned at step 0 on rank 2, 3.18 nats behind",
      ["threshold=3.18 keeps it in step 0"],
    ],
    [
      "the limit of steps",
      { most: 3 },
      "a a a a",
      "is longer than the search allows",
      ["max_seq_len=5 allows its length"],
    ],
    ["a limit", { banned: [3] }, "b c", "forbids it. It was forbidden at step 1.", []],
    [
      "a limit behind its fall",
      { banned: [3], beam_size: 1 },
      "b c",
      "b c </s> is not allowed: a limit of the search forbids c at step 1. It was pruned at step 0 on rank 2, 0.20 nats",
      [],
    ],
    ["the model", {}, "c a", "The model gives c a </s> the probability 0. It was pruned at step 0.", []],
    [
      "that nothing had ended", // its end label is known all the same
      { beam_size: 1, most: 3 },
      "b",
      "The model prefers a a a to b </s> (-1.984 and -5.404: 3.42 nats). It was pruned at step 0 on rank 2",
      ["length_exponent=0.1, if it is in the beam at the end", "beam_size=2 keeps it in step 0"],
    ],
  ] as const)("because of %s", async (_, given, expected, says, repairs) => {
    const why = await ask(given as Given, expected);
    expect(why.text).toContain(says);
    expect(wordsOf(why)).toEqual(repairs);
  });

  it("says that it was said where a limit has cut both, and refuses what stops in the middle", async () => {
    expect((await ask({ beam_size: 1, most: 3 }, "a a a")).text).toBe("The search found it: a a a (-1.984).");
    await expect(ask({ endless: true, most: 3 }, "b c")).rejects.toThrow("stops in the middle: it has 3 labels");
  });
});
