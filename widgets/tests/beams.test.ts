import { afterEach, describe, expect, it } from "vitest";
import reasons from "../../tests/viz/fixtures/beams_reasons.json";
import reasonsExpected from "../../tests/viz/fixtures/beams_reasons.tree.json";
import small from "../../tests/viz/fixtures/beams_small.json";
import expected from "../../tests/viz/fixtures/beams_small.tree.json";
import { keyOf, placeOf, sentence, start, walk } from "../src/beams/cursor";
import type { Layout } from "../src/beams/layout";
import { hit, layout, marginOf, nearest, shorten } from "../src/beams/layout";
import type { PlacedWay } from "../src/beams/lanes";
import { withLanes } from "../src/beams/lanes";
import { aligned, differing, directionOf, winnerChanges } from "../src/beams/nbest";
import type { BeamsHead, SeqSpec, Tree } from "../src/beams/tree";
import { problem } from "../src/beams/problem";
import type { Node } from "../src/beams/tree";
import { cutText, grow, nbest, pathOf, prefix, rating, repeatOf } from "../src/beams/tree";
import { verdictOf } from "../src/beams/verdict";
import { showIn } from "../src/mount";
import { busOf } from "../src/selection";

HTMLCanvasElement.prototype.getContext = () => null; // jsdom has no canvas

const head = small.head as unknown as BeamsHead;
const tree = grow(head.seqs[0]!);
const reasonsHead = reasons.head as unknown as BeamsHead;
const searched = grow(reasonsHead.seqs[0]!);
const options = { width: 900, zoom: "auto", cuts: 3, measure: (label: string) => label.length * 7 } as const;
const places = (nodes: { step: number; slot: number }[]) => nodes.map((node) => [node.step, node.slot]);
const round = (value: number) => Math.round(value * 1e4) / 1e4;

const said = (made: Tree, node: Node): string => verdictOf(made, { kind: "node", node });

const asData = (made: Tree) => ({
  nodes: made.nodes.map((row) =>
    row.map((node) => node && [node.token, node.state, round(node.gain), said(made, node)]),
  ),
  cuts: made.cuts.map((row) => row.map((cut) => [cut.token, round(cut.gain), cut.verdict])),
  nbest: places(made.nbest),
  best: made.best,
});

/** What the Python side says, without the ranks: those are in the sentences. */
const shown = ({ nodes, cuts, ...rest }: { nodes: unknown[][]; cuts: unknown[][] }) => ({
  nodes: nodes.map((row) => row.map((node) => node && (node as unknown[]).filter((_, at) => at !== 2))),
  cuts: cuts.map((row) => row.map((cut) => (cut as unknown[]).filter((_, at) => at !== 1))),
  ...rest,
});

describe("the tree of a search", () => {
  it("says the same about each hypothesis as the Python side", () => {
    expect(asData(tree)).toEqual(shown(expected));
    expect(asData(searched)).toEqual(shown(reasonsExpected));
  });

  it("draws a spec that says nothing of its hypotheses, in as few words", () => {
    const steps = head.seqs[0]!.steps.map(({ tokens, parents, scores, ended }) => ({ tokens, parents, scores, ended }));
    const plain = grow({ steps });
    expect(plain.nodes[2]!.map((node) => [node!.state, said(plain, node!)])).toEqual([
      ["alive", "kept: rank 1 of 3, the best"],
      ["alive", "kept: rank 2 of 3, 0.90 nats behind the best"],
      ["ended", "complete: rank 3 of 3, 2.40 nats behind the best"],
    ]);
  });

  it("has the ranks and ends among all hypotheses where the page has not all", () => {
    const steps = [{ tokens: ["", "b"], parents: [0, 0], scores: [null, -2], ended: [false, false], states: [null, "dead" as const],
      ranks: [0, 2], of: 3, top: -1.5, lasts: [0, 4] }]; // prettier-ignore
    const thin = grow({ steps });
    expect(said(thin, thin.nodes[0]![1]!)).toBe(
      "kept: rank 2 of 3, 0.50 nats behind the best; the last that continued it was cut after step 4",
    );
  });

  it("leaves out of the text and the length where a hypothesis stays as it is", () => {
    const step = (token: string, score: number, ended = false) => ({
      tokens: [token],
      parents: [0],
      scores: [score],
      ended: [ended],
    });
    const seq: SeqSpec = { steps: [step("a", -1), step("·", -2), step("b", -4, true)], blank: "·" };
    const [best] = nbest(grow(seq).nodes, 1);
    expect(prefix(pathOf(best!))).toBe("a b");
    expect(rating(best!, 1)).toBe(-2);
  });

  it("knows what a score is made of, and that a hypothesis which left the beam is not in it", () => {
    expect(searched.parts).toEqual(["log_prob", "0.5 × lm", "end"]);
    const items = [...searched.nodes.flat(), ...searched.cuts.flat()];
    for (const item of items) expect(item!.parts.reduce((sum, part) => sum + part, 0)).toBeCloseTo(item!.gain, 3);
    expect([tree.width, searched.width]).toEqual([3, 2]);
    expect(
      grow({
        steps: [{ tokens: ["a", "e"], parents: [0, 0], scores: [-1, -2], ended: [false, true], left: [false, true] }],
      }).width,
    ).toBe(1);
  });

  it("gives the labels of a candidate without blanks", () => {
    expect(searched.cuts[2]!.map((cut) => cutText(cut, " "))).toEqual(["a"]);
    expect(searched.cuts[0]!.map((cut) => cutText(cut, " "))).toEqual(["b", "</s>"]);
  });

  it("sorts the list by score per length when asked to", () => {
    const step = (tokens: string[], parents: number[], scores: number[], ended: boolean[]) => ({
      tokens,
      parents,
      scores,
      ended,
    });
    const seq: SeqSpec = {
      steps: [step(["e", "a"], [0, 0], [-1, -1.1], [true, false]), step(["e"], [1], [-1.6], [true])],
    };
    expect(places(nbest(grow(seq).nodes, 0))).toEqual([
      [0, 0],
      [1, 0],
    ]);
    expect(places(nbest(grow(seq).nodes, 1))).toEqual([
      [1, 0],
      [0, 0],
    ]);
  });

  it("tells what is wrong with bad data in a sentence", () => {
    const step = { tokens: ["a"], parents: [0], scores: [-1], ended: [false] };
    expect(problem(head)).toBeNull();
    expect(problem({})).toBe("This beam search cannot be drawn: it has no list of sequences.");
    expect(problem({ seqs: [{ steps: [{ ...step, parents: [0, 1] }] }] })).toBe(
      "This beam search cannot be drawn: sequence 0, step 0: tokens, parents, scores and ended have 1, 2, 1, 1 entries.",
    );
    expect(problem({ seqs: [{ steps: [step, { ...step, parents: [3] }] }] })).toBe(
      "This beam search cannot be drawn: sequence 0, step 1: a parent is 3, but the step before has 1 hypotheses.",
    );
  });
});

