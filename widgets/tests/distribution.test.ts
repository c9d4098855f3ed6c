import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { Head } from "../src/distribution/layout";
import { hit, layout, nextWrong, problem, ROW, sceneOf, summary, walk } from "../src/distribution/layout";
import type { Frame } from "../src/frame";
import { fromJson } from "../src/frame";
import { showIn } from "../src/mount";
import { busOf } from "../src/selection";
import small from "../../tests/viz/fixtures/distribution_small.json";

const frame = fromJson<Head>(small);
const measure = (text: string) => text.length * 7;

describe("the scene", () => {
  it("has the labels, probabilities and verdicts that Python wrote", () => {
    const { rows, stepName, size } = sceneOf(frame, 0);
    expect([stepName, size, rows.length]).toEqual(["step", 4, 4]);
    expect(rows[0]!.best.map(({ label, prob }) => [label, prob])).toEqual([
      ["T", expect.closeTo(0.5, 6)],
      [" a", expect.closeTo(0.25, 6)],
      ["a ", expect.closeTo(0.125, 6)],
      ["", expect.closeTo(0.125, 6)],
    ]);
    expect(rows.map(({ reference, rank }) => [reference, rank])).toEqual([
      ["T", 1],
      ["", 3],
      [null, 0],
      [" a", 0],
    ]);
    expect(rows[3]!.best, "a step with NaN").toEqual([]);
    expect(sceneOf(frame, 1).rows.length, "the second sequence has one step").toBe(1);
  });

  it("is summed up as in the text twin", () => {
    expect(summary(frame.head, frame.head.seqs[0]!)).toBe("1 of 2 right, 1.04 nats per label, perplexity 2.83");
    expect(summary({ ...frame.head, reference: false }, frame.head.seqs[0]!)).toBe("");
  });
});

describe("places", () => {
  const scene = sceneOf(frame, 0),
    made = layout(scene, { width: 800, zoom: 1, measure });

  it("of a bar belong to the label whose part that is", () => {
    const at = (share: number) => hit(made, scene, made.left + share * made.bar, made.top + ROW / 2);
    expect([0.1, 0.6, 0.8, 0.9].map((share) => at(share)!.item)).toEqual([0, 1, 2, 3]);
    expect(hit(made, scene, made.left, made.top + 9 * ROW)).toBeNull();
  });

  it("walk by keys, and to the next wrong label", () => {
    expect(walk(scene, null, "ArrowDown")).toEqual({ step: 0, item: 0 });
    expect(walk(scene, { step: 0, item: 0 }, "ArrowRight")).toEqual({ step: 0, item: 1 });
    expect(walk(scene, { step: 0, item: 3 }, "ArrowRight")).toEqual({ step: 0, item: 3 });
    expect(walk(scene, { step: 0, item: 3 }, "End")).toEqual({ step: 3, item: 0 });
    expect(walk(scene, { step: 0, item: 0 }, "w")).toEqual({ step: 1, item: 2 });
    expect([nextWrong(scene, -1), nextWrong(scene, 1), nextWrong(sceneOf(frame, 1), -1)]).toEqual([1, 1, null]);
    expect(walk(scene, null, "x")).toBeNull();
  });

  it("leave out the column of losses where there is no room", () => {
    expect(made.loss).toBeGreaterThan(0);
    const narrow = layout(scene, { width: 330, zoom: 1, measure });
    expect(narrow.loss).toBe(0);
    expect(narrow.verdict, "right or wrong stays").toBeGreaterThan(0);
  });
});

describe("what cannot be drawn", () => {
  it("is a sentence", () => {
    const { top: _, ...rest } = frame.blocks;
    expect(problem({ ...frame, blocks: rest })).toBe("This distribution has no array top of sequence, step and label.");
    expect(problem({ ...frame, head: {} as Head })).toBe("This distribution has no list of sequences, or no labels.");
    const seqs = [...frame.head.seqs, ...frame.head.seqs];
    expect(problem({ ...frame, head: { ...frame.head, seqs } })).toBe(
      "This distribution has top of 2 sequences and 4 steps, which does not fit.",
    );
    expect(problem(frame)).toBeNull();
  });
});

