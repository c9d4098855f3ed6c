import { columns } from "../src/axis";
import { times } from "../src/list";
import { beforeEach, describe, expect, it } from "vitest";
import rail from "../../tests/viz/fixtures/attention_rail.json";
import small from "../../tests/viz/fixtures/attention_small.json";
import { hit, layout, SOUND, walk, WORDS } from "../src/attention/layout";
import { isPadding, largest, matrixOf, problem, scaleOf, wordAt } from "../src/attention/matrix";
import { sentence } from "../src/attention/parts";
import { fault } from "../src/attention/check";
import type { Head } from "../src/attention/matrix";
import { exactBlock } from "../src/block";
import { fromJson } from "../src/frame";
import type { Frame } from "../src/frame";
import { showIn } from "../src/mount";

HTMLCanvasElement.prototype.getContext = () => null; // jsdom has no canvas

const measure = (text: string) => text.length * 7;
const frame = () => fromJson<Head>(small);
const matrix = (map = 0, seq = 0) => matrixOf(frame(), map, seq)!;

/** A map of the given size, value = row + col / 1000. */
function sized(rows: number, cols: number, label = (index: number) => String(index)): Frame<Head> {
  const data = Float32Array.from(
    { length: rows * cols },
    (_, index) => Math.floor(index / cols) + (index % cols) / 1000,
  );
  const labels = (count: number) => Array.from({ length: count }, (_, index) => label(index));
  return {
    kind: "attention",
    blocks: { m: exactBlock(data, [1, rows, cols]) },
    head: {
      title: "sized",
      live: false,
      seqs: [{ label: "s", rows: labels(rows), cols: labels(cols), row_len: rows, col_len: cols }],
      maps: [{ label: "m", row_dim: { name: "target" }, col_dim: { name: "source" }, block: "m", seqs: [0] }],
    },
  };
}
const place = (made: Frame<Head>, width = 900, zoom = 1) =>
  layout(matrixOf(made, 0, 0)!, { width, height: 620, zoom, measure });

describe("labels of columns", () => {
  const measure = (text: string) => text.length * 7;
  const of = (texts: string[], cell: number) => columns(texts, measure, () => ({ cell }));
  const numbers = (count: number, step = 1, digits = 0) =>
    Array.from({ length: count }, (_, at) => (at * step).toFixed(digits));

  it("are never turned where they are numbers or single letters, but thinned", () => {
    const made = of(numbers(120), 4);
    expect([made.turn, made.cols.map(({ text }) => text)]).toEqual([
      "none",
      ["0", "10", "20", "30", "40", "50", "60", "70", "80", "90", "100", "110"],
    ]);
    expect(of(numbers(200, 0.02, 2), 4).turn).toBe("none");
    const letters = of([..."parachute"], 5);
    expect([letters.turn, letters.cols.length]).toEqual(["none", 5]);
    expect(of([..."parachute"], 12).cols.length).toBe(9);
  });

  it("are turned where they are words", () => {
    expect([40, 20, 8].map((cell) => of(["the", "quick", "fox"], cell).turn)).toEqual([
      "slanted",
      "slanted",
      "upright",
    ]);
  });
});

describe("a map", () => {
  it("has the numbers, labels and lengths of its sequence", () => {
    const of = matrix(1, 1);
    expect([of.label, of.seq, of.rows, of.cols, of.rowLen, of.colLen]).toEqual(["head 1", "hi", 3, 5, 2, 2]);
    expect([of.rowLabel(1), of.colLabel(0)]).toEqual(["AY", "h"]);
    expect(of.value(1, 1)).toBe(small.blocks.map1.data[15 + 5 + 1]);
    expect(isPadding(of, { row: 1, col: 2 })).toBe(true);
    expect(matrix().value(2, 0)).toBeNaN();
  });

  it("tells the sources with the largest weights", () => {
    expect(largest(matrix(), 0, 2)).toEqual([4, 3]);
    expect(largest(matrix(), 2, 2)).toEqual([]); // not computed
  });

  it("is not there for a sequence or map that is not there", () => {
    expect(matrixOf(frame(), 5, 0)).toBeNull();
    expect(matrixOf(frame(), 0, 5)).toBeNull();
  });
});