describe("the layout", () => {
  const made = layout(tree, options);

  it("puts steps from left to right and slots from top to bottom", () => {
    expect(made.labels).toBe(true);
    for (const row of [made.x, made.lanes]) expect([...row].sort((a, b) => a - b)).toEqual(row);
    for (const { node, x, y } of made.columns.flat())
      expect([x, y]).toEqual([made.x[node.step], made.lanes[node.slot]]);
  });

  it("starts each edge at the right end of the parent", () => {
    const placed = made.columns[1]![1]!;
    const parent = made.columns[0]![0]!;
    expect([placed.fromX, placed.fromY]).toEqual([parent.x + parent.width / 2, parent.y]);
  });

  it("hangs cut candidates under their parent, apart from each other and from the next lane", () => {
    const all = layout(tree, { ...options, cuts: 9 });
    const [first] = all.cuts[1]!;
    expect(first!.fromY).toBe(all.lanes[0]);
    expect(first!.y).toBeGreaterThan(all.lanes[0]! + all.half);
    expect(first!.y).toBeLessThan(all.lanes[1]! - all.half);
  });

  it("leaves cut candidates out when asked to", () => {
    expect(layout(tree, { ...options, cuts: 0 }).cuts.flat()).toEqual([]);
  });

  it("finds what the pointer is on", () => {
    const placed = made.columns[2]![1]!;
    const stub = made.cuts[1]![0]!;
    expect(hit(made, placed.x + 3, placed.y - 2)).toEqual({ kind: "node", placed });
    expect(hit(made, stub.x + 2, stub.y)).toEqual({ kind: "cut", placed: stub });
    expect(hit(made, placed.x, placed.y + 22)).toBeNull();
  });

  /** What is written in the picture: [left, right, top, bottom] of pills, of the scores below them, and of cut candidates. */
  const writing = (of: Layout) => [
    ...of.columns.flat().map(({ x, y, width }) => [x - width / 2, x + width / 2, y - of.half, y + of.half]),
    ...of.columns.flat().map(({ x, y }) => [x - 16, x + 16, y + of.half + 4, y + of.half + 14]),
    ...of.cuts.flat().flatMap(({ x, y, width, join }) => (join ? [] : [[x - 14, x + width, y - 6, y + 6]])),
  ];

  it("writes nothing on top of another, and no line through what is written", () => {
    const wide = layout(tree, { ...options, zoom: "labels", cuts: 64 }),
      searchedMade = layout(searched, { ...options, zoom: "labels", cuts: 64 });
    for (const of of [wide, searchedMade]) {
      const boxes = writing(of);
      boxes.forEach(([left, right, top, bottom], index) => {
        for (const other of boxes.slice(index + 1))
          expect(left! < other[1]! && right! > other[0]! && top! < other[3]! && bottom! > other[2]!).toBe(false);
        // Lines leave their height only between the columns.
        for (const { bendFrom, bendTo } of of.columns.flat()) expect(left! < bendTo && right! > bendFrom).toBe(false);
      });
      expect(of.cuts.flat().some(({ margin }) => margin)).toBe(true);
    }
  });

  it("says of a margin that it is none of the scores", () => {
    expect(tree.cuts[1]!.map(marginOf)).toEqual(["gap 0.83", "gap 2.20"]);
    expect(marginOf({ ...tree.cuts[1]![0]!, margin: 0.5 })).toBe("0.50 ahead");
    expect(marginOf({ ...tree.cuts[1]![0]!, margin: -0.0012 })).toBe("gap 0.0012");
  });

  const straight = (steps: number, lanes: number, token = (slot: number) => `word${slot}`) => {
    const row = Array.from({ length: lanes }, (_, slot) => slot);
    const step = {
      tokens: row.map(token),
      parents: row,
      scores: row.map((slot) => -slot),
      ended: row.map(() => false),
    };
    return grow({ steps: Array.from({ length: steps }, () => step) });
  };

  it("opens with all steps in sight: with labels where they fit, else as an overview", () => {
    for (const [steps, lanes, labels] of [
      [6, 4, true],
      [60, 16, false],
      [6, 16, false],
      [500, 64, false],
    ] as const) {
      const of = layout(straight(steps, lanes), options);
      expect([of.labels, of.width <= options.width]).toEqual([labels, true]);
    }
    expect(layout(straight(60, 16), { ...options, zoom: "labels" }).labels).toBe(true);
  });

  it("has tokens in an overview where they fit: in the place of dots, else those of one hypothesis on end", () => {
    const of = layout(
      straight(30, 16, (slot) => String(slot % 10)),
      options,
    );
    expect([of.tokens, of.rail, of.columns[3]![2]!.label]).toEqual([true, false, "2"]); // no word twice
    for (const { x, width } of of.columns.flat())
      for (const { bendFrom, bendTo } of of.columns.flat())
        expect(x - width / 2 < bendTo && x + width / 2 > bendFrom).toBe(false);
    const few = layout(
      straight(60, 16, (slot) => (slot < 7 ? "a" : "a long word")),
      { ...options, width: 1200 },
    );
    expect([few.tokens, few.columns.flat().some(({ label }) => label)]).toEqual([false, false]);
    const dots = layout(straight(60, 16), options);
    expect([dots.tokens, dots.rail, dots.cells]).toEqual([false, true, false]);
    const cells = layout(straight(500, 64), options);
    expect([cells.tokens, cells.rail, cells.cells]).toEqual([false, false, true]);
  });

  it("names in an overview what lives where it branches from another way that does, without overlaps", () => {
    const steps = Array.from({ length: 40 }, (_, step) => ({
      tokens: ["winner", `left${step}`, "word"],
      parents: step ? [0, 0, 1] : [0, 0, 0], // each step one leaves the winner, and dies out two steps on
      scores: [-1, -2, -3],
      ended: [false, false, false],
    }));
    const tree = grow({ steps, best: steps.map((_, step) => [step, 0]) } as SeqSpec),
      turn = (made: Layout, step: number) => ({
        x: made.x[step]!,
        y: made.lanes[1]! + made.half + 6,
        label: `left${step}`,
      });
    for (const [width, every] of [
      [1000, 2], // each second one would lie on the one before
      [1700, 1],
    ] as const) {
      const made = layout(tree, { ...options, width });
      expect([made.tokens, made.turns.filter(({ label }) => label !== "word")]).toEqual([
        false,
        steps.flatMap((_, step) => (step % every ? [] : [turn(made, step)])),
      ]);
    }
    const wide = layout(
      straight(30, 16, (slot) => String(slot % 10)),
      options,
    );
    expect([wide.tokens, wide.turns]).toEqual([true, []]);
    expect(layout(straight(500, 64), options).turns).toEqual([]);
  });

  it("leads a kept way past what hangs below its parent, and closes up where its end would be out of sight", () => {
    const tree = grow(head.seqs[0]!),
      { measure } = options,
      made = layout(tree, { ...options, width: 400, zoom: "labels" }),
      labels = [..."ABCDEFGHIJ"],
      way = {
        lane: { row: 1, parent: 0, before: 0, labels, scores: labels.map(() => -1), ended: true, fell: null },
        difference: -0.75,
        over: true,
        ghost: false,
        from: { row: 1, parent: 0, cut: null },
      };
    const open = withLanes(made, [way], 1, measure),
      tight = withLanes(made, [way], 1, measure, open.made.width - 30),
      [{ begin }] = open.placed as [PlacedWay];
    expect(begin.leave).toBe(made.columns[1]![0]!.bendFrom);
    expect(begin.leave).toBeGreaterThan(Math.max(...made.cuts[0]!.map(({ x, width }) => x + width)) - 1);
    expect(tight.made.width).toBeLessThanOrEqual(open.made.width - 30);
    const stops = tight.placed[0]!.stops;
    for (const [at, { x, width }] of stops.entries())
      if (at) expect(x - width / 2).toBeGreaterThan(stops[at - 1]!.x + stops[at - 1]!.width / 2);
  });

  it("says where tokens go in circles: of three times in a row or more the longest stretch", () => {
    const of = (text: string) => repeatOf([...text]);
    expect([of(""), of("abcd"), of("abab"), of("aab")]).toEqual([null, null, null, null]);
    expect(of("xabcabcabcay")).toEqual({ start: 1, period: 3, times: 3 });
    expect(of("aaabcbcbcbc")).toEqual({ start: 3, period: 2, times: 4 });
    expect(of("xaaaa")).toEqual({ start: 1, period: 1, times: 4 });
  });

  it("turns to cells for 64 hypotheses over 200 steps, within the width", () => {
    const row = Array.from({ length: 64 }, (_, slot) => slot);
    const steps = Array.from({ length: 200 }, () => ({
      tokens: row.map(String),
      parents: row,
      scores: row.map((slot) => -slot),
      ended: row.map(() => false),
    }));
    const big = layout(grow({ steps }), options);
    expect(big.labels).toBe(false);
    expect([big.cells, big.columns]).toEqual([true, []]);
    const [first] = big.nodes[199]!;
    expect(big.at(first!)).toMatchObject({ x: big.x[199], y: big.lanes[0], fromX: big.x[198] });
    expect(hit(big, big.x[199]!, big.lanes[63]!)).toEqual({ kind: "node", placed: big.at(big.nodes[199]![63]!) });
    expect(big.width).toBeLessThanOrEqual(900);
    expect(layout(grow({ steps }), { ...options, zoom: "labels" }).labels).toBe(true);
  });

  it("draws nothing for a search without steps", () => {
    expect(layout(grow({ steps: [] }), options).columns).toEqual([]);
  });

  it("shortens long tokens and shows blanks", () => {
    expect(shorten("a b")).toBe("a b");
    expect(shorten("internationalization")).toBe("internationali".slice(0, 13) + "…");
    expect(nearest([1, 5, 9], 6.5)).toBe(1);
  });
});

