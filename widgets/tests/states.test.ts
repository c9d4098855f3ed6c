import { beforeEach, describe, expect, it } from "vitest";
import small from "../../tests/viz/fixtures/states_small.json";
import type { Frame } from "../src/frame";
import { exactBlock } from "../src/block";
import { fromJson } from "../src/frame";
import { showIn } from "../src/mount";
import type { Head } from "../src/states/layout";
import { hit, layout, problem, sceneOf, valueAt, walk } from "../src/states/layout";

HTMLCanvasElement.prototype.getContext = () => null; // jsdom has no canvas

const measure = (text: string) => text.length * 7;
const frame = () => fromJson<Head>(small);
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
      of.tracks.map((track) => [track.label, track.units, track.most]),
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
    expect(of.tracks[0]!.norms[0]).toBeCloseTo(Math.hypot(-1.25, -1.125, -1), 10);
    expect(valueAt(of, { track: 0, unit: -1, step: 0 })).toBe(of.tracks[0]!.norms[0]);
  });

  it("have no norm after the end", () => {
    expect([scene(1).len, scene(1).tracks[0]!.norms.length]).toEqual([2, 2]);
    expect(valueAt(scene(1), { track: 0, unit: -1, step: 4 })).toBeNaN();
  });
});

describe("the layout", () => {
  const made = layout(scene(), { width: 900, zoom: 1, measure });
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
    const of = layout(sceneOf(sized(steps, units), 0)!, { width: 900, zoom: 1, measure });
    expect(of.width).toBeLessThanOrEqual(900.01);
    expect(of.tracks[0]!.height).toBeLessThanOrEqual(192);
    const gaps = of.cols.slice(1).map((label, index) => (label.index - of.cols[index]!.index) * of.cell);
    expect(Math.min(Infinity, ...gaps)).toBeGreaterThanOrEqual(11);
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

  it("says where a sequence has ended", () => {
    showIn(root).update(frame());
    for (let index = 0; index < 6; index++) press("ArrowRight");
    const select = root.querySelector<HTMLSelectElement>("select")!;
    select.value = "1";
    select.dispatchEvent(new Event("change"));
    expect(root.querySelector(".rfnb-readout")!.textContent).toContain("past the end of a");
    expect(root.querySelector(".rfnb-legend")!.textContent).toContain("after the end");
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
