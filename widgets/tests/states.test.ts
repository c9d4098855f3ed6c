import { beforeEach, describe, expect, it } from "vitest";
import small from "../../tests/viz/fixtures/states_small.json";
import type { Frame } from "../src/frame";
import { exactBlock } from "../src/block";
import { fromJson } from "../src/frame";
import { showIn } from "../src/mount";
import { find } from "../src/states/brush";
import { NO_KERNEL } from "../src/exact_values";
import { hit, layout, titleAt, walk } from "../src/states/layout";
import type { Head } from "../src/states/scene";
import {
  asides,
  changing,
  flagWords,
  isDrawn,
  ordered,
  problem,
  sceneOf,
  unitText,
  withoutPrefix,
} from "../src/states/scene";
import { valueAt, words } from "../src/states/words";

HTMLCanvasElement.prototype.getContext = () => null; // jsdom has no canvas

const measure = (text: string) => text.length * 7;
const look = (tall = 1, folded: number[] = [], pins = 0, width = 400) => ({
  width,
  zoom: 1,
  tall,
  measure,
  folded: (track: number) => folded.includes(track),
  pins,
});
const frame = () => fromJson<Head>(small);
/** What waits for promises has been done. */
const settled = async () => {
  for (let turn = 0; turn < 5; turn++) await Promise.resolve();
};
const scene = (seq = 0) => sceneOf(frame(), seq)!;

function sized(steps: number, units: number): Frame<Head> {
  const data = Float32Array.from({ length: steps * units }, (_, index) => Math.sin(index));
  return {
    kind: "states",
    blocks: { t: exactBlock(data, [1, steps, units]) },
    head: {
      title: "sized",
      live: false,
      step_dim: { name: "step" },
      tracks: [{ label: "h", unit_dim: { name: "unit" }, block: "t" }],
      seqs: [{ label: "s", steps: Array.from({ length: steps }, (_, step) => String(step)), len: steps }],
    },
  };
}

describe("the tracks", () => {
  it("have the values, norms and labels of their sequence", () => {
    const of = scene();
    expect([
      of.seq,
      of.len,
      of.steps,
      of.stepLabel(4),
      of.tracks.map((track) => [track.label, track.units, track.high]),
    ]).toEqual([
      "that",
      5,
      5,
      "</s>",
      [
        ["h", 3, 1.25],
        ["c", 2, 2.5],
      ],
    ]);
    expect(of.tracks[0]!.value(1, 2)).toBe(-0.625);
    expect(of.tracks[0]!.line[0]).toBeCloseTo(Math.hypot(-1.25, -1.125, -1), 10);
    expect(valueAt(of, { track: 0, unit: -1, step: 0 })).toBe(of.tracks[0]!.line[0]);
  });

  it("have the names of their units", () => {
    const { head, ...given } = frame(),
      [first, second] = head.tracks,
      tracks = [{ ...first!, names: ["-", "5", "-"] }, second!];
    const of = sceneOf({ ...given, head: { ...head, tracks } }, 0)!,
      said = (track: number) =>
        words(of, { track, unit: 1, step: 0 }).map((part) => (part as Node).textContent ?? part);
    expect(of.tracks.map((track) => unitText(track, 1))).toEqual(["5 (1)", "1"]);
    expect([said(0).join("").includes("5 (1)"), said(1).join("").includes("(1)")]).toEqual([true, false]);
  });

  it("have no norm after the end", () => {
    expect([scene(1).len, scene(1).tracks[0]!.line.length]).toEqual([2, 2]);
    expect(valueAt(scene(1), { track: 0, unit: -1, step: 4 })).toBeNaN();
  });
});

