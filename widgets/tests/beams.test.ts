import { afterEach, describe, expect, it } from "vitest";
import reasons from "../../tests/viz/fixtures/beams_reasons.json";
import reasonsExpected from "../../tests/viz/fixtures/beams_reasons.tree.json";
import small from "../../tests/viz/fixtures/beams_small.json";
import expected from "../../tests/viz/fixtures/beams_small.tree.json";
import { keyOf, placeOf, sentence, start, walk } from "../src/beams/cursor";
import { hit, layout, nearest, shorten } from "../src/beams/layout";
import type { BeamsHead, SeqSpec, Tree } from "../src/beams/tree";
import { cutText, grow, nbest, pathOf, prefix, problem, rating } from "../src/beams/tree";
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

const asData = (made: Tree) => ({
  nodes: made.nodes.map((row) => row.map((node) => node && [node.token, node.state, round(node.gain), node.verdict])),
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
    expect(plain.nodes[2]!.map((node) => [node!.state, node!.verdict])).toEqual([
      ["alive", "kept"],
      ["alive", "kept"],
      ["ended", "kept"],
    ]);
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

  it("turns to dots for 64 hypotheses over 200 steps, within the width", () => {
    const row = Array.from({ length: 64 }, (_, slot) => slot);
    const steps = Array.from({ length: 200 }, () => ({
      tokens: row.map(String),
      parents: row,
      scores: row.map((slot) => -slot),
      ended: row.map(() => false),
    }));
    const big = layout(grow({ steps }), options);
    expect(big.labels).toBe(false);
    expect(big.columns.flat().length).toBe(64 * 200);
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
    const said = sentence(start(grow({ steps }))!, " ");
    expect(said).toMatch(
      /^step 39, slot 0: … w30 w31 w32 w33 w34 w35 w36 w37 w38 w39\. Score -39\.000, token w39 -1\.000\. kept\.$/,
    );
  });
  it("is read out with text, score, log-probability of the token and verdict", () => {
    expect(sentence(placeOf(tree, "1,1")!, " ")).toBe(
      "step 1, slot 1: HH EH0. Score -1.200, token EH0 -1.100. kept: rank 2 of 3, 0.80 nats behind the best.",
    );
    expect(sentence(placeOf(tree, "1,cut0")!, " ")).toBe(
      "step 1, cut candidate: HH OW1. Score -3.630, token OW1 -3.530. cut: rank 4, 0.83 nats behind the last survivor.",
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

  it("publishes step, beam and cursor, and follows the keys", () => {
    open(head);
    expect({ ...root.dataset }).toMatchObject({ kind: "beams", step: "4", beam: "3", cursor: "4,0" });
    press("ArrowLeft");
    expect(root.dataset["cursor"]).toBe("3,0");
    press("ArrowDown");
    expect(root.querySelector('[aria-live="polite"]')!.textContent).toContain(
      "step 3, slot 1: HH EH0 L OW1. Score -1.700",
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

  it("says what the score of a candidate is made of, and why it is not there", () => {
    open(reasonsHead);
    for (const key of ["ArrowLeft", "ArrowDown", "ArrowDown"]) press(key);
    expect(root.dataset["cursor"]).toBe("1,cut0");
    expect(root.querySelector('[aria-live="polite"]')!.textContent).toBe(
      "step 1, cut candidate: b. Score -1.800, token b -0.300 (log_prob -0.200, 0.5 × lm -0.100). " +
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
      "“·”\u00a0no new label · ✕\u00a0cut, with its distance to the last survivor · ⊘\u00a0blocked · ▽\u00a0below\u00a0the\u00a0threshold · ⊃\u00a0merged",
    );
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
    expect(bus.now).toEqual({ seq: 1, head: null, step: 3, lost: false });
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
    expect([root.dataset["cursor"], bus.now]).toEqual(["3,1", { seq: 0, head: null, step: 3, lost: true }]);
    bus.point({ step: 2 }, {});
    expect([root.dataset["cursor"], bus.now.lost]).toEqual(["2,0", false]);
  });

  it("leaves nothing behind when it ends", () => {
    const view = open(head);
    view.destroy();
    expect(root.childElementCount).toBe(0);
  });
});
