import { beforeEach, describe, expect, it } from "vitest";
import { problem } from "../src/branches/check";
import type { Head } from "../src/branches/check";
import { axis, chosenAfter, pairOf, rows, through } from "../src/branches/layout";
import { layout } from "../src/beams/layout";
import { problem as beamsProblem } from "../src/beams/problem";
import { armOf, grow, tagOf } from "../src/beams/tree";
import type { BeamsHead } from "../src/beams/tree";
import { verdictOf } from "../src/beams/verdict";
import { showSteps } from "../src/beams/steps";
import { h } from "../src/dom";
import { fromJson } from "../src/frame";
import { showIn } from "../src/mount";
import fixture from "../../tests/viz/fixtures/branches_small.json";

HTMLCanvasElement.prototype.getContext = () => null; // jsdom has no canvas

const stored = () => fromJson<Head>(structuredClone(fixture));
const merged = () => stored().head.parts.find(({ kind }) => kind === "beams")!.head as unknown as BeamsHead;

describe("branches", () => {
  it("leave where they leave, in percent of the rail", () => {
    const all = rows(stored().head.branches);
    expect(all.map(({ start, end, marks }) => [start, end, marks])).toEqual([
      [0, 100, []],
      [40, 100, [40]],
      [60, 100, [60]],
    ]);
    expect(through(all, 0)).toEqual([{ at: 40, begins: true, ends: false }]);
    expect(through(all, 1)).toEqual([
      { at: 40, begins: false, ends: true },
      { at: 60, begins: true, ends: false },
    ]);
  });

  it("have an axis with few numbers", () => {
    const { branches } = stored().head;
    expect(axis(branches).map(({ text }) => text)).toEqual(["0", "1", "2", "3", "4", "5"]);
    const long = axis([{ ...branches[0]!, ticks: 100_000 }]);
    expect(long.length).toBeLessThan(30);
  });

  it("are chosen two at a time, the earlier one goes", () => {
    expect(chosenAfter([0, 1], 2)).toEqual([1, 2]);
    expect(chosenAfter([0, 1], 1)).toEqual([0, 1]);
    expect(chosenAfter([], 1)).toEqual([1]);
    const { head } = stored();
    expect(pairOf(head, [1, 0])).toBe(pairOf(head, [0, 1]));
    expect(pairOf({ ...head, pairs: [] }, [0, 1])).toBeNull();
  });

  it.each([
    [{ branches: null }, "there is no list of them"],
    [{ branches: [] }, "there is no list of them"],
    [{ pair: [0] }, "a pair does not consist of two of them"],
    [{ pair: [0, 9] }, "a pair does not consist of two of them"],
    [{ pairs: null }, "there is no list of pairs and parts"],
    [{ branches: [{ name: 3 }] }, "branch 0 has no name"],
  ])("that do not fit are a sentence: %o", (change, words) => {
    expect(problem(stored().head)).toBeNull();
    expect(problem({ ...stored().head, ...change })).toContain(words);
  });
});

describe("the page", () => {
  let root: HTMLElement;
  const pressed = () => [...root.querySelectorAll("tr[data-name]")].map((row) => row.querySelector("b")?.textContent);
  const names = () => [...root.querySelectorAll<HTMLElement>(".rfnb-branches-name")];

  beforeEach(() => {
    document.body.replaceChildren((root = h("div.rfnb-root")));
    showIn(root).update(stored());
  });

  it("shows the pair that was given, with both results and all views", () => {
    expect(pressed()).toEqual(["A", "B", undefined]);
    expect(root.querySelector(".rfnb-branches-said")!.textContent).toContain("They part before step 2");
    const edits = [...root.querySelectorAll(".rfnb-branches-edits tr")].map((row) =>
      [...row.querySelectorAll("td")].map((cell) => cell.textContent).join(" "),
    );
    expect(edits).toEqual(["b a c b", "b a a b", "  sub "]);
    const kinds = () =>
      [...root.querySelectorAll<HTMLElement>(".rfnb-branches-views .rfnb-root")].map(({ dataset }) => dataset["kind"]);
    expect(kinds()).toEqual(["beams", "attention"]);
    const folded = [...root.querySelectorAll<HTMLDetailsElement>("details")];
    expect(folded.map((fold) => fold.open)).toEqual(folded.map(() => false));
    for (const fold of folded) {
      fold.open = true;
      fold.dispatchEvent(new Event("toggle"));
    }
    expect(kinds()).toEqual(["beams", "attention", "states"]);
  });

  it("shows another pair when a third is chosen, and keeps the focus", () => {
    names()[2]!.click();
    expect(pressed()).toEqual([undefined, "A", "B"]);
    expect(document.activeElement).toBe(names()[2]);
    expect(root.querySelector(".rfnb-branches-results")!.textContent).toContain("the same");
    names()[0]!.click();
    expect(pressed()).toEqual(["A", undefined, "B"]);
  });

  it("goes up and down by arrow keys", () => {
    const press = (key: string) =>
      document.activeElement!.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
    names()[0]!.focus();
    press("ArrowDown");
    expect(document.activeElement).toBe(names()[1]);
    press("End");
    press("ArrowDown");
    expect(document.activeElement).toBe(names()[2]);
    press("Home");
    expect(document.activeElement).toBe(names()[0]);
  });

  it("switches between both sides, one of them and the difference", () => {
    const tools = [...root.querySelectorAll(".rfnb-tools[aria-label$='which side']")][0]!;
    const shown = () => [...tools.parentElement!.querySelectorAll(".rfnb-branches-of > b")].map((b) => b.textContent);
    expect(shown()).toEqual([]); // A − B
    for (const [which, letters] of [
      ["B", ["B"]],
      ["A − B", []],
      ["A | B", ["A", "B"]],
    ] as const) {
      tools.querySelector<HTMLElement>(`[data-do="${which}"]`)!.click();
      expect(shown()).toEqual(letters);
      expect(tools.querySelector("[aria-pressed=true]")!.textContent).toBe(which);
    }
  });

  it("says what to type for two that it has not", () => {
    const frame = stored();
    frame.head.pairs = frame.head.pairs.slice(0, 1);
    showIn(root).update(frame);
    [...root.querySelectorAll<HTMLElement>(".rfnb-branches-name")].at(-1)!.click();
    expect(root.textContent).toContain('rf.show(rf.compare_runs(tree["c what if"], tree["b again"]))');
  });
});