describe("the layout", () => {
  const made = layout(scene(), look());
  it("puts strip and norm of each track below each other", () => {
    const [first, second] = made.tracks;
    expect(first!.norm).toBeGreaterThanOrEqual(first!.strip + first!.height);
    expect(second!.title).toBeGreaterThan(first!.norm + first!.normHeight);
    expect(made.height).toBeGreaterThanOrEqual(second!.norm + second!.normHeight);
  });

  it.each([
    [500, 512],
    [5000, 3],
    [1, 1],
    [0, 4],
  ])("fits %i steps of %i units, with labels that do not overlap", (steps, units) => {
    const of = layout(sceneOf(sized(steps, units), 0)!, look(1, [], 0, 900));
    expect(of.width).toBeLessThanOrEqual(900.01);
    expect(of.tracks[0]!.height).toBeLessThanOrEqual(192);
    const gaps = of.cols.slice(1).map((label, index) => (label.index - of.cols[index]!.index) * of.cell);
    expect(Math.min(Infinity, ...gaps)).toBeGreaterThanOrEqual(11);
  });

  it("puts tracks of few steps beside each other, with wider cells, as many as there is room for", () => {
    const wide = layout(scene(), look(1, [], 3, 900)),
      [first, second] = wide.tracks;
    expect([first!.x, second!.x, second!.title - first!.title]).toEqual([0, wide.columns[1], 0]);
    expect(wide.columns.length).toBe(2);
    expect([wide.cell > 60, wide.width <= 900, wide.width > 800]).toEqual([true, true, true]);
    expect(wide.pins.map(([x]) => x)).toEqual([0, wide.columns[1], 0]);
    const x = wide.left + second!.x + 1.5 * wide.cell;
    expect(hit(wide, scene(), x, first!.strip + 1)).toEqual({ track: 1, step: 1, unit: 0 });
    expect(hit(wide, scene(), second!.x + wide.left - 3, first!.strip + 1)).toBeNull();
    expect([titleAt(wide, 60, first!.title + 2), titleAt(wide, x, first!.title + 2)]).toEqual([0, 1]);
    const zoomed = layout(scene(), { ...look(1, [], 0, 900), zoom: 1.5 });
    expect([zoomed.columns.length, zoomed.cell]).toEqual([1, 1.5 * wide.cell]);
    expect(layout(sceneOf(sized(6, 3), 0)!, look(1, [], 0, 1000)).cell).toBe(72); // one alone
  });

  it("puts what follows a folded track below it", () => {
    const made = layout(scene(), look(1, [0], 0, 900)),
      [first, second] = made.tracks;
    expect([second!.x, second!.title - first!.title]).toEqual([0, 24]);
  });

  it("finds the unit or the norm at a point", () => {
    const [first, second] = made.tracks;
    const x = made.left + 1.5 * made.cell;
    expect(hit(made, scene(), x, first!.strip + first!.height * 0.9)).toEqual({ track: 0, step: 1, unit: 2 });
    expect(hit(made, scene(), x, first!.norm + 10)).toEqual({ track: 0, step: 1, unit: -1 });
    expect(hit(made, scene(), x, second!.strip + 1)).toEqual({ track: 1, step: 1, unit: 0 });
    expect(hit(made, scene(), made.left - 1, first!.strip + 1)).toBeNull();
  });
});

describe("an order of units", () => {
  const of = () => ordered(scene().tracks[0]!, [2, 0, 1, 0.5, NaN, -1]);
  it("says which unit is in which row, and what it was sorted by", () => {
    expect([[...of().order!], [...of().numbers!]]).toEqual([
      [2, 0, 1],
      [NaN, -1, 0.5],
    ]);
    const sorted = { ...scene(), tracks: [of(), scene().tracks[1]!] },
      made = layout(sorted, look());
    const { strip, height } = made.tracks[0]!;
    expect(hit(made, sorted, made.left + 1, strip + 1)!.unit).toBe(2);
    expect(hit(made, sorted, made.left + 1, strip + height - 1)!.unit).toBe(1);
    expect(walk(sorted, { track: 0, unit: 2, step: 0 }, "ArrowDown")!.unit).toBe(0);
    expect(walk(sorted, { track: 0, unit: 1, step: 0 }, "ArrowDown")!.unit).toBe(-1);
    expect(walk(sorted, { track: 1, unit: 0, step: 3 }, "Home", true)).toEqual({ track: 0, unit: 2, step: 0 });
  });

  it("is left out if it is none", () => {
    expect(ordered(scene().tracks[0]!, [0, 0, 1, 0, 0, 0]).order).toBeNull();
    expect(ordered(scene().tracks[0]!, [0, 1]).order).toBeNull();
  });
});

