import { describe, expect, it } from "vitest";
import { completions } from "../src/control/why";

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