describe("the colours", () => {
  it("go by the square root from 0 to 1 for weights", () => {
    const scale = scaleOf(frame().head);
    expect([scale.low, scale.high, scale.share(0.25), scale.share(1), scale.share(0)]).toEqual([0, 1, 0.5, 1, 0]);
  });

  it("go to the largest for other values, and straight where some are negative", () => {
    expect(scaleOf({ maps: [], seqs: [], range: [0, 2.001] }).high).toBeCloseTo(2.001);
    expect(scaleOf({ maps: [], seqs: [], range: [-1, 3] }).share(1)).toBe(0.5);
  });

  it("have a scale where all is zero", () => {
    expect(scaleOf({ maps: [], seqs: [], range: [0, 0] }).share(0)).toBe(0);
    const linear = scaleOf({ maps: [], seqs: [], range: [0, 0.9], scale: "linear" });
    expect([linear.share(0.03), linear.share(0.25), linear.share(1)]).toEqual([0.03, 0.25, 1]);
  });
});

describe("the layout", () => {
  it("gives small maps large sharp cells with numbers and level labels", () => {
    const made = place(sized(3, 5));
    expect([made.cell, made.tall, made.turn, made.numbers]).toEqual([38, 38, "none", true]);
    expect(made.cols.map((label) => label.text)).toEqual(["0", "1", "2", "3", "4"]);
  });

  it("slants long labels", () => {
    const made = place(sized(9, 9, (index) => `internationalization${index}`));
    expect(made.turn).toBe("slanted");
    expect(made.rows[0]!.text).toBe("internationaliz…");
  });

  it.each([
    [50, 60],
    [200, 300],
    [1000, 1000],
    [3, 5000],
  ])("fits %i x %i into the room, with labels that do not overlap", (rows, cols) => {
    const made = place(sized(rows, cols));
    expect(made.width).toBeLessThanOrEqual(900.01);
    expect(made.height - made.top).toBeGreaterThan(90);
    expect(made.height).toBeLessThanOrEqual(620 + 1);
    const steps = made.cols.slice(1).map((label, index) => (label.index - made.cols[index]!.index) * made.cell);
    expect(Math.min(...steps)).toBeGreaterThanOrEqual(11);
    expect(
      Math.min(...made.rows.slice(1).map((label, index) => (label.index - made.rows[index]!.index) * made.tall)),
    ).toBeGreaterThanOrEqual(11);
  });

  it("grows beyond the room when zoomed, and then scrolls", () => {
    expect(place(sized(100, 100), 900, 4).width).toBeGreaterThan(1800);
  });

  it("finds the cell at each point of a cell, and none outside", () => {
    const made = place(sized(3, 5)),
      of = matrixOf(sized(3, 5), 0, 0)!;
    const at = (row: number, col: number) =>
      hit(made, of, made.left + (col + 0.5) * made.cell, made.top + (row + 0.5) * made.tall);
    expect([at(0, 0), at(2, 4), at(3, 0), at(0, 5), at(-1, 0)]).toEqual([
      { row: 0, col: 0 },
      { row: 2, col: 4 },
      null,
      null,
      null,
    ]);
  });

  it("has no cell in an empty map", () => {
    expect(hit(place(sized(0, 5)), matrixOf(sized(0, 5), 0, 0)!, 200, 200)).toBeNull();
    expect(walk(matrixOf(sized(0, 5), 0, 0)!, null, "ArrowRight", false)).toBeNull();
  });
});