describe("the n-best list", () => {
  const path = (text: string) =>
    pathOf(
      grow({
        steps: text.split(" ").map((token, at) => ({ tokens: [token], parents: [0], scores: [-at], ended: [false] })),
      }).nodes.at(-1)![0]!,
    );
  const shown = (text: string, other?: string) =>
    differing(path(text), other === undefined ? undefined : path(other), " ").map(({ text, differs }) =>
      differs ? `[${text}]` : text,
    );
  const long = Array.from({ length: 30 }, (_, at) => `w${at}`).join(" ");

  it("marks where a text is other than the best one", () => {
    expect(shown("a b c", "a x c")).toEqual(["a", "[b]", "c"]);
    expect(shown("a b", "a b")).toEqual(["a b"]);
    expect(shown("a b c", "a c")).toEqual(["a", "[b]", "c"]);
    expect(shown("a b c")).toEqual(["a b c"]);
  });
  it("folds what long ones have in common at both ends, so that they differ", () => {
    expect(shown(long.replace("w15", "other"), long)).toEqual(["…", "w13 w14", "[other]", "w16 w17", "…"]);
    expect(shown(`${long} more`, long)).toEqual(["…", "w28 w29", "[more]"]);
    expect(shown(long, `${long} more`)).toEqual(["…", "w28 w29"]);
  });
  it("keeps the begin and the end of a difference that is long itself", () => {
    expect(shown(long.replaceAll("w", "v"), long)).toEqual(["[v0 v1 v2 v3 v4 v5]", "…", "[v24 v25 v26 v27 v28 v29]"]);
  });
  it("reads from the side that its first letter is read from", () => {
    expect(["… שלום", "a ש", "…", "عالم"].map(directionOf)).toEqual(["rtl", "ltr", "ltr", "rtl"]);
  });
});