describe("the view", () => {
  let root: HTMLElement;
  beforeEach(() => {
    HTMLCanvasElement.prototype.getContext = () => null;
    document.body.replaceChildren((root = document.createElement("div")));
  });
  afterEach(() => {
    vi.restoreAllMocks();
  });
  const open = (more: Partial<Head> = {}): void =>
    showIn(root).update({ ...frame, head: { ...frame.head, ...more } } as Frame);
  const press = (key: string) =>
    root.querySelector(".rfnb-pane")!.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
  const status = () => root.querySelector("[role=status]")!.textContent;

  it("says the label under the cursor exactly, and whether the reference is right", () => {
    open();
    press("ArrowDown");
    expect(status()).toBe(
      "step 0: T 0.5 (log −0.6931472), rank 1; reference T ✓ right, probability 0.5, loss 0.6931472 nats, rank 1 of 4; entropy 1.21 nats",
    );
    press("w");
    expect(status()).toContain("step 1: ∅ 0.25");
    expect(status()).toContain("reference ∅ ✗ wrong");
    press("End");
    expect(status()).toBe("step 3: no numbers, NaN or infinity");
  });

  it("has the same numbers as a table", () => {
    open();
    root.querySelector<HTMLElement>("[data-do=table]")!.click();
    const cells = [...root.querySelectorAll(".rfnb-table tr")].map((row) =>
      [...row.children].map((cell) => cell.textContent),
    );
    expect(cells).toEqual([
      "step,reference,verdict,loss, nats,best label,label 2,label 3,label 4,all others,entropy, nats".split(/,(?! )/),
      ["0", "T", "right", "0.693", "T 0.5", "␣a 0.25", "a␣ 0.125", "∅ 0.125", "0", "1.21"],
      ["1", "∅", "wrong, rank 3", "1.39", "␣a 0.5", "T 0.25", "∅ 0.25", "a␣ 0", "0", "1.04"],
      ["2", "–", "–", "–", "T 0.25", "␣a 0.25", "a␣ 0.25", "∅ 0.25", "0", "1.39"],
      ["3", "␣a", "–", "–", "–", "–", "–", "–", "–", "–"],
    ]);
    expect(root.querySelector("[data-do=table]")!.getAttribute("aria-pressed")).toBe("true");
    const chooser = root.querySelector<HTMLSelectElement>("select")!;
    chooser.value = "1";
    chooser.dispatchEvent(new Event("change"));
    expect(root.querySelectorAll(".rfnb-table tbody tr")).toHaveLength(1);
  });

  it("shows the best labels of the step, with visible spaces", () => {
    open();
    const labels = () => [...root.querySelectorAll(".rfnb-distribution-card th")].map((cell) => cell.textContent);
    expect(labels()).toEqual(["T = reference", "␣a", "a␣", "∅"]);
    const caption = () => root.querySelector(".rfnb-distribution-card caption")!.textContent;
    const name = frame.head.seqs[0]!.steps[0]!;
    expect(caption()).toBe(`The best labels of ${frame.head.step_dim!.name} 0${name === "0" ? "" : ` (${name})`}`);
    const seqs = frame.head.seqs.map((seq) => ({ ...seq, steps: seq.steps.map(() => "8") }));
    open({ seqs }); // what a step is called may be a number, too
    expect(caption()).toBe(`The best labels of ${frame.head.step_dim!.name} 0 (8)`);
    open();
    press("w");
    expect(labels()).toEqual(["␣a", "T", "∅ = reference", "a␣"]);
  });

  it("points at the same step as linked views", () => {
    open({ link: "distribution", axis: "step" });
    busOf("distribution", "step").point({ step: 1 }, {});
    expect(root.dataset["linked"]).toBe("1");
    press("ArrowDown");
    expect(busOf("distribution", "step").now.step).toBe(0);
  });
});
