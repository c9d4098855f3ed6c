import { afterEach, describe, expect, it } from "vitest";
import training from "../../tests/viz/fixtures/curves_training.json";
import twoRuns from "../../tests/viz/fixtures/curves_runs.json";
import { exactBlock } from "../src/block";
import type { Curve, Head } from "../src/curves/layout";
import {
  abreast,
  brief,
  cellsOf,
  curvesOf,
  endsOf,
  look,
  marked,
  nanSince,
  nearest,
  panelsOf,
  pathsOf,
  pointAt,
  problem,
  sentence,
  stops,
  walk,
  within,
} from "../src/curves/layout";
import { niceStep, scaleOf, share, tickText, xScale } from "../src/curves/scale";
import type { Frame } from "../src/frame";
import { showIn } from "../src/mount";
import { fromJson } from "../src/frame";

const frame = fromJson<Head>(training);
const curves = curvesOf(frame);
const curve = (label: string) => curves.find((other) => other.label === label)!;
const of = (...y: number[]): Curve => ({
  label: "",
  name: "",
  own: "",
  panel: null,
  gap: Infinity,
  strip: false,
  run: null,
  style: -1,
  unit: "",
  x: y.map((_, index) => index),
  y,
  best: -1,
  positive: y.every((value) => !(value <= 0)),
  log: false,
});
const ticks = (...y: number[]) => scaleOf(of(...y), false)!.ticks.map(({ text }) => text);