describe("many units", () => {
  const values = (step: number, unit: number) => (unit % 10 === 3 ? step * unit : unit);
  const track = { ...sceneOf(sized(6, 60), 0)!.tracks[0]!, value: values };

  it("open on those that change most, first what moves early, and walk among these", () => {
    const few = changing(track, 6);
    expect([few.rows, few.units, few.order!.length]).toEqual([24, 60, 24]);
    expect([...few.order!].filter((unit) => unit % 10 === 3)).toEqual([3, 13, 23, 33, 43, 53]);
    const once = changing({ ...track, value: (step, unit) => (step === unit % 6 ? 0 : 0.6) }, 6);
    const when = [...once.order!].map((unit) => unit % 6);
    expect(when).toEqual([...when].sort());
    expect([few.numbers![53], few.numbers![4]]).toEqual([53, 0]);
    expect([isDrawn(few, 53), isDrawn(few, 59), isDrawn(few, -1)]).toEqual([true, false, true]);
    const made = { ...scene(), tracks: [few], steps: 6, len: 6 };
    expect(walk(made, { track: 0, unit: few.order![22]!, step: 0 }, "ArrowDown")!.unit).toBe(few.order![23]);
    expect(walk(made, { track: 0, unit: few.order![23]!, step: 0 }, "ArrowDown")!.unit).toBe(-1);
    const placed = layout(made, look());
    expect(hit(placed, made, placed.left + 1, placed.tracks[0]!.strip + placed.tracks[0]!.height - 1)!.unit).toBe(
      few.order![23],
    );
  });

  it("are all there where they are few, or nothing changes yet", () => {
    expect(changing(sceneOf(sized(6, 48), 0)!.tracks[0]!, 6).order).toBeNull();
    expect(changing(track, 1).order).toBeNull();
  });

  it("of what is made in a step are its line, until its title is clicked", () => {
    const { kind, head, blocks } = sized(6, 60),
      names = ["c", "input_gate", "cell_input"],
      tracks = names.map((label) => ({ ...head.tracks[0]!, label }));
    document.body.innerHTML = '<div id="view"></div>';
    const root = document.getElementById("view")!,
      press = (key: string) => root.querySelector(".rfnb-pane")!.dispatchEvent(new KeyboardEvent("keydown", { key }));
    showIn(root).update({ kind, blocks, head: { ...head, tracks } } as Frame<Head>);
    const titles = [...root.querySelectorAll<HTMLButtonElement>(".rfnb-states-tracks button")];
    const open = () => titles.map((title) => title.getAttribute("aria-pressed"));
    expect(open()).toEqual(["true", "false", "false"]);
    const places = () => {
      const { track, row } = root.dataset;
      return [track, Number(row)];
    };
    for (let row = 0; row <= 24; row++) press(row ? "ArrowDown" : "Home");
    expect(places()).toEqual(["c", -1]);
    press("ArrowDown");
    expect(places()).toEqual(["input_gate", -1]);
    press("ArrowDown");
    expect(places()).toEqual(["cell_input", -1]);
    titles[1]!.click();
    expect(open()).toEqual(["true", "true", "false"]);
    press("ArrowUp");
    expect(places()).toEqual(["input_gate", -1]);
    press("ArrowUp");
    expect(places()[1]).toBeGreaterThanOrEqual(0);
    press("ArrowUp");
    titles[1]!.click();
    expect(open()).toEqual(["true", "false", "false"]);
  });

  it("are all there where they are few, and where nothing is beside them that they make", () => {
    const [track] = sceneOf(sized(6, 60), 0)!.tracks;
    const of = (...tracks: [label: string, units: number][]) =>
      asides(tracks.map(([label, units]) => ({ ...track!, label, units })));
    expect(of(["h", 60], ["a.forget_gate", 60], ["a.cell_input", 60], ["gated", 60])).toEqual([
      false,
      true,
      true,
      false,
    ]);
    expect(of(["h", 60], ["forget_gate", 48])).toEqual([false, false]);
    expect(of(["output_gate", 60], ["input_gate", 60])).toEqual([false, false]);
  });
});

