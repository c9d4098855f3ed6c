import { describe, expect, it } from "vitest";
import type { Context } from "../src/context";
import { completions, WhyNot } from "../src/control/why_field";
import { fromJson } from "../src/frame";
import type { RunState } from "../src/run";
import control from "../../tests/viz/fixtures/control_small.json";

describe("what may be typed on", () => {
  it("is each label that begins as the last one does, after those that are there", () => {
    const vocab = ["AA", "AE", "B", "EH", "EY"];
    expect(completions("", vocab)).toEqual(vocab);
    expect(completions("P e", vocab)).toEqual(["P EH", "P EY"]);
    expect(completions("P EH ", vocab)).toEqual(vocab.map((label) => `P EH ${label}`));
    expect(completions("P EY", vocab)).toEqual([]); // it is whole
    expect(completions("P Q", vocab)).toEqual([]);
    expect(
      completions(
        "",
        Array.from({ length: 99 }, (_, index) => String(index)),
      ).length,
    ).toBe(12);
  });
});

describe("an answer", () => {
  const why = {
    expected: "B",
    text: "The model prefers A (-1.5).",
    wrong: false,
    causes: "",
    repairs: [["B at 0", true]],
  };
  const head = { ...fromJson<RunState>(control).head, vocab: ["A", "B"], why } as RunState;

  it("is in a saved page without the field, and what would produce it is no button there", () => {
    const made = new WhyNot({} as Context, () => {});
    made.update(head, false);
    expect(made.element.hidden).toBe(false);
    expect(made.element.querySelector("form")!.hidden).toBe(true);
    expect(made.element.querySelector(".rfnb-why-said")!.textContent).toBe("Why not B? The model prefers A (−1.5).");
    expect(made.element.textContent).toMatch(/what would produce it:.*B at 0$/);
    expect(made.element.querySelector("[data-repair]")).toBeNull();
    made.update(head, true); // a kernel has come
    expect(made.element.querySelector("form")!.hidden).toBe(false);
    expect(made.element.querySelector("[data-repair]")!.textContent).toBe("B at 0");
    made.update({ ...head, why: null }, true); // nobody has asked yet: the field, and nothing below it
    expect(made.element.textContent).toBe("why not Ask");
    made.update({ ...head, why: null }, false);
    expect(made.element.hidden).toBe(true);
  });
});