describe("the keyboard", () => {
  const of = matrixOf(sized(30, 7), 0, 0)!;
  it.each([
    ["ArrowRight", { row: 2, col: 4 }],
    ["ArrowLeft", { row: 2, col: 2 }],
    ["ArrowUp", { row: 1, col: 3 }],
    ["ArrowDown", { row: 3, col: 3 }],
    ["Home", { row: 2, col: 0 }],
    ["End", { row: 2, col: 6 }],
    ["PageDown", { row: 12, col: 3 }],
    ["PageUp", { row: 0, col: 3 }],
  ])("%s walks", (key, to) => {
    expect(walk(of, { row: 2, col: 3 }, key, false)).toEqual(to);
  });

  it("stays inside, starts at the first cell, and goes to the corners with Ctrl", () => {
    expect(walk(of, { row: 29, col: 6 }, "ArrowRight", false)).toEqual({ row: 29, col: 6 });
    expect(walk(of, null, "ArrowDown", false)).toEqual({ row: 0, col: 0 });
    expect(walk(of, { row: 2, col: 3 }, "End", true)).toEqual({ row: 29, col: 6 });
    expect(walk(of, null, "x", false)).toBeNull();
  });
});

describe("the view in the page", () => {
  let root: HTMLElement;
  beforeEach(() => {
    document.body.replaceChildren((root = document.createElement("div")));
  });
  const press = (key: string) =>
    root
      .querySelector(".rfnb-pane")!
      .dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
  const readout = () => root.querySelector(".rfnb-readout")!.textContent;

  it("tells the cell under the cursor exactly, to eyes and to screen readers", () => {
    showIn(root).update(frame());
    for (const key of ["ArrowRight", "ArrowDown", "ArrowRight"]) press(key);
    expect([
      root.dataset["row"],
      root.dataset["col"],
      root.dataset["kind"],
      root.dataset["seq"],
      root.dataset["live"],
    ]).toEqual(["1", "1", "attention", "0", "true"]);
    const value = small.blocks.map0.data[6] as number;
    expect(Math.fround(Number(/0\.\d+/.exec(readout()!)![0]))).toBe(Math.fround(value));
    const cell = root.querySelector(".rfnb-pane [role=gridcell]")!;
    expect(cell.textContent).toContain("target “N” (1) to source “n” (1): 0.1");
    expect(root.querySelector(".rfnb-pane[role=grid]")!.getAttribute("aria-activedescendant")).toBe(cell.id);
  });

  it("says what is padding and what is not computed", () => {
    showIn(root).update(frame());
    press("End");
    press("ArrowDown");
    press("ArrowDown");
    expect(readout()).toContain("NaN");
    const select = root.querySelector<HTMLSelectElement>("select[aria-label=sequence]")!;
    select.value = "1";
    select.dispatchEvent(new Event("change"));
    expect([root.dataset["seq"], readout()]).toEqual([
      "1",
      "target 2, source 4: padding, past the end of hi, with 0.20930232 on it",
    ]);
  });

  it("keeps what the person chose when more rows arrive", () => {
    const shown = showIn(root);
    shown.update(frame());
    const select = root.querySelector<HTMLSelectElement>("select[aria-label=map]")!;
    select.value = "1";
    select.dispatchEvent(new Event("change"));
    press("ArrowRight");
    press("ArrowDown");
    shown.update(frame());
    expect([root.dataset["map"], root.dataset["row"], root.dataset["step"]]).toEqual(["1", "1", "1"]);
  });

  it("offers the same numbers as a table", () => {
    showIn(root).update(frame());
    root.querySelector<HTMLButtonElement>("[data-do=table]")!.click();
    expect([...root.querySelectorAll("thead th")].map((cell) => cell.textContent)).toEqual([
      "target ↓ source →",
      "e",
      "n",
      "u",
      "f",
      "f",
    ]);
    expect([...root.querySelectorAll("tbody tr")].map((row) => row.children[5]!.textContent)).toEqual([
      "0.3333",
      "0.2500",
      "–",
    ]);
  });

  it("shows bad data as a sentence and recovers", () => {
    const shown = showIn(root);
    const bad = frame();
    delete bad.blocks["map1"];
    expect(problem(bad)).toBe("Map head 1 has no array of sequence, target and source.");
    shown.update(bad);
    expect(root.querySelector("[role=alert]")!.textContent).toContain("Map head 1 has no array");
    shown.update(frame());
    expect(root.querySelector<HTMLElement>(".rfnb-sentence")!.hidden).toBe(true);
  });

  it("points linked views at its row", () => {
    const linked = document.createElement("div");
    document.body.append(linked);
    const with_link = { ...frame(), head: { ...frame().head, link: "t" } };
    showIn(root).update(with_link);
    showIn(linked).update(with_link);
    press("ArrowRight");
    press("ArrowDown");
    expect([linked.dataset["linked"], root.dataset["linked"]]).toEqual(["1", undefined]);
    press("Escape");
    expect(linked.dataset["linked"]).toBe("");
  });
});