describe("titles", () => {
  it.each([
    [
      ["decoder.lstm.h", "decoder.lstm.gates.input_gate"],
      ["h", "gates.input_gate"],
    ],
    [
      ["a.h", "b.h"],
      ["a.h", "b.h"],
    ],
    [
      ["a.h", "a"],
      ["a.h", "a"],
    ],
    [["a.h"], ["a.h"]],
  ])("leave out what all begin with: %j", (labels, titles) => expect(withoutPrefix(labels)).toEqual(titles));
});

describe("tracks that are folded", () => {
  it("take a line each, and are left out by keys and pointer", () => {
    const made = layout(scene(), look(1, [0])),
      [first, second] = made.tracks;
    expect([first!.folded, first!.height, second!.title - first!.title]).toEqual([true, 0, 24]);
    expect(hit(made, scene(), made.left + 1, first!.title + 2)).toBeNull();
    expect(walk(scene(), null, "Home", false, (track) => track === 0)!.track).toBe(1);
  });

  it("make room for pinned units, and rows get taller", () => {
    expect(layout(scene(), look(1, [], 2)).tracks[0]!.title - layout(scene(), look()).tracks[0]!.title).toBe(100);
    const many = sceneOf(sized(20, 512), 0)!;
    expect(layout(many, look(4)).tracks[0]!.height).toBe(768);
  });
});

describe("a brush", () => {
  // Unit 0 is on in steps 1 and 2 only, unit 1 also in step 4 and in the other sequence, unit 2 in step 1 only.
  const values = [
    [0, 0, 0, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 1, 0],
    [1, 1, 0, 0, 1, 0, 0, 0, 0, 9, 9, 9, 9, 9, 9],
  ];
  const block = exactBlock(Float32Array.from(values.flat()), [2, 5, 3]);
  const seqs = [
    { label: "p", steps: [], len: 5 },
    { label: "q", steps: [], len: 3 },
  ];
  const brush = { track: 0, seq: 0, start: 1, stop: 3, threshold: 0.5 };

  it("finds the units that are on here, those that are on only here, and where else all are", async () => {
    const found = await find(block, "t", seqs, brush, NO_KERNEL);
    expect([found.here, found.only, found.about]).toEqual([[0, 1], [0], false]);
    expect(found.places).toEqual([{ seq: 1, start: 0, stop: 1 }]);
    expect([...found.share.slice(0, 5)]).toEqual([0, 1, 1, 0, 0.5]);
    expect([...found.share.slice(5)]).toEqual([1, 0.5, 0, NaN, NaN]);
  });

  it("below 0 finds what is at most the threshold", async () => {
    const minus = exactBlock(
      block.data.map((value) => -value),
      [2, 5, 3],
    );
    expect((await find(minus, "t", seqs, { ...brush, threshold: -0.5 }, NO_KERNEL)).here).toEqual([0, 1]);
    expect((await find(minus, "t", seqs, brush, NO_KERNEL)).here).toEqual([]);
  });

  it("asks the kernel where values here are about right, and says so where none answers", async () => {
    const asked: string[] = [];
    const answers = [
      [2, 2, 1, 0, 1, 0],
      [0, 1, 1, 0, 0.5, 1, 0.5, 0, NaN, NaN],
    ];
    const kernel = {
      now: () => null,
      ask: (what: { block: string }) => (
        asked.push(what.block),
        Promise.resolve(Float32Array.from(answers[asked.length - 1]!))
      ),
    };
    const about = { ...block, exact: false };
    const found = await find(about, "t", seqs, brush, kernel);
    expect(asked).toEqual(["t/on/0/1/3/0.5", "t/elsewhere/0/1/3/0.5"]);
    expect([found.here, found.only, found.places, found.about]).toEqual([
      [0, 1],
      [0],
      [{ seq: 1, start: 0, stop: 1 }],
      false,
    ]);
    expect((await find(about, "t", seqs, brush, NO_KERNEL)).about).toBe(true);
  });
});

