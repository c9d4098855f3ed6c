import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { hypothesisOf } from "../src/beams/follow";
import { placeOf } from "../src/beams/cursor";
import { grow } from "../src/beams/tree";
import { exactBlock } from "../src/block";
import type { ExactOf } from "../src/exact_values";
import { NO_KERNEL } from "../src/exact_values";
import type { Frame } from "../src/frame";
import { followed } from "../src/hypothesis";
import { showIn } from "../src/mount";
import { busOf } from "../src/selection";

HTMLCanvasElement.prototype.getContext = () => null; // jsdom has no canvas

/** Beam 2; the winner is a c (slots 0, 1), the other is b d (slots 1, 0), and x is cut from b. */
const seq = {
  steps: [
    { tokens: ["a", "b"], parents: [0, 0], scores: [-1, -2], ended: [false, false] },
    {
      tokens: ["d", "c"],
      parents: [1, 0],
      scores: [-3, -1.5],
      ended: [false, false],
      cuts: [{ token: "x", parent: 1, score: -5 }],
    },
  ],
  best: [
    [0, 0],
    [1, 1],
  ] as [number, number][],
};
const tree = grow(seq);
const of = (key: string, loopSteps?: number[]) => hypothesisOf(tree, placeOf(tree, key)!, " ", loopSteps);

const SLOTS = Float32Array.from({ length: 2 * 2 * 2 * 3 }, (_, index) => index); // [seq, step, slot, col]
const frameOf = (inPage: boolean, kind = "attention", link = "followed"): Frame => ({
  kind,
  head: {
    title: `${kind}, best hypothesis`,
    link,
    best: true,
    badges: ["entropy"],
    maps: [
      {
        label: "w",
        row_dim: { name: "t" },
        col_dim: { name: "s" },
        block: "map0",
        slots: "slots0",
        before: true,
        seqs: [0, 1],
        at: [0, 0],
      },
    ],
    layers: [""],
    heads: [""],
    range: [0, 30],
    seqs: [0, 1].map(() => ({ label: "one", rows: ["a", "c"], cols: ["p", "q", "r"], row_len: 2, col_len: 3 })),
  } as Frame["head"],
  blocks: {
    map0: exactBlock(new Float32Array(12).fill(0.5), [2, 2, 3]),
    ...(inPage ? { slots0: exactBlock(SLOTS, [2, 2, 2, 3]) } : {}),
  },
});
const kernel = (asked: unknown[]): ExactOf => ({
  now: () => null,
  ask: (one) => {
    asked.push(one);
    const rows = one.pick!.flatMap((slot, step) => [
      ...SLOTS.slice(((one.start[0]! * 2 + step) * 2 + slot) * 3).slice(0, 3),
    ]);
    return Promise.resolve(Float32Array.from(rows));
  },
});
const rows = (frame: Frame | null, at: number) =>
  [0, 1].map((row) => [0, 1, 2].map((col) => frame!.blocks["hypothesis/map0"]!.at(at, row, col)));

describe("a hypothesis for linked views", () => {
  it("is the slot that it was in before and after each choice", () => {
    expect(of("1,0")).toEqual({ place: "1,0", text: "b d", labels: ["b", "d"], before: [0, 1], after: [1, 0] });
    expect(of("0,1")).toEqual(of("1,0")); // a node is part of what it leads to
    expect(of("1,cut0")).toEqual({ place: "1,cut0", text: "b x", labels: ["b", "x"], before: [0, 1], after: [1] });
  });
  it("has one row for several choices of a step of the loop", () => {
    expect(of("1,0", [0, 0])).toEqual({ place: "1,0", text: "b d", labels: ["b|d"], before: [0], after: [0] });
  });
});

