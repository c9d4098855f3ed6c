import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { Head } from "../src/diff/layout";
import { hit, layout, pairAt, problem, ROW, share, told, valuesOf, walk, where } from "../src/diff/layout";
import { cellAt, difference, panels } from "../src/diff/draw";
import type { Frame } from "../src/frame";
import { fromJson } from "../src/frame";
import { showIn } from "../src/mount";
import small from "../../tests/viz/fixtures/diff_small.json";

const frame = fromJson<Head>(small);
const { head } = frame;
const measure = (text: string) => text.length * 7;

describe("places", () => {
  const made = layout(head, { width: 800, zoom: 1, measure });

  it("are a row per path and a column per step", () => {
    expect(hit(made, head, made.left + 1.5 * made.pitch, made.top + ROW / 2)).toEqual({ row: 0, col: 1 });
    expect(hit(made, head, made.left + 9 * made.pitch, made.top)).toBeNull();
    expect(layout(head, { width: 800, zoom: 2, measure }).pitch).toBe(2 * made.pitch);
  });

  it("of what has no steps are bars, with room to be told apart", () => {
    const flat = { ...head, cols: ["–"] },
      bars = layout(flat, { width: 800, zoom: 1, measure });
    expect([bars.pitch, made.pitch]).toEqual([260, 30]);
    expect(hit(bars, flat, bars.left + 200, bars.top + 2)).toEqual({ row: 0, col: 0 });
    expect(layout(flat, { width: 200, zoom: 1, measure }).width).toBeLessThanOrEqual(210);
  });

  it("walk by keys, to the first difference and to the next path that differs", () => {
    expect(walk(head, null, "ArrowDown"), "begins at the first difference").toEqual({ row: 1, col: 1 });
    expect(walk(head, { row: 0, col: 0 }, "ArrowRight")).toEqual({ row: 0, col: 1 });
    expect(walk(head, { row: 0, col: 1 }, "End")).toEqual({ row: 0, col: 2 });
    expect(walk(head, { row: 0, col: 0 }, "PageDown")).toEqual({ row: 1, col: 0 });
    expect(walk(head, null, "f")).toEqual({ row: 1, col: 1 });
    expect(walk(head, { row: 1, col: 1 }, "n")).toEqual({ row: 0, col: 2 });
    expect(walk(head, null, "x")).toBeNull();
  });

  it("are named as a person would", () => {
    const other = { ...head, cols: ["–", "call 1", "0", "2: 3"] };
    expect([0, 1, 2, 3].map((col) => where(other, col))).toEqual(["outside of loops", "call 1", "step 0", "step 2: 3"]);
  });
});