it("says flags in words", () => {
  expect(flagWords(1 | 4 | 32)).toBe("NaN, saturated, moves after the end");
});

describe("the keyboard", () => {
  it("walks through units, norm and the next track", () => {
    const path = [];
    let at = walk(scene(), null, "ArrowDown");
    for (let index = 0; index < 6; index++) {
      path.push([at!.track, at!.unit]);
      at = walk(scene(), at, "ArrowDown");
    }
    expect(path).toEqual([
      [0, 0],
      [0, 1],
      [0, 2],
      [0, -1],
      [1, 0],
      [1, 1],
    ]);
    for (let index = 0; index < 9; index++) at = walk(scene(), at, "ArrowUp");
    expect([at!.track, at!.unit]).toEqual([0, 0]);
  });

  it("goes to the first and to the last real step", () => {
    expect(walk(scene(1), { track: 0, unit: 0, step: 4 }, "End")!.step).toBe(1);
    expect(walk(scene(), { track: 0, unit: 0, step: 3 }, "Home")!.step).toBe(0);
    expect(walk(scene(), { track: 0, unit: 0, step: 4 }, "ArrowRight")!.step).toBe(4);
    expect(walk(scene(), null, "a")).toBeNull();
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

  it("tells the value under the cursor exactly", () => {
    showIn(root).update(frame());
    for (const key of ["ArrowRight", "ArrowRight", "ArrowDown"]) press(key);
    expect([root.dataset["row"], root.dataset["col"], root.dataset["track"], root.dataset["step"]]).toEqual([
      "1",
      "1",
      "h",
      "4",
    ]);
    expect(root.querySelector(".rfnb-readout")!.textContent).toContain("h unit 1  −0.75");
  });

  const shift = (key: string) =>
    root
      .querySelector(".rfnb-pane")!
      .dispatchEvent(new KeyboardEvent("keydown", { key, shiftKey: true, bubbles: true, cancelable: true }));

  it("finds units by a range that keys have chosen, and pins them", async () => {
    showIn(root).update(frame());
    for (const key of ["Home", "ArrowRight"]) press(key);
    for (let index = 0; index < 2; index++) shift("ArrowRight");
    await settled();
    expect(root.dataset["brush"]).toBe("1-3");
    const found = root.querySelector(".rfnb-states-found")!;
    expect(found.textContent).toContain("h ≥ 0.625 in steps 1 to 3");
    root.querySelector<HTMLInputElement>("input[type=range]")!.value = "-10";
    root.querySelector("input[type=range]")!.dispatchEvent(new Event("input"));
    await settled();
    expect(found.textContent).toContain("1 of 3 units on throughout, 0 of them only here");
    found.querySelector<HTMLButtonElement>("button[aria-label='pin unit 0']")!.click();
    expect(root.dataset["pins"]).toBe("h 0");
    press("Escape");
    expect(root.dataset["brush"]).toBe("");
  });

  it("sorts the units in the order that was chosen, and says what by", () => {
    showIn(root).update(frame());
    const select = root.querySelector<HTMLSelectElement>("select[aria-label='order of units']")!;
    const names = [...select.options].map(({ textContent }) => textContent);
    select.selectedIndex = names.indexOf("by correlation with position");
    select.dispatchEvent(new Event("change"));
    expect(root.dataset["order"]).toBe("position");
    press("Home");
    expect(root.querySelector(".rfnb-readout")!.textContent).toMatch(/correlation with the position: −?[01]/);
  });

  it("has the same numbers in a table", () => {
    showIn(root).update(frame());
    root.querySelector<HTMLButtonElement>("[data-do=table]")!.click();
    const rows = [...root.querySelectorAll(".rfnb-table table")[0]!.querySelectorAll("tbody tr")];
    expect(rows.map((row) => [...row.children].map(({ textContent }) => textContent)).slice(0, 2)).toEqual([
      ["t (0)", "1.96", "–", "–", "−1.25", "−1.125", "−1"],
      ["h (1)", "1.31", "0.65", "–", "−0.875", "−0.75", "−0.625"],
    ]);
  });

  it("folds a track", () => {
    showIn(root).update(frame());
    const [button] = root.querySelectorAll<HTMLButtonElement>(".rfnb-states-tracks button");
    button!.click();
    expect(button!.getAttribute("aria-pressed")).toBe("false");
    press("Home");
    expect(root.dataset["track"]).toBe("c");
  });

  it("says where a sequence has ended", () => {
    showIn(root).update(frame());
    for (let index = 0; index < 6; index++) press("ArrowRight");
    const select = root.querySelector<HTMLSelectElement>("select")!;
    select.value = "1";
    select.dispatchEvent(new Event("change"));
    expect(root.querySelector(".rfnb-readout")!.textContent).toContain("past the end of a");
    expect(root.querySelector(".rfnb-legend")!.textContent).toContain("after the end");
  });

  it("lists the units that stand out, to pin, and the steps, to go to", () => {
    const shown = frame(),
      units = new Uint8Array(6);
    units.set([8, 0, 4]);
    shown.blocks["track0/units"] = exactBlock(units, [2, 3]);
    shown.blocks["track0/steps"] = exactBlock(Uint8Array.of(0, 4, 4, 0, 4, 0, 0, 0, 0, 0), [2, 5]);
    shown.head.tracks[0]!.says = { 0: "1 unit dead, 1 saturated; 3 steps saturated" };
    const view = showIn(root);
    view.update(shown);
    const list = () => root.querySelector("details")!;
    expect([...list().children].map(({ textContent }) => textContent)).toEqual([
      "h 1 unit dead, 1 saturated; 3 steps saturated",
      "unit, dead: 0",
      "unit, saturated: 2",
      "step, saturated: 1–24",
    ]);
    list().open = true;
    list().querySelector<HTMLButtonElement>("[aria-label='pin unit 2']")!.click();
    expect(root.dataset["pins"]).toBe("h 2");
    list().querySelector<HTMLButtonElement>("[aria-label='go to step 4']")!.click();
    expect([root.dataset["row"], root.dataset["col"]]).toEqual(["-1", "4"]);
    view.update(shown);
    expect(list().open).toBe(true);
    const select = root.querySelector<HTMLSelectElement>("select[aria-label=sequence]")!;
    select.value = "1";
    select.dispatchEvent(new Event("change"));
    expect(list()).toBeNull();
  });

  it("shows all of many units when asked", async () => {
    const shown = sized(4, 60);
    shown.blocks["t/units"] = exactBlock(new Uint8Array(60).fill(16), [1, 60]);
    shown.head.tracks[0]!.says = { 0: "60 units unchanged" };
    showIn(root).update(shown);
    const buttons = () => root.querySelectorAll<HTMLButtonElement>("details p button");
    expect([buttons().length, buttons()[24]!.textContent]).toEqual([25, "and 36 more"]);
    buttons()[24]!.click();
    expect([buttons().length, buttons()[59]!.textContent]).toEqual([60, "59"]);
  });

  it("shows bad data as a sentence", () => {
    const bad = frame();
    bad.blocks["track0"] = { ...bad.blocks["track0"]!, shape: [1, 5, 3] };
    expect(problem(bad)).toBe("Track h has 1 sequences, not 2.");
    showIn(root).update(bad);
    expect(root.querySelector("[role=alert]")!.textContent).toContain("Track h has 1 sequences");
  });

  it("waits for the first step", () => {
    const head: Head = { title: "t", live: true, step_dim: null, tracks: [], seqs: [] };
    showIn(root).update({ kind: "states", head, blocks: {} });
    expect(root.querySelector("[role=alert]")!.textContent).toBe("No states yet.");
  });
});