describe("the layout", () => {
  it("reads the spec of the Python side: the best point, and whether a logarithm is possible", () => {
    expect(curves.map(({ label, unit, best, positive, log }) => [label, unit, best, positive, log])).toEqual([
      ["loss", "nats", 4, true, false],
      ["phoneme accuracy", "%", 1, true, false],
      ["learning rate", "", -1, false, false],
      ["gradient norm", "", -1, true, true],
      ["test loss", "", -1, false, false],
    ]);
    expect(stops(curves)).toEqual([0, 10, 20, 30, 40, 50]);
  });

  it.each([
    [
      [4.5, 0.75],
      ["0", "2", "4"],
    ],
    [
      [100.2, 14],
      ["0", "50", "100"],
    ],
    [
      [0, 3e-4],
      ["0", "1e−4", "2e−4", "3e−4"],
    ],
    [
      [0.912, 0.956],
      ["0.92", "0.94", "0.96"],
    ],
    [
      [-3, 5],
      ["−4", "−2", "0", "2", "4", "6"],
    ],
    [
      [20000, 80000],
      ["0", "20k", "40k", "60k", "80k"],
    ],
    [
      [5, 5],
      ["0", "5", "10"],
    ],
    [
      [0, 0],
      ["0", "0.5", "1.0"],
    ],
    [
      [-2e6, -1e6],
      ["−2M", "−1.5M", "−1M"],
    ],
  ])("puts round ticks around %j: %j", (y, texts) => expect(ticks(...(y as number[]))).toEqual(texts));

  it("keeps every value within its scale, linear and logarithmic", () => {
    for (const y of [
      [4.5, 0.75],
      [100.2, 14],
      [3e-4, 1e-7],
      [0.912, 0.956],
      [7, 7],
      [1, 1000],
      [0.4561, 8.3],
    ]) {
      for (const log of [false, true]) {
        const scale = scaleOf(of(...y), log)!;
        for (const value of y) {
          expect(share(scale, value)).toBeGreaterThanOrEqual(-1e-9);
          expect(share(scale, value)).toBeLessThanOrEqual(1 + 1e-9);
        }
        expect(scale.ticks.filter(({ text }) => text).length).toBeGreaterThan(1);
      }
    }
  });

  it("has powers of ten on a logarithmic axis, and none where a value is not positive", () => {
    expect(scaleOf(of(2, 30000), true)!.ticks.flatMap(({ text }) => (text ? [text] : []))).toEqual([
      "10",
      "100",
      "1k",
      "10k",
    ]);
    expect(scaleOf(of(0, 8), true)!.log).toBe(false);
  });

  it("has no scale without a finite value", () => expect(scaleOf(of(NaN, Infinity), false)).toBeNull());

  it("makes x ticks whole for steps, and as many as there is room for", () => {
    const texts = (at: number[], room: number) =>
      xScale(at, room, (text) => text.length * 6)!.ticks.map(({ text }) => text);
    expect(texts([0, 1190], 700)).toEqual(["0", "200", "400", "600", "800", "1000"]);
    expect(texts([0, 1190], 200)).toEqual(["0", "500", "1000"]);
    expect(texts([0, 1], 700)).toEqual(["0", "1"]);
    expect(texts([7], 700)).toEqual(["6", "7", "8"]);
    expect(texts([0, 0.5], 700)).toEqual([
      "0",
      "0.05",
      "0.10",
      "0.15",
      "0.20",
      "0.25",
      "0.30",
      "0.35",
      "0.40",
      "0.45",
      "0.50",
    ]);
  });

  it.each([
    [0.3, 0.5],
    [2, 2],
    [21, 50],
    [70, 100],
  ])("rounds the distance %d up to %d", (size, step) => expect(niceStep(size)).toBeCloseTo(step));
  it.each([
    [0, 1, "0"],
    [1500, 500, "1500"],
    [20000, 5000, "20k"],
    [2.5e6, 5e5, "2.5M"],
    [0.25, 0.05, "0.25"],
    [-3, 1, "−3"],
  ])("writes the tick %d (distance %d) as %s", (value, step, text) => expect(tickText(value, step)).toBe(text));
  it.each([
    [0.40222552, "0.4022"],
    [5, "5"],
    [1200, "1200"],
    [-0.25, "−0.25"],
    [NaN, "NaN"],
  ])("writes %d briefly as %s", (value, text) => expect(brief(value)).toBe(text));

  it("breaks the line at NaN, makes lone points dots, and marks infinite values", () => {
    const same = (value: number) => value;
    expect(pathsOf(of(1, 2, NaN, 3, Infinity, 4, 5), same, same, 90)).toEqual({
      line: "M0 1L1 2M5 4L6 5",
      mean: "",
      dots: "M0 1h0M1 2h0M3 3h0M5 4h0M6 5h0",
      up: "M4 1l-4 6h8z",
      down: "",
    });
  });

  it("draws a long curve with at most four points per pixel, never without its peak", () => {
    const y = Array.from({ length: 10000 }, (_, index) => (index === 5003 ? 99 : index % 7));
    const { line, mean } = pathsOf(
      of(...y),
      (x) => x / 100,
      (value) => value,
      90,
    );
    expect(line.split("L").length).toBeLessThanOrEqual(400);
    expect(line).toContain(" 99");
    expect(mean.split("L").length).toBe(34); // one point for each three pixels
  });

  it("finds the last point at or before the cursor, and the stop nearest to the pointer", () => {
    const accuracy = curve("phoneme accuracy");
    expect([5, 10, 29, 30, 99].map((at) => pointAt(accuracy, at))).toEqual([-1, 0, 0, 1, 2]);
    expect([-5, 14, 16, 99].map((x) => nearest([0, 10, 20], x))).toEqual([0, 10, 20, 20]);
    expect(nearest([], 1)).toBeNull();
  });

  it.each([
    [20, "ArrowLeft", 10],
    [20, "ArrowRight", 30],
    [0, "ArrowLeft", 0],
    [20, "Home", 0],
    [20, "End", 50],
    [null, "ArrowLeft", 50],
    [0, "PageDown", 20],
    [50, "PageUp", 30],
    [20, "a", null],
  ])("leads from %s by %s to %s", (from, key, to) => expect(walk(stops(curves), from, key)).toBe(to));

  it("says the values at the cursor, with the step they are from where that is another", () => {
    expect(sentence(curves, "step", 20)).toBe(
      "step 20: loss NaN, phoneme accuracy 25 % (at step 10), learning rate 0.0003, gradient norm ∞, test loss none yet",
    );
  });

  it("tells what is wrong with bad data in a sentence", () => {
    const bad = (head: object, blocks: Frame["blocks"] = {}) => problem({ kind: "curves", head: head as Head, blocks });
    const block = (...data: number[]) => exactBlock(Float32Array.from(data), [data.length]);
    expect(problem(frame)).toBeNull();
    expect(bad({})).toBe("These curves cannot be drawn: the list of series is missing.");
    expect(bad({ series: [5] })).toBe("These curves cannot be drawn: series 0 is not an entry with a label, x and y.");
    const series = [{ label: "loss", x: "x0", y: "y0" }];
    expect(bad({ series }, { x0: block(1) })).toBe("These curves cannot be drawn: series loss has no array of y.");
    expect(bad({ series }, { x0: block(1, 2), y0: block(1) })).toBe(
      "These curves cannot be drawn: series loss has 2 x and 1 y.",
    );
  });
});