describe("the length exponent", () => {
  const one = (text: string, score: number) => {
    const tokens = text.split(" "),
      steps = tokens.map((token, at) => ({
        tokens: [token],
        parents: [0],
        scores: [(score * (at + 1)) / tokens.length],
        ended: [at === tokens.length - 1],
      }));
    return grow({ steps }).nodes.at(-1)![0]!;
  };
  it("is marked where another hypothesis begins to win", () => {
    // -1 against -1.6 / 2 ** exponent: equal at log2(1.6) = 0.678.
    expect(winnerChanges([one("a", -1), one("a b", -1.6)], 2)).toEqual([0.68]);
    expect(winnerChanges([one("a b", -1), one("a", -1.6)], 2)).toEqual([]);
    expect([winnerChanges([], 2), winnerChanges([one("a", -1)], 2)]).toEqual([[], []]);
    expect(winnerChanges([one("a", -3), one("a", -1), one("a b", -1.6), one("b b", -1.7)], 2)).toEqual([0.68]);
    // Three: -1, then -1.5 of two labels, then -2.2 of four.
    expect(winnerChanges([one("a", -1), one("a b", -1.5), one("a b c d", -2.2)], 2)).toEqual([0.56, 0.57].slice(1));
  });
});

describe("the text beside the reference", () => {
  const words = (edits: string, tokens: string, labels: string) =>
    aligned(edits, tokens.split(" "), labels.split(" ")).map(({ className, textContent }) =>
      `${className.replace("rfnb-beams-", "")}:${textContent.trim()}`,
    ).filter((word) => word !== ":"); // prettier-ignore
  it("marks another label, one more and one less", () => {
    expect(words("=sid=", "a x y d", "a b c d")).toEqual([":a", "sub:xb", "ins:+y", "del:c", ":d"]);
  });
  it("folds what is right far from these", () => {
    const many = Array.from({ length: 20 }, (_, at) => `w${at}`);
    const shown = words(`${"=".repeat(19)}s`, [...many.slice(0, 19), "x"].join(" "), many.join(" "));
    expect(shown).toEqual([":…", ":w17", ":w18", "sub:xw19"]);
  });
});