describe("what is wrong with a row", () => {
  /** Three rows of five columns, of which the last two are padding. */
  const matrix = (rows: number[][], sums = true) =>
    matrixOf(
      {
        kind: "attention",
        blocks: { map0: exactBlock(Float32Array.from(rows.flat()), [1, rows.length, 5]) },
        head: {
          maps: [
            {
              label: "weights",
              row_dim: { name: "target" },
              col_dim: { name: "source" },
              block: "map0",
              seqs: [0],
              sums,
              notes: { 0: "something" },
            },
          ],
          seqs: [{ label: "one", rows: [], cols: [], row_len: rows.length, col_len: 3 }],
        },
      } as unknown as Parameters<typeof matrixOf>[0],
      0,
      0,
    )!;

  it.each([
    ["nothing", [0.25, 0.5, 0.25, 0, 0], ""],
    ["weight on padding", [0.25, 0.25, 0, 0.5, 0], "0.5 of this row is on padding"],
    ["a sum that is not 1", [0.25, 0.25, 0, 0, 0], "this row sums to 0.5, not to 1"],
    ["a row that may see nothing", [0, 0, 0, 0, 0], ""],
    ["a row to come", [NaN, NaN, NaN, NaN, NaN], ""],
    ["a sum of bfloat16", [0.5, 0.25, 0.2451171875, 0, 0], ""],
  ])("%s", (_, row, words) => expect(fault(matrix([row]), 0)).toBe(words));

  it("is not asked of what is not meant to sum to 1", () =>
    expect(fault(matrix([[3, 4, 5, 6, 7]], false), 0)).toBe(""));

  it("is marked at its label", () => {
    const rows = [
      [1, 0, 0, 0, 0],
      [0.5, 0, 0, 0.5, 0],
    ];
    expect(
      layout(matrix(rows), { width: 600, height: 400, zoom: 1, measure: (text) => text.length * 6 }).rows.map(
        ({ text }) => text,
      ),
    ).toEqual(["0", "! 1"]);
    expect(matrix(rows).drawn).toBe(5);
  });
});

describe("a view with something wrong", () => {
  it("says so in words, at the sequence and in the choosers", () => {
    const root = document.createElement("div");
    showIn(root).update(fromJson<Head>(small));
    const said = () => [...root.querySelectorAll(".rfnb-notes p")].map((p) => p.textContent);
    expect(said()).toEqual(["Something is wrong in 2 other maps or sequences, marked with “!”."]);
    const choose = root.querySelector<HTMLSelectElement>("select[aria-label=sequence]")!;
    expect([...choose.options].map((option) => option.textContent)).toEqual(["enough", "hi !"]);
    choose.value = "1";
    choose.dispatchEvent(new Event("change"));
    expect(said()).toEqual([
      "! hi: weight on padding in 2 of 2 rows, up to 0.62 in row 0 “HH”.",
      "Also in 1 other map or sequence, marked with “!”.",
    ]);
  });
});