describe("the view in the page", () => {
  let root: HTMLElement;
  const open = (shown = frame) => {
    root = document.createElement("div");
    document.body.append(root);
    const view = showIn(root);
    view.update(shown);
    return view;
  };
  const stage = () => root.querySelector<HTMLElement>(".rfnb-curves-stage")!;
  const readout = () => root.querySelector('[aria-live="polite"]')!.textContent;
  const press = (key: string) =>
    stage().dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
  const point = (clientX: number) => stage().dispatchEvent(new MouseEvent("pointermove", { clientX, bubbles: true }));
  const values = () =>
    [...root.querySelectorAll<HTMLElement>(".rfnb-curves-panel")].map((panel) => panel.dataset["value"]);
  const grown = (...y: number[]): Frame<Head> => ({
    kind: "curves",
    head: { title: "T", live: true, x: "step", series: [{ label: "loss", x: "x0", y: "y0", best: "min" }] },
    blocks: {
      x0: exactBlock(Int32Array.from(y.keys()), [y.length]),
      y0: exactBlock(Float32Array.from(y), [y.length]),
    },
  });
  afterEach(() => document.body.replaceChildren());

  it("has a panel per series with its last and best value", () => {
    open();
    expect([...root.querySelectorAll(".rfnb-curves-head")].map((head) => head.textContent)).toEqual([
      "lossnats1 NaN, first at step 20best 0.75 at 40last1log",
      "phoneme accuracy%best 62.5 at 30last60log",
      "learning ratelast0log",
      "gradient norm▲ 1 infinite, first at step 20last2log",
      "test loss–log",
    ]);
    expect(root.dataset["step"]).toBe("50");
    expect(stage().getAttribute("aria-label")).toBe(
      "Training: loss, phoneme accuracy, learning rate, gradient norm, test loss over step 0 to 50",
    );
    expect(root.textContent).toContain("no points yet");
  });

  it("shows one cursor line and the exact values in all panels, under the pointer", () => {
    open();
    point(64 + 0.6 * (640 - 64 - 14)); // nearest to step 30
    expect(root.dataset["cursor"]).toBe("30");
    expect(values()).toEqual(["1.25", "62.5", "0.0002", "∞", ""]);
    expect(root.querySelectorAll(".rfnb-curves-hair").length).toBe(5);
    stage().dispatchEvent(new MouseEvent("pointerleave"));
    expect([root.dataset["cursor"], root.querySelectorAll(".rfnb-curves-hair").length]).toEqual(["", 0]);
  });

  it("walks by keyboard and reads out where it is", () => {
    open();
    expect([stage().tabIndex, stage().dataset["lmSuppressShortcuts"]]).toEqual([0, "true"]);
    press("Home");
    press("ArrowRight");
    expect(readout()).toBe(
      "step 10: loss 2.5 nats, phoneme accuracy 25 %, learning rate 0.0003, gradient norm 8 (at step 0), test loss none yet",
    );
    press("End");
    expect(root.dataset["cursor"]).toBe("50");
    press("Escape");
    expect([root.dataset["cursor"], readout()]).toEqual([
      "",
      "Point at a curve, or focus the curves and use the arrow keys, Home and End. Drag over a range to zoom, or + and −; 0 shows all.",
    ]);
  });

  it("leaves other keys to the host", () => {
    open();
    expect(press("a")).toBe(true);
    expect(press("End")).toBe(false);
  });

  it("grows while it trains: a cursor at the end stays at the end, another where it is", () => {
    const view = open(grown(5, 4, 3));
    press("End");
    view.update(grown(5, 4, 3, 2));
    expect([root.dataset["cursor"], readout()]).toEqual(["3", "step 3: loss 2"]);
    press("ArrowLeft");
    view.update(grown(5, 4, 3, 2, 1));
    expect([root.dataset["cursor"], root.dataset["step"]]).toEqual(["2", "4"]);
  });

  it("changes one panel to a logarithmic axis, and keeps that", () => {
    const view = open(grown(1000, 100, 1));
    const button = root.querySelector<HTMLButtonElement>('[data-do="log"]')!;
    const texts = () =>
      [...root.querySelectorAll('.rfnb-curves-ticks text[text-anchor="end"]:not(.rfnb-curves-name)')].map(
        (text) => text.textContent,
      );
    expect(texts()).toEqual(["0", "500", "1000"]);
    button.click();
    view.update(grown(1000, 100, 1, 1));
    expect([button.getAttribute("aria-pressed"), texts()]).toEqual(["true", ["1", "10", "100", "1k"]]);
  });

  it("offers no logarithm where a value is not positive", () => {
    open(grown(1, 0));
    expect(root.querySelector<HTMLElement>('[data-do="log"]')!.style.visibility).toBe("hidden");
  });

  it("shows bad data as a sentence, and good data after it", () => {
    const view = open({ kind: "curves", head: {} as Head, blocks: {} });
    const alert = root.querySelector<HTMLElement>('[role="alert"]')!;
    expect(alert.textContent).toBe("These curves cannot be drawn: the list of series is missing.");
    view.update(grown());
    expect(alert.textContent).toBe("No points yet.");
    view.update(frame);
    expect(alert.hidden).toBe(true);
    expect(values().length).toBe(5);
  });

  it("shows labels as text, and leaves nothing behind when it ends", () => {
    const shown = grown(1, 2);
    shown.head.series[0]!.label = "<b>loss</b>";
    const view = open(shown);
    expect(root.querySelector(".rfnb-curves-label")!.textContent).toBe("<b>loss</b>");
    view.destroy();
    expect(root.childElementCount).toBe(0);
  });
});