describe("a view of the best hypothesis", () => {
  it("shows another one with its own rows and labels, from the page or from the kernel", async () => {
    const asked: unknown[] = [];
    for (const [inPage, exact] of [
      [true, NO_KERNEL],
      [false, kernel(asked)],
    ] as const) {
      const made = await followed(frameOf(inPage), 1, of("1,0"), exact);
      expect(rows(made, 1)).toEqual([
        [12, 13, 14], // step 0, slot 0 of sequence 1
        [21, 22, 23], // step 1, slot 1
      ]);
      expect(rows(made, 0)).toEqual([0, 1].map(() => [0.5, 0.5, 0.5])); // of the other sequence the best one
      expect(made!.head).toMatchObject({ title: "attention, hypothesis: b d", best: false });
      expect(made!.head).not.toHaveProperty("badges"); // those are of the best one
      expect((made!.head as { seqs?: unknown[] }).seqs![1]).toMatchObject({ rows: ["b", "d"], row_len: 2 });
    }
    expect(asked).toEqual([{ block: "slots0", start: [1, 0, 0, 0], size: [1, 2, 1, 3], pick: [0, 1] }]);
  });

  it("takes gates from the slots before each choice, states from those after it", async () => {
    const { head, blocks } = frameOf(true);
    const track = { label: "c", unit_dim: { name: "u" }, block: "map0", slots: "slots0" };
    const { maps: _, ...rest } = head as Record<string, unknown>;
    for (const [entry, want] of [
      [{ ...track, before: true }, [0, 9]],
      [track, [3, 6]],
    ] as const) {
      const made = await followed(
        { kind: "states", head: { ...rest, tracks: [entry] } as Frame["head"], blocks },
        0,
        of("1,0"),
        NO_KERNEL,
      );
      expect(rows(made, 0).map(([first]) => first)).toEqual(want);
    }
  });

  it("that has nothing of others shows the best one", async () => {
    const { head, blocks } = frameOf(true, "distribution");
    const { maps: _, ...rest } = head as Record<string, unknown>;
    expect(
      await followed({ kind: "distribution", head: rest as Frame["head"], blocks }, 0, of("1,0"), NO_KERNEL),
    ).toBeNull();
  });

  it("shows the best one where the rows are neither in the page nor in a kernel", async () => {
    expect(await followed(frameOf(false), 0, of("1,0"), NO_KERNEL)).toBeNull();
    const other = { ...of("1,0"), before: [0, 2] }; // no such slot
    expect(await followed(frameOf(true), 0, other, NO_KERNEL)).toBeNull();
  });
});

describe("the views of a search in a page", () => {
  let beams: HTMLElement, attention: HTMLElement;
  const settled = async () => {
    for (let turn = 0; turn < 8; turn++) await Promise.resolve();
  };
  const open = (inPage: boolean, link: string) => {
    [beams, attention] = [document.createElement("div"), document.createElement("div")];
    document.body.append(beams, attention);
    showIn(beams).update({ kind: "beams", head: { title: "s", link, seqs: [seq] } as Frame["head"], blocks: {} });
    showIn(attention).update(frameOf(inPage, "attention", link));
  };
  const title = () => attention.querySelector(".rfnb-title")!.textContent;
  const press = (key: string) =>
    beams.querySelector(".rfnb-beams-scroll")!.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
  beforeEach(() => document.body.replaceChildren());
  afterEach(() => document.body.replaceChildren());

  it("follow the hypothesis that is chosen by a click or Enter, until Escape", async () => {
    open(true, "clicked");
    beams.querySelectorAll<HTMLButtonElement>(".rfnb-beams-pick")[1]!.click();
    await settled();
    expect([title(), attention.dataset["hypothesis"]]).toEqual(["attention, hypothesis: b d", "b d"]);
    expect(attention.dataset["linked"]).toBe("1"); // the step that is pointed at is one of what is shown
    press("Escape");
    await settled();
    expect([title(), attention.dataset["hypothesis"]]).toEqual(["attention, best hypothesis", ""]);
    for (const key of ["ArrowUp", "Enter"]) press(key);
    await settled();
    expect(title()).toBe("attention, hypothesis: b d");
  });

  it("say that only a kernel has it, and show the best one", async () => {
    open(false, "without kernel");
    beams.querySelectorAll<HTMLButtonElement>(".rfnb-beams-pick")[1]!.click();
    await settled();
    expect(title()).toBe("attention, best hypothesis");
    expect(attention.querySelector(".rfnb-readout")!.textContent).toBe(
      "The page has only the best hypothesis; the chosen one is in the kernel, which does not answer.",
    );
    expect(attention.dataset["linked"]).toBe("");
  });

  it("go back to the best one when a linked view shows another sequence", async () => {
    open(true, "other sequence");
    beams.querySelectorAll<HTMLButtonElement>(".rfnb-beams-pick")[1]!.click();
    await settled();
    busOf("other sequence").point({ seq: 1 }, {});
    await settled();
    expect(title()).toBe("attention, best hypothesis");
  });
});