describe("a difference", () => {
  it("is said in tolerances and as it is", () => {
    expect(told(frame, { row: 0, col: 0 })).toBe("layer0, step 0: the same, bit for bit");
    expect(told(frame, { row: 1, col: 1 })).toMatch(/^layer1, step 1: \d+ times the tolerance, at most 0.5 apart$/);
  });

  it("is NaN or infinity where one of both is that, and in numbers where there are some", () => {
    const of = (log: number, most: number, exact = true) =>
      told(
        { head, blocks: { log: { at: () => log, exact }, abs: { at: () => most, exact } } } as unknown as Frame<Head>,
        { row: 0, col: 0 },
      ).replace("layer0, step 0: ", "");
    expect(of(Infinity, NaN)).toBe("NaN in only one of both");
    expect(of(Infinity, Infinity)).toBe("infinity in only one of both");
    expect(of(Infinity, 0.5), "bit for bit").toBe("not the same, at most 0.5 apart");
    expect(of(Infinity, 0), "words").toBe("not the same");
    expect(of(Infinity, 0.5, false), "of several steps").toBe("not the same");
    expect(of(NaN, NaN)).toBe("nothing that both have");
  });

  it("is none of infinities of one sign", () => {
    expect([
      difference(Infinity, Infinity),
      difference(-Infinity, Infinity),
      difference(NaN, 1),
      difference(3, 1),
    ]).toEqual([0, -Infinity, NaN, 2]);
  });

  it("has its colour by its size", () => {
    expect(share(-Infinity)).toBe(0);
    expect(share(-9)).toBe(0.1);
    expect(share(0)).toBeCloseTo(0.4375);
    expect([share(5), share(Infinity)]).toEqual([1, 1]);
  });

  it("has both values where the page has them", () => {
    const pair = pairAt(head, { row: 1, col: 1 })!;
    const values = valuesOf(frame.blocks[pair.block!]!);
    expect([values.rows, values.cols]).toEqual([1, 5]);
    const apart = [0, 1, 2, 3, 4].map((col) => values.b(0, col) - values.a(0, col));
    expect(apart).toEqual([0, expect.closeTo(0.5, 6), 0, 0, 0]);
    expect(pairAt(head, { row: 0, col: 0 })).toBeUndefined();
  });

  it("is drawn as maps side by side, of few rows one below the other", () => {
    const values = (rows: number, cols: number) => ({ rows, cols, a: () => 0, b: () => 0 });
    expect(panels(values(1, 128), 600).beside).toBe(false);
    expect(panels(values(40, 30), 600).beside).toBe(true);
    expect(panels(values(40, 30), 600).wide).toBeLessThan(200);
  });

  it.each([
    [48, 128],
    [1, 128],
  ])("of %i by %i cells has the same cell under the pointer in each of its maps", (rows, cols) => {
    const values = { rows, cols, a: () => 0, b: () => 0 },
      { wide, tall, place } = panels(values, 900);
    for (const { x, y } of [0, 1, 2].map(place)) {
      const at = (row: number, col: number) =>
        cellAt(values, 900, x + ((col + 0.5) / cols) * wide, y + 17 + ((row + 0.5) / rows) * tall);
      expect([at(0, 0), at(rows - 1, cols - 1)]).toEqual([
        { row: 0, col: 0 },
        { row: rows - 1, col: cols - 1 },
      ]);
      expect(cellAt(values, 900, x + wide + 2, y + 17)).toBeNull();
    }
  });
});

describe("what is wrong with a frame", () => {
  const said = (change: Partial<Head>, blocks = frame.blocks) =>
    problem({ ...frame, blocks, head: { ...head, ...change } });
  it("is a sentence", () => {
    expect(said({})).toBeNull();
    expect(said({ rows: undefined as never })).toBe("This diff cannot be drawn: its list of rows is missing.");
    expect(said({ cols: ["0"] })).toBe("This diff cannot be drawn: the array log has no 2 paths in 1 steps.");
    expect(said({ mark: [7, 0] })).toBe("This diff cannot be drawn: the first difference has no place.");
    expect(said({}, { log: frame.blocks["log"]!, abs: frame.blocks["abs"]! })).toBe(
      "This diff cannot be drawn: pair 0 has no two values.",
    );
    const result = { label: "x", edits: "=i", a: ["a"], b: ["a"], scores: [0, 0] };
    expect(said({ results: [result] })).toBe("This diff cannot be drawn: result 0 has edits of other labels.");
  });
});