describe("zoom, many series, and what is no number", () => {
  const root = document.createElement("div");
  document.body.append(root);
  const view = showIn(root);
  afterEach(() => view.destroy());
  const many = (count: number, y = [3, 2, 1, 0.5]) => {
    const block = (data: number[]) => exactBlock(new Float32Array(data), [data.length]);
    const series = Array.from({ length: count }, (_, index) => ({ label: `s${index}`, x: "x", y: "y" }));
    const head = { title: "", live: false, x: "step", series } as unknown as Head;
    view.update({ kind: "curves", head, blocks: { x: block(y.map((_, index) => index * 10)), y: block(y) } });
  };
  const stage = () => root.querySelector<HTMLElement>(".rfnb-curves-stage")!;
  const press = (key: string) => stage().dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
  const panels = () => root.querySelectorAll(".rfnb-curves-panel").length;

  it("draws 24 of 500 series, and more when asked", () => {
    many(500);
    expect(panels()).toBe(24);
    const button = root.querySelector<HTMLButtonElement>("[data-do=more]")!;
    expect(button.textContent).toBe("Show 24 more (24 of 500 series are drawn)");
    button.click();
    expect(panels()).toBe(48);
  });

  it("zooms by keys and shows all again", () => {
    many(1, [9, 8, 7, 6, 5, 4, 3, 2, 1]);
    press("End");
    press("+");
    expect(root.dataset["range"]).toBe("60 80");
    press("-");
    expect(root.dataset["range"]).toBe("50 80");
    press("0");
    expect([root.dataset["range"], root.querySelector<HTMLElement>("[data-do=all]")!.hidden]).toEqual(["", true]);
  });

  it("marks since when nothing is a number, and says what the mark of an infinity is", () => {
    many(1, [3, Infinity, 2, NaN, NaN]);
    expect(root.querySelectorAll(".rfnb-curves-band").length).toBe(1);
    expect(root.textContent).toContain("NaN since step 30, ▲ 1 infinite, first at step 10");
    many(1, [3, NaN, 2]);
    expect(root.querySelectorAll(".rfnb-curves-band").length).toBe(0);
  });

  it("takes the points of a range, and the best one only where it is in it", () => {
    const whole = { ...of(5, 4, 1, 3, 2), best: 2 };
    expect(within(whole, [1, 3])).toMatchObject({ x: [1, 2, 3], y: [4, 1, 3], best: 1 });
    expect(within(whole, [3, 4])).toMatchObject({ x: [3, 4], best: -1 });
    expect(within({ ...whole, x: [0, 10, 20, 30, 40] }, [1, 9])).toMatchObject({ x: [] });
    expect(nanSince(of(1, NaN, NaN))).toBe(1);
    expect(nanSince(of(NaN, 1, NaN))).toBe(-1);
  });
});