describe("two searches in one", () => {
  it("are told apart by slot from their step on", () => {
    const seq = merged().seqs[0]!,
      tree = grow(seq);
    expect(seq.arms).toMatchObject({ at: 2, split: 3, ends: [4, 4] });
    expect([
      armOf(seq.arms, { step: 1, slot: 2 }),
      armOf(seq.arms, { step: 2, slot: 2 }),
      armOf(seq.arms, { step: 2, slot: 3 }),
    ]).toEqual([-1, 0, 1]);
    expect(tree.nbest.map((node) => tagOf(seq.arms, node)).sort()).toEqual(["A ", "A ", "A ", "B ", "B ", "B "]);
    expect(seq.arms!.best.at(-1)![1]).toBeGreaterThanOrEqual(3);
  });

  it("are ranked each by itself", () => {
    const tree = grow(merged().seqs[0]!),
      words = tree.nodes[3]!.map((node) => node && verdictOf(tree, { kind: "node", node }));
    expect(
      words.map((text) =>
        /rank (\d) of (\d)/
          .exec(text ?? "")
          ?.slice(1)
          .join(),
      ),
    ).toEqual(["1,3", "2,3", "3,3", "1,3", "2,3", "3,3"]);
    const shares = tree.nodes[3]!.map((node) => node!.share);
    expect(shares.slice(0, 3).reduce((sum, share) => sum + share)).toBeCloseTo(1);
    expect(shares.slice(3).reduce((sum, share) => sum + share)).toBeCloseTo(1);
  });

  it.each(["labels", "overview"] as const)("have room between them: %s", (zoom) => {
    const made = layout(grow(merged().seqs[0]!), { width: 900, zoom, cuts: 3, measure: (text) => text.length * 7 }),
      { y, x } = made.parting!;
    expect(made.lanes[3]! - made.lanes[2]!).toBeGreaterThanOrEqual(40);
    expect(made.lanes[2]!).toBeLessThan(y);
    expect(made.lanes[3]!).toBeGreaterThan(y);
    expect(made.x[1]!).toBeLessThan(x);
    expect(made.x[2]!).toBeGreaterThan(x);
  });

  it("have places with letters in the table", () => {
    const box = h("div");
    showSteps(box, grow(merged().seqs[0]!), "step");
    expect([...box.querySelectorAll("thead th")].map((cell) => cell.textContent).slice(1, 7)).toEqual([
      "A 0",
      "A 1",
      "A 2",
      "B 0",
      "B 1",
      "B 2",
    ]);
    expect(box.textContent!.match(/winner/g)!.length).toBe(2 + 2 * 3);
  });

  it.each([
    ["x", "arms have at"],
    [{ at: -1, split: 3, names: ["a", "b"], ends: [1, 1], best: [] }, "arms have at"],
    [{ at: 1, split: 3, names: ["a"], ends: [1, 1], best: [] }, "names and ends of arms"],
    [{ at: 1, split: 3, names: ["a", "b"], ends: [1, 1], best: [[99, 0]] }, "the path of the second winner"],
  ])("that do not fit are a sentence: %o", (arms, words) => {
    const head = merged();
    expect(beamsProblem(head)).toBeNull();
    Object.assign(head.seqs[0]!, { arms });
    expect(beamsProblem(head)).toContain(words);
  });
});