describe("a rail above the columns", () => {
  const heard = () => fromJson<Head>(rail);
  const of = (seq = 0) => matrixOf(heard(), 0, seq)!;

  it("has the sound and the words of each sequence", () => {
    expect(of().words).toEqual([
      [1, 3, "A"],
      [5, 6, "B"],
    ]);
    expect([of().sound!.cols, of(1).sound!.cols, of(1).words.length]).toEqual([14, 8, 1]);
    const stored = rail.blocks.rail.data;
    expect(of(1).sound!.value(3, 5)).toBe(stored[(32 + 3) * 14 + 5] || NaN);
    expect(of().soundLabel).toBe("waveform");
  });

  it("takes room above the map, whose rows then have labels", () => {
    const made = layout(of(), { width: 900, height: 620, zoom: 1, measure });
    const bare = layout({ ...of(), sound: null, words: [] }, { width: 900, height: 620, zoom: 1, measure });
    expect(made.rail).toBe(SOUND + 4 + WORDS);
    expect([made.top - bare.top, bare.rail]).toEqual([made.rail, 0]);
    expect(hit(made, of(), made.left + 1, made.top - 1)).toBeNull();
    const long = layout(matrixOf(wide(), 0, 0)!, { width: 900, height: 620, zoom: 1, measure });
    expect(long.tall).toBeGreaterThanOrEqual(15);
    expect(long.rows.length).toBe(23);
  });

  it("has rows of blanks that are low, which are hit where they are drawn", () => {
    const long = matrixOf(wide({ alignment: true }), 0, 0)!,
      made = layout(long, { width: 900, height: 620, zoom: 1, measure });
    const high = times(23, (row) => made.y(row + 1) - made.y(row));
    expect(new Set(high.filter((_, row) => row % 2))).toEqual(new Set([made.tall]));
    for (const blank of high.filter((_, row) => row % 2 === 0)) expect(blank / made.tall).toBeCloseTo(0.3, 1);
    expect([made.rows.map(({ index }) => index), made.height - made.top - 4]).toEqual([
      times(11, (label) => 2 * label + 1),
      made.y(23),
    ]);
    for (const row of [0, 1, 2, 21, 22])
      for (const y of [made.y(row) + 0.5, made.y(row + 1) - 0.5])
        expect(hit(made, long, made.left + 1, made.top + y)!.row).toBe(row);
  });

  /** An alignment of 23 rows over 500 frames. */
  function wide(more: Partial<Head> = {}): Frame<Head> {
    const made = sized(23, 500);
    return { ...made, head: { ...made.head, ...more, rail: { words: [[[0, 9, "word"]]] } } };
  }

  it("says the word that a cell is in", () => {
    expect([wordAt(of(), 0), wordAt(of(), 2), wordAt(of(), 3), wordAt(of(), 5)]).toEqual(["", "A", "", "B"]);
    expect(sentence(of(), { row: 1, col: 2 })).toBe("label “A” (1) to time (s) “0.04” (2), in “A”: 0.5");
    expect(sentence(of(), { row: 1, col: 3 })).toBe("label “A” (1) to time (s) “0.06” (3): 0");
    const root = document.createElement("div");
    showIn(root).update(heard());
    expect(root.querySelector(".rfnb-stage [role=grid]")!.getAttribute("aria-label")).toContain(
      "above them a waveform",
    );
  });

  it("is refused in a sentence where it has no words by sequence", () => {
    const bad = { ...heard(), head: { ...heard().head, rail: {} as never } };
    expect(problem(bad)).toBe("This attention view has a rail without words by sequence.");
  });

  it("is left out where its sound is not there", () => {
    const { rail: _, ...blocks } = heard().blocks;
    expect(matrixOf({ ...heard(), blocks }, 0, 0)!.sound).toBeNull();
  });
});