describe("runs", () => {
  const root = document.createElement("div");
  document.body.append(root);
  const runs = () => fromJson<Head>(structuredClone(twoRuns));
  let view = showIn(root);
  const open = (shown = runs()) => {
    view = showIn(root);
    view.update(shown);
  };
  afterEach(() => view.destroy());
  const texts = (selector: string) => [...root.querySelectorAll(selector)].map(({ textContent }) => textContent);
  const boxes = (name: string) => [
    ...root.querySelectorAll<HTMLInputElement>(`[role=group][aria-label=${name}] input`),
  ];
  const tick = (box: HTMLInputElement) => {
    box.checked = !box.checked;
    box.dispatchEvent(new Event("change"));
  };
  const labels = () => texts(".rfnb-curves-label");

  it("share a panel by their label, in the order of the spec", () => {
    const panels = panelsOf(curvesOf(runs()));
    expect(panels.map((some) => some.map(({ name, style }) => [name, style]))).toEqual([
      [
        ["train loss", 0],
        ["valid loss", 1],
      ],
      [["train rate", 0]],
      [["valid word errors", 1]],
    ]);
    expect(panelsOf([of(1), of(2)]).length).toBe(2); // of no run
  });

  it("may be rows of a strip, in which the strongest of what shares a pixel is drawn", () => {
    const row = { ...of(1, 0.5, -1), x: [0, 10, 20] },
      px = (x: number) => x;
    expect([...cellsOf(row, px, (y) => y, 0)]).toEqual([
      [12, "M-5 0h10v12H-5z"],
      [6, "M5 0h10v12H5z"],
      [-12, "M15 0h10v12H15z"],
    ]);
    const dense = { ...of(0.25, 1, 0.25, 0.5), x: [0, 0.5, 1, 1.5] };
    expect([...cellsOf(dense, px, (y) => y, 0).keys()]).toEqual([12]);
    expect([...cellsOf({ ...of(1, 1), x: [0, 100], gap: 10 }, px, (y) => y, 0).values()]).toEqual([
      "M-5 0h10v12H-5zM95 0h10v12H95z",
    ]);
  });

  it("are named at the ends of their lines, apart where they end together", () => {
    const ends = (...last: number[]) =>
      endsOf(
        last.map((y) => of(y)),
        (y) => y,
        100,
      ).map(([, y]) => y);
    expect(ends(50, 52, 10)).toEqual([10, 50, 62]);
    expect(ends(99, 98, 97)).toEqual([76, 88, 100]);
    expect(ends(NaN, 5)).toEqual([5]);
    const many = ends(...Array.from({ length: 30 }, (_, index) => index));
    expect(many).toEqual([0, 12, 24]); // of many those that have room
  });

  it("stand three abreast where they are many, fewer in a narrow page", () => {
    expect([6, 7, 30].map((panels) => abreast(panels, 860, false))).toEqual([1, 3, 3]);
    expect([860, 500, 300].map((room) => abreast(30, room, false))).toEqual([3, 2, 1]);
    expect([1, 2].map((panels) => abreast(panels, 860, true))).toEqual([1, 2]);
  });

  it("have no line over a gap that is too wide", () => {
    const sparse = { ...of(1, 2, 3, 4), x: [1, 2, 3, 64] };
    const px = (x: number) => x * 10;
    expect(pathsOf({ ...sparse, gap: 5 }, px, px, 100).line).toBe("M10 10L20 20L30 30");
    expect(pathsOf({ ...sparse, gap: 5 }, px, px, 100).dots).toBe("M10 10h0M20 20h0M30 30h0M640 40h0");
    expect(pathsOf(sparse, px, px, 100).line).toBe("M10 10L20 20L30 30L640 40");
  });

  it("of one unit are one panel of grey lines: one stands out, by pointer and by keys, and broken ones are said first", () => {
    const many = 12,
      blocks: Frame<Head>["blocks"] = {};
    for (let index = 0; index < many; index++) {
      blocks[`x${index}`] = exactBlock(Int32Array.of(0, 1, 2, 3), [4]);
      blocks[`y${index}`] = exactBlock(
        Float32Array.from([index, index, index ? index : NaN, index ? index : NaN]),
        [4],
      );
    }
    const series = Array.from({ length: many }, (_, index) => ({
      label: `run ${index}`,
      panel: "run #",
      x: `x${index}`,
      y: `y${index}`,
    }));
    open({ kind: "curves", head: { title: "T", x: "step", series }, blocks });
    expect(labels()).toEqual(["run #"]);
    expect(texts(".rfnb-curves-broken")).toEqual(["1 of 12 broken: run 0 NaN since step 2"]);
    expect(root.querySelectorAll(".rfnb-curves-grey").length).toBe(12);
    const stage = root.querySelector<HTMLElement>(".rfnb-curves-stage")!,
      press = (key: string) => stage.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
    press("ArrowDown");
    expect([root.dataset["hot"], root.dataset["cursor"]]).toEqual(["run 0", "3"]);
    press("ArrowUp");
    expect(root.dataset["hot"]).toBe("run 11");
    expect(root.querySelector(".rfnb-readout")!.textContent).toBe("step 3: run 11 11 (11 others: 1 to 10)");
    expect(texts(".rfnb-curves-ends .rfnb-curves-hot")).toEqual(["run 11"]);
    stage.dispatchEvent(new MouseEvent("pointermove", { clientX: 300, clientY: 5, bubbles: true })); // the top
    expect(root.querySelectorAll(".rfnb-curves-grey.rfnb-curves-hot").length).toBe(1);
    root.querySelector<HTMLButtonElement>("[data-do=apart]")!.click();
    expect(labels()).toEqual(series.map(({ label }) => label));
    const tops = new Set(
      [...root.querySelectorAll(".rfnb-curves-plot")].map(
        (plot) => plot.querySelector(".rfnb-curves-ticks text[text-anchor=end]:not(.rfnb-curves-name)")!.textContent,
      ),
    );
    expect(tops.size).toBe(1); // one axis
    open({
      kind: "curves",
      head: { title: "T", x: "step", series: series.map((one) => ({ ...one, strip: true })) },
      blocks,
    });
    const rows = [...root.querySelectorAll(".rfnb-curves-row path[fill-opacity]")],
      ends = rows.map((row) => {
        const [, x, wide] = /M([0-9.]+) [0-9.]+h([0-9.]+)v[0-9.]+H[0-9.]+z$/.exec(row.getAttribute("d")!)!;
        return Number(x) + Number(wide);
      });
    expect(texts(".rfnb-curves-row text")).toEqual(series.map(({ label }) => label));
    expect(Math.max(...ends)).toBeLessThanOrEqual(640 - 14); // no cell is beyond the plot
  });

  it("have a line each that says how it is drawn, and differ in more than the colour", () => {
    open();
    expect(texts(".rfnb-curves-run")).toEqual([
      "trainbest 1 at 21",
      "valid1 NaN, first at step 2best 3.5 at 0NaN",
      "train0.001",
      "validbest 12.5 at 212.5",
    ]);
    const looks = Array.from({ length: 20 }, (_, style) => `${look(style).dash} ${look(style).mark}`);
    expect(new Set(looks).size).toBe(20);
    const [plot] = root.querySelectorAll(".rfnb-curves-plot");
    const drawn = [...plot!.querySelectorAll(".rfnb-curves-line")];
    expect(drawn.map((line) => line.getAttribute("stroke-dasharray"))).toEqual(["", "6 3"]);
    expect(root.querySelector(".rfnb-curves-panel")!.getAttribute("data-value")).toBe("1 NaN");
    expect(marked(of(1, NaN, 2))).toEqual([0, 2]);
    expect(marked(of(...Array.from({ length: 120 }, (_, y) => y)))).toEqual([10, 30, 50, 70, 90, 110]);
  });

  it("are read out with their names", () => {
    open();
    const stage = root.querySelector<HTMLElement>(".rfnb-curves-stage")!;
    stage.dispatchEvent(new KeyboardEvent("keydown", { key: "Home", bubbles: true }));
    expect(root.querySelector("[aria-live]")!.textContent).toBe(
      "step 0: train loss 3, valid loss 3.5, train rate 0.1, valid word errors 50 %",
    );
  });

  it("and series can be left out", () => {
    open();
    expect(texts("summary")).toEqual(["3 of 3 series, 2 of 2 runs"]);
    tick(boxes("runs")[0]!);
    expect([labels(), texts(".rfnb-curves-run").length]).toEqual([["loss", "word errors"], 2]);
    tick(boxes("series")[0]!);
    expect([labels(), texts("summary")]).toEqual([["word errors"], ["1 of 3 series, 1 of 2 runs"]]);
    view.update(runs()); // more points have come
    expect(labels()).toEqual(["word errors"]);
    tick(boxes("runs")[0]!);
    root.querySelector<HTMLButtonElement>("[data-do=every]")!.click();
    expect(labels()).toEqual(["loss", "rate", "word errors"]);
  });

  it("of many series those with a name are found", () => {
    const shown = runs();
    delete shown.head.runs;
    shown.head.series = Array.from({ length: 500 }, (_, index) => ({ label: `layer ${index}`, x: "x0", y: "y0" }));
    open(shown);
    const search = root.querySelector<HTMLInputElement>("input[type=search]")!;
    expect([boxes("series").length, boxes("series").filter(({ checked }) => checked).length]).toEqual([100, 24]);
    search.value = "layer 41";
    search.dispatchEvent(new Event("input"));
    expect([
      boxes("series")
        .map(({ value }) => value.slice(6))
        .join(" "),
      labels().length,
    ]).toEqual(["41 141 241 341 410 411 412 413 414 415 416 417 418 419 441", 24]);
    search.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter" }));
    expect([labels().length, texts("summary")]).toEqual([15, ["15 of 500 series"]]);
    tick(boxes("series")[1]!);
    expect(labels().slice(0, 2)).toEqual(["layer 41", "layer 241"]);
    search.value = "layer 7";
    search.dispatchEvent(new Event("input"));
    tick(boxes("series")[0]!);
    expect(labels().slice(0, 2)).toEqual(["layer 7", "layer 41"]); // what is not in the list stays
    search.value = "none";
    search.dispatchEvent(new Event("input"));
    root.querySelector<HTMLButtonElement>("[data-do=only]")!.click();
    expect(labels().length).toBe(15);
  });

  it("have the same numbers in a table, exactly, of the range that is in sight", () => {
    open();
    root.querySelector<HTMLButtonElement>("[data-do=table]")!.click();
    const rows = () =>
      [...root.querySelectorAll(".rfnb-table tr")].map((row) => [...row.children].map((cell) => cell.textContent));
    expect(rows()).toEqual([
      ["step", "train loss", "valid loss", "train rate", "valid word errors (%)"],
      ["0", "3", "3.5", "0.1", "50"],
      ["1", "2", "–", "0.01", "–"],
      ["2", "1", "NaN", "0.001", "12.5"],
    ]);
    expect(root.querySelector<HTMLElement>(".rfnb-curves-stage")!.hidden).toBe(true);
    tick(boxes("runs")[1]!);
    expect(rows()[0]).toEqual(["step", "train loss", "train rate"]);
  });
});