describe("the cursor", () => {
  const go = (from: string, ...keys: string[]) =>
    keyOf(keys.reduce((at, key) => walk(tree, at, key, 3), placeOf(tree, from)));

  it("starts at the end of the winner", () => expect(keyOf(start(tree))).toBe("4,0"));
  it("goes left to the parent and right along the winner", () => {
    expect(go("2,2", "ArrowLeft")).toBe("1,0");
    expect(go("1,0", "ArrowRight")).toBe("2,0");
  });
  it("goes through the lanes of a step and then its cut candidates", () => {
    expect(go("1,1", "ArrowDown")).toBe("1,2");
    expect(go("1,2", "ArrowDown", "ArrowDown", "ArrowDown")).toBe("1,cut1");
    expect(go("1,cut0", "ArrowUp")).toBe("1,2");
    expect(go("1,cut1", "ArrowLeft")).toBe("0,2");
  });
  it("goes to the begin and the end of the hypothesis", () => {
    expect(go("4,1", "Home")).toBe("0,0");
    expect(go("1,1", "End")).toBe("4,1");
    expect(go("1,cut0", "Home")).toBe("0,0");
  });
  it("stays where nothing follows, and leaves other keys alone", () => {
    expect(go("0,0", "ArrowLeft")).toBe("0,0");
    expect(walk(tree, start(tree), "x", 3)).toBeNull();
  });
  it("is read out with the end of a long text, so that the verdict stays in sight", () => {
    const steps = Array.from({ length: 40 }, (_, at) => ({
      tokens: [`w${at}`],
      parents: [0],
      scores: [-at],
      ended: [false],
    }));
    const long = grow({ steps });
    expect(sentence(long, start(long)!, " ")).toMatch(
      /^step 39, slot 0: … w30 w31 w32 w33 w34 w35 w36 w37 w38 w39\. Score −39\.000, token w39 −1\.000\. kept: rank 1 of 1, the best\.$/,
    );
  });
  it("is read out with text, score, log-probability of the token and verdict", () => {
    expect(sentence(tree, placeOf(tree, "1,1")!, " ")).toBe(
      "step 1, slot 1: HH EH0. Score −1.200, token EH0 −1.100. kept: rank 2 of 3, 0.80 nats behind the best.",
    );
    expect(sentence(tree, placeOf(tree, "1,cut0")!, " ")).toBe(
      "step 1, cut candidate: HH OW1. Score −3.630, token OW1 −3.530. cut: rank 4, 0.83 nats behind the last survivor.",
    );
  });
});