describe("the view", () => {
  let root: HTMLElement;
  let ended: () => void = () => {};
  beforeEach(() => {
    HTMLCanvasElement.prototype.getContext = () => null;
    root = document.createElement("div");
    document.body.append(root);
  });
  afterEach(() => {
    ended();
    root.remove();
  });
  const open = (change: Partial<Head> = {}, exact?: Parameters<typeof showIn>[1]) => {
    const view = showIn(root, exact);
    view.update({ ...frame, head: { ...head, ...change } } as Frame<Head>);
    ended = () => view.destroy();
  };
  const press = (key: string) =>
    root.querySelector(".rfnb-pane")!.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));

  it("says the first difference, what it looks like and the next line to type", () => {
    open();
    expect(root.querySelector(".rfnb-diff-said b")!.textContent).toBe(
      "layer1, step 1, h is the first that differs (0.5 at most; 1 of 5 cells)",
    );
    expect(root.querySelector(".rfnb-diff-words")!.textContent, "the whole of it once, below").toContain(
      "1.24225 in before",
    );
    expect([...root.querySelectorAll(".rfnb-diff-said li")].map((item) => item.textContent)).toEqual(head.hints);
    expect(root.querySelector(".rfnb-diff-next")!.textContent).toBe(head.next.join("\n"));
    expect(root.querySelector(".rfnb-diff-words")!.textContent).toBe(head.pairs[0]!.words);
  });

  it("goes to the first difference and through the paths by keys", () => {
    open();
    press("f");
    expect([root.dataset["row"], root.dataset["col"]]).toEqual(["1", "1"]);
    expect(root.querySelector(".rfnb-readout")!.textContent).toContain("layer1, step 1:");
    press("n");
    expect([root.dataset["row"], root.dataset["col"]]).toEqual(["0", "2"]);
    expect(root.querySelector("[role=gridcell]")!.textContent).toContain("layer0, step 2:");
  });

  it("has the paths as a table", () => {
    open();
    root.querySelector<HTMLElement>("[data-do=table]")!.click();
    const cells = [...root.querySelectorAll(".rfnb-table tr")].map((row) =>
      [...row.children].map((cell) => cell.textContent),
    );
    expect(cells).toEqual([
      ["path", "first difference", "largest", "there", "steps that differ"],
      ["layer0", "step 2", "1", "step 2", "1 of 3"],
      ["layer1", "step 1", "1", "step 2", "2 of 3"],
    ]);
  });

  it("asks the kernel for values that the page has not", async () => {
    const ask = vi.fn(({ block }: { block: string }) =>
      Promise.resolve(Float32Array.from(block.endsWith("size") ? [1, 2, 0] : [1, 2, 3, 4])),
    );
    open({ pairs: [] }, { now: () => null, ask });
    press("f");
    await vi.waitFor(() => expect(ask).toHaveBeenCalledTimes(2));
    expect(ask.mock.calls.map(([asked]) => asked)).toEqual([
      { block: "pair/1/1/size", start: [0], size: [3] },
      { block: "pair/1/1", start: [0, 0, 0], size: [2, 1, 2] },
    ]);
    await vi.waitFor(() => expect(root.querySelectorAll<HTMLElement>(".rfnb-diff-card canvas")[1]!.hidden).toBe(false));
  });

  it("says where no kernel has them", async () => {
    open({ pairs: [] });
    press("f");
    await vi.waitFor(() =>
      expect(root.querySelector(".rfnb-diff-card .rfnb-quiet")!.textContent).toBe(
        "Both values are in the kernel, which has none for this position or does not answer.",
      ),
    );
  });

  it("aligns two results, and marks what differs in words too", () => {
    const result = { label: "sequence 0", edits: "=si", a: ["א", "b"], b: ["א", "c", " "], scores: [-1.5, null] };
    open({ results: [result], searches: ["Search", "  sequence 0: the results:"] });
    const rows = [...root.querySelectorAll(".rfnb-diff-result tr")].map((row) =>
      [...row.children].map((cell) => cell.textContent),
    );
    expect(rows).toEqual([
      ["before", "א", "b", "–", "−1.5"],
      ["after", "א", "c", "␣", ""],
    ]);
    expect(root.querySelector(".rfnb-diff-result caption")!.textContent).toBe("sequence 0: 2 labels differ");
    expect(root.querySelector(".rfnb-edit-i")!.getAttribute("title")).toBe("one more");
    expect(root.querySelector(".rfnb-diff-below pre")!.textContent).toBe("Search");
  });

  it("is a sentence where nothing was compared", () => {
    open({ rows: [], cols: [], said: "no value was recorded in both, only dims" });
    expect(root.querySelector(".rfnb-sentence")!.textContent).not.toBe("");
  });
});