describe("the view in the page", () => {
  let root: HTMLElement;
  const open = (shown: BeamsHead, link = "test") => {
    root = document.createElement("div");
    document.body.append(root);
    const view = showIn(root);
    const update = (head: BeamsHead) => view.update({ kind: "beams", head: { ...head, link }, blocks: {} });
    update(shown);
    return { update, destroy: () => view.destroy() };
  };
  const press = (key: string) =>
    root
      .querySelector(".rfnb-beams-scroll")!
      .dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
  afterEach(() => document.body.replaceChildren());

  it("says that a result goes in circles, and that the search was over before it had ended", () => {
    const tokens = [..."xyzyzyz"],
      steps = tokens.map((token, step) => ({ tokens: [token], parents: [0], scores: [-step], ended: [false] }));
    open({ ...head, seqs: [{ steps, best: steps.map((_, step) => [step, 0]) } as SeqSpec] });
    expect(root.querySelector(".rfnb-beams-verdict")!.textContent).toContain(
      "It goes in circles: “y z” 3 times in a row.",
    );
    expect(root.querySelector(".rfnb-beams-nbest")!.textContent).toContain(
      "the search was over after 7 steps, before the winner had ended",
    );
  });

  it("publishes step, beam and cursor, and follows the keys", () => {
    open(head);
    expect({ ...root.dataset }).toMatchObject({ kind: "beams", step: "4", beam: "3", cursor: "4,0" });
    press("ArrowLeft");
    expect(root.dataset["cursor"]).toBe("3,0");
    press("ArrowDown");
    expect(root.querySelector(".rfnb-beams-readout")!.textContent).toContain(
      "step 3, slot 1: HH EH0 L OW1. Score −1.700",
    );
    expect(root.querySelector(".rfnb-beams-verdict")!.textContent).toBe(
      "Step 3. Kept: rank 2 of 3, 1.00 nats behind the best.",
    );
  });

  it("lists the complete hypotheses with the winner marked, and goes to the one that is chosen", () => {
    open(head);
    const rows = [...root.querySelectorAll("tbody tr")].map((row) => row.textContent);
    expect(rows).toEqual(["1−0.800HH AH0 L OW1★ winner", "2−1.900HH EH0 L OW1", "3−2.900HH AH0"]);
    root.querySelectorAll<HTMLButtonElement>(".rfnb-beams-pick")[2]!.click();
    expect(root.dataset["cursor"]).toBe("2,2");
  });

  it("makes the list once, and marks in it where the cursor is", () => {
    open(head);
    const rows = () => [...root.querySelectorAll(".rfnb-beams-nbest tbody tr")];
    const before = rows();
    expect(before.map((row) => row.getAttribute("aria-current"))).toEqual(["true", null, null]);
    press("ArrowDown");
    expect(root.dataset["cursor"]).toBe("4,1");
    expect(rows().map((row, at) => [row === before[at], row.getAttribute("aria-current")])).toEqual([
      [true, null],
      [true, "true"],
      [true, null],
    ]);
  });

  it("says what the score of a candidate is made of, and why it is not there", () => {
    open(reasonsHead);
    for (const key of ["ArrowLeft", "ArrowDown", "ArrowDown"]) press(key);
    expect(root.dataset["cursor"]).toBe("1,cut0");
    expect(root.querySelector(".rfnb-beams-readout")!.textContent).toBe(
      "step 1, cut candidate: b. Score −1.800, token b −0.300 (log_prob −0.200, 0.5 × lm −0.100). " +
        "blocked: forbidden, although 0.20 nats ahead of the last survivor.",
    );
    const rows = [...root.querySelectorAll(".rfnb-beams-parts tr")].map((row) =>
      [...row.children].map((cell) => cell.textContent),
    );
    expect(rows).toEqual([
      ["", "·", "b", "sum"],
      ["", "", "", ""],
      ["log_prob", "−1.50", "−0.20", "−1.70"],
      ["0.5 × lm", "0.00", "−0.10", "−0.10"],
      ["score", "−1.50", "−0.30", "−1.80"],
    ]);
    expect(root.querySelector(".rfnb-beams-legend")!.textContent).toContain(
      "hollow: “·”,\u00a0no new label · ✕\u00a0cut · ⊘\u00a0blocked · ▽\u00a0below\u00a0the\u00a0threshold · ⊃\u00a0merged",
    );
  });

  it("shows how probable each token is, with bars of which the worst is full, and the sum so far under the pointer", () => {
    open(head);
    const terms = () =>
      [...root.querySelectorAll<HTMLElement>(".rfnb-beams-token")].map((term) => ({
        words: [...term.querySelectorAll("b, small")].map(({ textContent }) => textContent),
        bar: Number.parseFloat(term.querySelector<HTMLElement>(".rfnb-beams-bar")!.style.height),
      }));
    const best = terms();
    expect(best.map(({ words }) => words)).toEqual([
      ["HH", "90 %"],
      ["AH0", "74 %"],
      ["L", "90 %"],
      ["OW1", "82 %"],
      ["</s>", "90 %"],
    ]);
    expect(best[1]!.bar).toBe(28);
    expect(best[0]!.bar).toBeCloseTo((28 * (1 - Math.exp(-0.1))) / (1 - Math.exp(-0.3)), 5);
    const sum = root.querySelector(".rfnb-beams-sum")!,
      said = "score −0.800; bars go from 100 % down to 74 %, the least probable token";
    expect(sum.textContent).toBe(said);
    const [, second] = root.querySelectorAll(".rfnb-beams-token b");
    second!.dispatchEvent(new MouseEvent("pointerover", { bubbles: true }));
    expect(sum.textContent).toBe("AH0: 74 %, log probability −0.300; score so far −0.400");
    root.querySelector(".rfnb-beams-tokens")!.dispatchEvent(new MouseEvent("pointerleave"));
    expect(sum.textContent).toBe(said);
    for (const key of ["ArrowDown", "Home"]) press(key);
    press("ArrowDown");
    const [other] = terms(); // K, the second of the first step
    expect(other).toEqual({ words: ["K", "9.1 %"], bar: 28 });
  });

  it("names what is folded of a very long sum, with its sum", () => {
    const steps = Array.from({ length: 100 }, (_, at) => ({
      tokens: ["w"],
      parents: [0],
      scores: [-at - 1],
      ended: [false],
    }));
    open({ ...head, seqs: [{ steps }] });
    const first = root.querySelector(".rfnb-beams-token")!;
    expect([...first.querySelectorAll("b, small")].map(({ textContent }) => textContent)).toEqual([
      "the first 40",
      "−40.00",
    ]);
  });

  it("says where the reference fell, and marks in each hypothesis what is other than there", () => {
    const reference = {
      labels: ["HH", "OW1", "K", "</s>"],
      path: [[0, 0]] as [number, number][],
      fell: 1,
      rank: 4,
      text: "The reference fell out of the beam in step 1.",
      aligned: { "4,0": "=iss", "4,1": "=iss", "2,2": "=ds" },
    };
    open({ ...head, seqs: [{ ...head.seqs[0]!, reference }] });
    expect(root.querySelector(".rfnb-beams-reference")!.textContent).toBe(
      "Reference (ref): HH OW1 K </s>. The reference fell out of the beam in step 1. It was candidate 4 of its step.",
    );
    const rows = [...root.querySelectorAll(".rfnb-beams-nbest tbody tr")].map((row) =>
      [...row.children].map(({ textContent }) => textContent.trim()),
    );
    expect(rows[0]!.slice(2, 4)).toEqual(["3", "HH +AH0 LOW1 OW1K"]);
    expect(rows[2]!.slice(2, 4)).toEqual(["2", "HH OW1 AH0K"]);
  });

  it("shows what a smaller beam would have kept, and where it loses the winner", () => {
    const inside = [
      [3, 2, 0],
      [3, 2, 0],
      [2, 1, 1],
      [2, 1, 1],
      [2, 1, 1],
    ]; // the masks of beams of 1 and 2
    const [seq] = head.seqs,
      steps = seq!.steps.map((step, at) => ({ ...step, inside: inside[at]! })),
      smaller = [
        { size: 1, lost: 2, best: [4, 1] as [number, number], text: "A beam of 1 loses it." },
        { size: 2, text: "A beam of 2 keeps it." },
      ];
    open({ ...head, seqs: [{ ...seq!, steps, smaller }] });
    const slider = root.querySelector<HTMLInputElement>('[aria-label="beam size"]')!,
      note = root.querySelector(".rfnb-beams-smaller")!,
      choose = (value: number) => {
        slider.value = String(value);
        slider.dispatchEvent(new Event("input"));
        return [root.dataset["beamSize"], slider.getAttribute("aria-valuetext"), note.textContent];
      };
    expect([slider.max, slider.value, note.textContent]).toEqual(["2", "2", ""]);
    expect(choose(0)).toEqual(["1", "1 of 3", "A beam of 1 loses it."]);
    expect(root.querySelector(".rfnb-beams-legend")!.textContent).toContain(
      "faint: not in a beam of 1 · dashed line: its result",
    );
    press("ArrowLeft"); // from the end of the winner to its step 3
    const read = () => root.querySelector(".rfnb-beams-readout")!.textContent;
    expect([root.dataset["cursor"], read()!.endsWith("Not in a beam of 1.")]).toEqual(["3,0", true]);
    press("ArrowDown");
    expect([root.dataset["cursor"], read()!.endsWith("Not in a beam of 1.")]).toEqual(["3,1", false]);
    expect(choose(1)).toEqual(["2", "2 of 3", "A beam of 2 keeps it."]);
    expect(choose(2)).toEqual(["3", "3 of 3", ""]);
  });

  it("has no slider where there is no smaller beam", () => {
    const [seq] = head.seqs;
    open({ ...head, seqs: [{ ...seq!, smaller: [] }] });
    expect(root.querySelector<HTMLInputElement>('[aria-label="beam size"]')!.closest("label")!.hidden).toBe(true);
  });

  it("draws what was merged as an edge to what it became a part of, and says what a score then is", () => {
    const [seq] = reasonsHead.seqs as [SeqSpec];
    const steps = seq.steps.map((step, at) =>
      at === 2 ? { ...step, cuts: [{ token: "·", parent: 0, score: -9, why: "merged", into: 1 }] } : step,
    );
    const merged = grow({ ...seq, steps }),
      made = layout(merged, options);
    expect(made.cuts[2]![0]!.join).toEqual({ x: expect.any(Number), y: made.lanes[1] });
    expect(hit(made, made.cuts[2]![0]!.x + 2, made.cuts[2]![0]!.y)?.kind).not.toBe("cut");
    open({ ...reasonsHead, seqs: [{ ...seq, sums: true }] });
    expect(root.querySelector(".rfnb-beams-card")!.textContent).toContain("a score covers all alignments");
  });

  it("says which labels of the vocabulary were the best, and who took them", () => {
    const [seq] = head.seqs,
      next: [string, number][] = [["AH0", Math.log(0.5)], ["EH0", Math.log(0.25)], ["OW1", Math.log(0.01)], ["L", -9]]; // prettier-ignore
    const steps = seq!.steps.map((step, at) => (at === 1 ? { ...step, next: { 0: next } } : step));
    open({ ...head, seqs: [{ ...seq!, steps }] });
    const said = () => [...root.querySelectorAll(".rfnb-beams-next")].map(({ textContent }) => textContent);
    for (let times = 0; times < 3; times++) press("ArrowLeft");
    expect(root.dataset["cursor"]).toBe("1,0");
    expect(said().slice(0, 4)).toEqual(["AH0 50 % here", "EH0 25 % slot 1", "OW1 1.0 % cut", "L 0.012 % not taken"]);
    press("ArrowLeft");
    expect(said()).toEqual(["AH0 50 % slot 0", "EH0 25 % slot 1", "OW1 1.0 % cut", "L 0.012 % not taken"]);
    expect(root.querySelector(".rfnb-beams-card")!.textContent).toContain("continuations: AH0");
  });

  it("has a table of the same numbers", () => {
    open(head);
    const button = [...root.querySelectorAll("button")].find(({ textContent }) => textContent === "Table")!;
    expect(root.querySelector<HTMLElement>(".rfnb-beams-steps")!.hidden).toBe(true);
    button.click();
    expect(button.getAttribute("aria-pressed")).toBe("true");
    const rows = [...root.querySelectorAll(".rfnb-beams-steps tr")].map((row) =>
      [...row.children].map(({ textContent }) => textContent),
    );
    expect(rows[0]).toEqual(["step", "slot 0", "slot 1", "slot 2", "best that was cut"]);
    expect(rows[2]).toEqual([
      "1",
      "AH0 −0.40 from 0, winner",
      "EH0 −1.20 from 0",
      "AH0 −2.80 from 1, died out",
      "OW1 −3.63 from 0: cut: rank 4, 0.83 nats behind the last survivor",
    ]);
    expect(rows[3]![3]).toBe("</s> −2.90 from 0, complete");
    button.click();
    expect(root.querySelector<HTMLElement>(".rfnb-beams-steps")!.hidden).toBe(true);
  });

  it("has no winner while the search runs", () => {
    open({ ...reasonsHead, live: true });
    const rows = [...root.querySelectorAll(".rfnb-beams-nbest tbody tr")].map((row) => row.textContent);
    expect(rows).toEqual(["1−4.100a a★ best so far, open", "2−4.250a b"]);
    expect(root.querySelector(".rfnb-beams-card")!.textContent).toContain("Nothing follows yet.");
  });

  it("keeps the cursor while a running search grows", () => {
    const steps = head.seqs[0]!.steps;
    const running = (count: number): BeamsHead => ({
      ...head,
      live: true,
      seqs: [{ steps: steps.slice(0, count), best: [] }],
    });
    const view = open(running(2));
    press("ArrowDown");
    const before = root.dataset["cursor"];
    view.update(running(4));
    expect([root.dataset["cursor"], root.dataset["step"]]).toEqual([before, "3"]);
  });

  it("shows bad data as a sentence, and good data after it", () => {
    const view = open({ seqs: [{ steps: [{} as Tree as never] }] });
    expect(root.querySelector('[role="alert"]')!.textContent).toBe(
      "This beam search cannot be drawn: sequence 0, step 0: tokens, parents, scores and ended must be lists.",
    );
    view.update(head);
    expect(root.querySelector<HTMLElement>('[role="alert"]')!.hidden).toBe(true);
  });

  it("chooses the sequence, and tells the linked views what it points at", () => {
    const bus = busOf("chosen");
    open({ ...head, seqs: [head.seqs[0]!, { ...head.seqs[0]!, label: "other" }] }, "chosen");
    const select = root.querySelector("select")!;
    select.value = "1";
    select.dispatchEvent(new Event("change"));
    expect(root.dataset["seq"]).toBe("1");
    press("ArrowLeft");
    expect(bus.now).toEqual({ seq: 1, head: null, hypothesis: null, step: 3, lost: false });
  });

  it("marks the step that a linked view points at on the winner's path", () => {
    const bus = busOf("followed");
    open(head, "followed");
    bus.point({ seq: 0, step: 1 }, {});
    expect(root.dataset["cursor"]).toBe("1,0");
  });

  it("says of a losing hypothesis that it is none of the best, and marks the winner's step for who draws that", () => {
    const bus = busOf("losing");
    open(head, "losing");
    press("ArrowLeft");
    press("ArrowDown");
    expect([root.dataset["cursor"], bus.now]).toEqual([
      "3,1",
      { seq: 0, head: null, hypothesis: null, step: 3, lost: true },
    ]);
    bus.point({ step: 2 }, {});
    expect([root.dataset["cursor"], bus.now.lost]).toEqual(["2,0", false]);
  });

  it("leaves nothing behind when it ends", () => {
    const view = open(head);
    view.destroy();
    expect(root.childElementCount).toBe(0);
  });
});
