import { beforeEach, describe, expect, it } from "vitest";
import small from "../../tests/viz/fixtures/attention_small.json";
import { marksOf } from "../src/attention/arcs";
import type { Choice, Wanted } from "../src/attention/grid";
import { briefly, gridOf, hitGrid, layoutGrid, mapsAt, nearest, rowsBy, walkGrid, wordOf } from "../src/attention/grid";
import type { Head } from "../src/attention/matrix";
import { factsOf, largest, matrixOf, meanOf } from "../src/attention/matrix";
import { apart, telling } from "../src/labels";
import { directionOf } from "../src/attention/text";
import { codedBlock, exactBlock } from "../src/block";
import type { Frame } from "../src/frame";
import { fromJson } from "../src/frame";
import { showIn } from "../src/mount";
import { busOf } from "../src/selection";

HTMLCanvasElement.prototype.getContext = () => null; // jsdom has no canvas

const SIZE = 4;
/** Weights of a map: all on the source that is `head` before the target, none above the diagonal. */
const weights = (head: number): number[] =>
  Array.from({ length: SIZE * SIZE }, (_, at) =>
    Math.max(0, Math.floor(at / SIZE) - head) === at % SIZE ? 0.75 : at % SIZE <= Math.floor(at / SIZE) ? 0.05 : 0,
  );

/** Layers x heads, with a badge that is layer + head / 10. */
function frame(layers = 3, heads = 2, more: Partial<Head> = {}, steps = 1): Frame<Head> {
  const labels = ["a", "b", "c", "d"];
  const maps = Array.from({ length: steps * layers * heads }, (_, at) => ({
    label: `map ${at}`,
    row_dim: { name: "target" },
    col_dim: { name: "source" },
    block: `map${at}`,
    seqs: [0],
    at: [Math.floor(at / heads) % layers, at % heads] as [number, number],
    step: Math.floor(at / heads / layers),
    causal: "seen" as const,
    sums: true,
    looks: [at % 2],
  }));
  const blocks = Object.fromEntries(
    maps.map(({ block, at }) => [block, exactBlock(Float32Array.from(weights(at[1])), [1, SIZE, SIZE])]),
  );
  const badges = Float32Array.from(maps.flatMap(({ at }) => [at[0] + at[1] / 10, NaN]));
  return {
    kind: "attention",
    blocks: { ...blocks, badges: exactBlock(badges, [maps.length, 1, 2]) },
    head: {
      title: "heads",
      layers: Array.from({ length: layers }, (_, index) => `layer ${index}`),
      heads: Array.from({ length: heads }, (_, index) => `head ${index}`),
      badges: ["entropy", "change"],
      looks: ["evenly", "at few"],
      range: [0, 0.75],
      seqs: [{ label: "one", rows: labels, cols: labels, row_len: SIZE, col_len: SIZE }],
      maps,
      ...more,
    },
  };
}
const chosen: Choice = { layer: 0, head: 0, seq: 0, step: 0 };

it("opens differences on the map that has the largest", () => {
  const root = document.createElement("div"),
    made = frame(3, 2, { signed: true, range: [-1, 1] }),
    less = weights(0).map((weight) => -0.5 * weight);
  for (const [name, block] of Object.entries(made.blocks))
    if (name !== "map3" && name !== "badges") made.blocks[name] = exactBlock(Float32Array.from(less), block.shape);
  showIn(root).update(made);
  expect([root.dataset["map"], root.querySelector("select option:checked")?.textContent]).toEqual([
    "3",
    "layer 1, head 1",
  ]);
});
const place: Wanted = { by: "layer", order: "place", badge: -1, least: 0 };
const at = (layer: number, head: number) => ({ ...chosen, layer, head });

describe("labels of maps", () => {
  it("that would look the same when they are cut are told apart by what differs", () => {
    const paths = ["self_attn", "multihead_attn"].flatMap((name) => [0, 1].map((at) => `decoder.layers.${at}.${name}`));
    expect(apart([...paths, "mean"], 18)).toEqual([
      "0.self_attn",
      "1.self_attn",
      "0.multihead_attn",
      "1.multihead_attn",
      "mean",
    ]);
    expect(apart(["layer 0", "layer 1"], 18)).toEqual(["layer 0", "layer 1"]);
    expect(apart(["one.very.long.path.of.parts", "other.path"], 18)).toEqual(["one.very.long.pat…", "other.path"]);
    expect(apart(["a very long label of one", "a very long label of two"], 18)).toEqual([
      "a very long label of one",
      "a very long label of two",
    ]);
  });
});

describe("the maps of a choice", () => {
  it("are one, or all that a mean is of", () => {
    const made = frame();
    expect(mapsAt(made, at(1, 1))).toEqual([3]);
    expect(mapsAt(made, at(1, 2))).toEqual([2, 3]);
    expect(mapsAt(made, at(3, 0))).toEqual([0, 2, 4]);
    expect(mapsAt(made, at(3, 2))).toEqual([0, 1, 2, 3, 4, 5]);
  });

  it("have no mean where their axes are others: it is not offered, and no other map stands for it", () => {
    for (const spoil of [
      (made: ReturnType<typeof frame>) => (made.head.maps[2]!.col_dim = { name: "memory" }),
      (made: ReturnType<typeof frame>) =>
        (made.blocks["map2"] = exactBlock(new Float32Array(SIZE * (SIZE + 1)), [1, SIZE, SIZE + 1])),
    ]) {
      const made = frame();
      spoil(made);
      expect(mapsAt(made, at(3, 0))).toEqual([]);
      expect(mapsAt(made, at(1, 2))).toEqual([]);
      expect(mapsAt(made, at(3, 1))).toEqual([1, 3, 5]);
      expect(nearest(made, at(3, 0))).not.toEqual(at(3, 0));
      const { lines } = gridOf(made, chosen, place);
      expect(lines.map(({ title }) => title)).toEqual(["layer 0", "layer 1", "layer 2", "mean"]);
      expect(lines.at(-1)!.items.map((item) => item?.maps ?? null)).toEqual([null, [1, 3, 5], null]);
    }
    const cross = frame();
    for (const map of cross.head.maps.slice(2, 4)) map.col_dim = { name: "memory" };
    expect(gridOf(cross, chosen, place).lines.map(({ title }) => title)).toEqual(["layer 0", "layer 1", "layer 2"]);
  });

  it("are near by where a layer has fewer heads", () => {
    const made = frame();
    made.head.maps.splice(5, 1);
    expect(nearest(made, at(2, 1))).toEqual(at(2, 0));
  });

  it("have a mean that is theirs, cell by cell", () => {
    const made = frame(),
      mean = meanOf(made, [2, 3], 0, "mean")!;
    for (let row = 0; row < SIZE; row++)
      for (let col = 0; col < SIZE; col++)
        expect(mean.value(row, col)).toBeCloseTo(
          (matrixOf(made, 2, 0)!.value(row, col) + matrixOf(made, 3, 0)!.value(row, col)) / 2,
        );
    expect([mean.hidden(0, 1), mean.hidden(1, 1), mean.about, mean.sums]).toEqual([true, false, false, true]);
  });

  it("have a mean as coarse as the coarsest of them", () => {
    const made = frame();
    const code = { kind: "linear", low: 0, high: 252 } as const;
    made.blocks["map3"] = codedBlock(Uint8Array.of(1, 2, 3, 4), [1, SIZE, SIZE], code, [1, 2, 2]);
    made.blocks["map2"] = exactBlock(
      Float32Array.from({ length: 16 }, (_, index) => index),
      [1, SIZE, SIZE],
    );
    const mean = meanOf(made, [2, 3], 0, "mean")!;
    expect([mean.value(0, 0), mean.value(1, 3), mean.value(3, 0), mean.value(2, 2), mean.about]).toEqual([
      (5 + 1) / 2,
      (7 + 2) / 2,
      (13 + 3) / 2,
      (15 + 4) / 2,
      true,
    ]);
  });

  it("have no mean where they differ in size", () => {
    const made = frame();
    made.blocks["map3"] = exactBlock(new Float32Array(6), [1, 2, 3]);
    expect(meanOf(made, [2, 3], 0, "mean")).toBeNull();
  });
});

describe("the grid", () => {
  it("has a row for each layer, a column for each head, and the means", () => {
    const grid = gridOf(frame(), chosen, place);
    expect(grid.cols).toEqual(["head 0", "head 1", "mean"]);
    expect(grid.lines.map(({ title }) => title)).toEqual(["layer 0", "layer 1", "layer 2", "mean"]);
    expect(grid.lines[1]!.items.map((item) => item?.maps)).toEqual([[2], [3], [2, 3]]);
    expect(grid.lines[3]!.items[2]!.label).toBe("mean of the layers, mean of the heads");
  });

  it("sorts by a badge and groups by where heads look", () => {
    const sorted = gridOf(frame(), chosen, { ...place, order: "high", badge: 0 });
    expect(sorted.lines[0]!.items.map((item) => item!.badge.toFixed(1))).toEqual([
      "2.1",
      "2.0",
      "1.1",
      "1.0",
      "0.1",
      "0.0",
    ]);
    const low = gridOf(frame(), chosen, { ...place, order: "low", badge: 0 });
    expect(low.lines[0]!.items.map((item) => item!.maps[0])).toEqual([0, 1, 2, 3, 4, 5]);
    const grouped = gridOf(frame(), chosen, { ...place, order: "looks" });
    expect(grouped.lines.map(({ title, items }) => [title, items.map((item) => item!.short)])).toEqual([
      ["evenly (3)", ["L0 H0", "L1 H0", "L2 H0"]],
      ["at few (3)", ["L0 H1", "L1 H1", "L2 H1"]],
    ]);
  });

  it("leaves faint what has less of a badge, and what has none of it", () => {
    const { lines } = gridOf(frame(), chosen, { ...place, badge: 0, least: 1 });
    expect(lines.map(({ items }) => items.map((item) => item!.faint))).toEqual([
      [true, true, true],
      [false, false, true],
      [false, false, true],
      [true, true, true],
    ]);
  });

  it("has rows of sequences or of the slider where there are several", () => {
    expect(rowsBy(frame().head)).toEqual(["layer"]);
    const slides = frame(1, 2, { slider: { name: "epoch", labels: ["1", "2", "3"] } }, 3);
    expect(rowsBy(slides.head)).toEqual(["step"]);
    const grid = gridOf(slides, chosen, { ...place, by: "step" });
    expect(grid.lines.map(({ title, items }) => [title, items[1]!.maps, items[1]!.label])).toEqual([
      ["1", [1], "layer 0, head 1, epoch 1"],
      ["2", [3], "layer 0, head 1, epoch 2"],
      ["3", [5], "layer 0, head 1, epoch 3"],
    ]);
    expect(rowsBy(fromJson<Head>(small).head)).toEqual(["seq"]);
  });

  const measure = (text: string) => text.length * 6;
  it.each([
    [4, 6, 400],
    [12, 12, 390],
    [2, 40, 390],
  ])("of %i x %i finds each map at its place, and walks to its neighbours", (layers, heads, width) => {
    const grid = gridOf(frame(layers, heads), chosen, place);
    const made = layoutGrid(grid, { width, height: 470 }, measure, true);
    for (const { item, x, y } of made.places) expect(hitGrid(made, x + made.size / 2, y + made.size / 2)).toBe(item);
    expect(new Set(made.places.map(({ x, y }) => `${x},${y}`)).size).toBe((layers + 1) * (heads + 1));
    const to = (key: string) => {
      const { layer, head } = walkGrid(made, at(1, 1), key)!;
      return [layer, head];
    };
    expect(["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "Home", "End"].map(to)).toEqual([
      [1, 0],
      [1, 2],
      [0, 1],
      [2, 1],
      [0, 0],
      [layers, heads],
    ]);
    expect(walkGrid(made, at(0, 0), "ArrowUp")).toMatchObject({ layer: 0, head: 0 });
    expect(walkGrid(made, at(0, 0), "x")).toBeNull();
  });

  it("shows all rows at once, where a map can still be seen", () => {
    const made = (layers: number) =>
      layoutGrid(gridOf(frame(layers, 12), chosen, place), { width: 760, height: 470 }, measure, false);
    expect(made(12).height).toBeLessThanOrEqual(470);
    expect([made(4).size, made(12).size, made(40).size]).toEqual([50, 29, 26]);
  });

  it("breaks lines where one layer has many heads", () => {
    const made = layoutGrid(gridOf(frame(1, 40), chosen, place), { width: 390, height: 470 }, measure, false);
    expect([made.places.length, made.width <= 392]).toEqual([41, true]);
  });

  it("breaks lines where maps are sorted", () => {
    const made = layoutGrid(
      gridOf(frame(6, 6), chosen, { ...place, order: "high", badge: 0 }),
      { width: 300, height: 470 },
      measure,
      true,
    );
    expect(Math.max(...made.places.map(({ x }) => x + made.size))).toBeLessThanOrEqual(302);
    expect(made.places).toHaveLength(36);
  });

  it("says labels briefly", () => {
    expect(["layer 3", "head 11", "encoder output", "cross"].map(briefly)).toEqual(["L3", "H11", "encoder …", "cross"]);
    expect([wordOf(["head 0", "head 1", "mean"]), wordOf(["one", "two"])]).toEqual(["head", ""]);
  });
});

describe("a row", () => {
  it("has its entropy, sum and largest sources of what it may see", () => {
    const matrix = matrixOf(frame(), 0, 0)!,
      facts = factsOf(matrix, 2);
    expect(facts.seen).toBe(3);
    expect(facts.total).toBeCloseTo(0.85);
    const shares = [0.05, 0.05, 0.75].map((value) => value / 0.85);
    expect(facts.entropy).toBeCloseTo(-shares.reduce((sum, p) => sum + p * Math.log(p), 0));
    expect(largest(matrix, 2, 9)).toEqual([2, 0, 1]);
  });
});

describe("arcs", () => {
  it("are the fewest that have the share of each row", () => {
    const matrix = matrixOf(frame(), 0, 0)!;
    expect(marksOf(matrix, 0.5).marks.map(({ row, col }) => [row, col])).toEqual([
      [0, 0],
      [1, 1],
      [2, 2],
      [3, 3],
    ]);
    expect(marksOf(matrix, 0.999).marks.filter(({ row }) => row === 3)).toHaveLength(4);
  });

  it("are never more than so many, and then the strongest", () => {
    const { marks, all } = marksOf(matrixOf(frame(), 0, 0)!, 0.999, 5);
    expect([marks.length, all]).toEqual([5, 10]);
    expect(marks.filter(({ value }) => value > 0.7)).toHaveLength(4);
  });

  it("say of a row that looks evenly that it does", () => {
    const one = frame(1, 1);
    one.blocks["map0"] = exactBlock(Float32Array.from([1, 0, 0, 0, 0.5, 0.5, 0, 0, 0.3, 0.3, 0.4, 0, 0.1, 0.1, 0.1, 0.7]), [1, SIZE, SIZE]); // prettier-ignore
    const { marks, even } = marksOf(matrixOf(one, 0, 0)!, 0.5);
    expect([even, [...new Set(marks.map(({ row }) => row))]]).toEqual([1, [0, 1, 3]]);
  });

  it("are one for all cells that share a value", () => {
    const one = frame(1, 1),
      code = { kind: "linear", low: 0, high: 1 } as const;
    one.blocks["map0"] = codedBlock(Uint8Array.from([0, 200, 100, 0]), [1, SIZE, SIZE], code, [1, 2, 2]);
    delete one.head.maps[0]!.causal;
    const { marks } = marksOf(matrixOf(one, 0, 0)!, 0.999);
    expect(marks.map(({ row, col }) => [row, col])).toEqual([
      [0, 2],
      [2, 0],
    ]);
  });
});

describe("the text", () => {
  it("runs in the direction of most of its letters", () => {
    expect([directionOf(["שלום", "עולם", "ok"]), directionOf(["hello", "1", "."]), directionOf(["."])]).toEqual([
      "rtl",
      "ltr",
      "ltr",
    ]);
  });
});

describe("the view of many heads", () => {
  let root: HTMLElement;
  beforeEach(() => document.body.replaceChildren((root = document.createElement("div"))));
  const press = (key: string, selector = ".rfnb-sheet") =>
    root.querySelector(selector)!.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
  const shown = (data = frame()) => {
    showIn(root).update(data);
    return data;
  };
  const choose = (label: string, value: string) => {
    const select = root.querySelector<HTMLSelectElement>(label)!;
    select.value = value;
    select.dispatchEvent(new Event("change"));
  };

  it("chooses a map by keys, and says what it does", () => {
    shown();
    press("ArrowDown");
    press("ArrowRight");
    expect([root.dataset["map"], root.dataset["head"]]).toEqual(["3", "1"]);
    expect(root.querySelector(".rfnb-heads-status")!.textContent).toBe(
      "layer 1, head 1 · looks at few · 110 % as spread as even weights",
    );
    expect(root.querySelector(".rfnb-sheet [role=gridcell]")!.textContent).toContain("layer 1, head 1");
    press("ArrowRight");
    expect(root.dataset["map"]).toBe("mean");
  });

  it("opens at the head that says most, where there are too many to see, and stays where a reader has gone", () => {
    const many = frame(5, 4, { badges: ["diagonal", "change"], looks: ["mixed", "along the diagonal"] });
    shown(many); // of those with odd numbers the badge is largest in layer 4, head 3
    expect(root.dataset["map"]).toBe("19");
    expect(root.querySelector(".rfnb-heads-status")!.textContent).toBe("layer 4, head 3 · looks along the diagonal");
    press("Home");
    expect(root.dataset["map"]).toBe("0");
    document.body.replaceChildren((root = document.createElement("div")));
    const few = frame(5, 4); // whose number is entropy, and whose odd ones look at few: the least is layer 0, head 1
    shown(few);
    expect(root.dataset["map"]).toBe("1");
    for (const head of [{ ...many.head, live: true }, { ...many.head, looks: ["mixed", "evenly"] }, frame().head]) {
      document.body.replaceChildren((root = document.createElement("div")));
      shown({ ...many, head });
      expect(root.dataset["map"]).toBe("0");
    }
  });

  it("chooses the same head in linked views, also on another axis", () => {
    const other = document.createElement("div");
    document.body.append(other);
    const linked = (axis: string) => frame(3, 2, { link: "heads", axis });
    showIn(root).update(linked("target"));
    showIn(other).update(linked("frames"));
    press("ArrowRight");
    expect([root.dataset["head"], other.dataset["head"], busOf("heads", "frames").now.head]).toEqual(["1", "1", 1]);
  });

  it("slides through epochs", () => {
    shown(frame(2, 2, { slider: { name: "epoch", labels: ["1", "2"] } }, 2));
    const slider = root.querySelector<HTMLInputElement>('input[aria-label="epoch"]')!;
    slider.value = "1";
    slider.dispatchEvent(new Event("input"));
    expect([root.dataset["map"], slider.getAttribute("aria-valuetext")]).toEqual(["4", "epoch 2"]);
  });

  it("names the maps of an alignment on buttons, and leaves out what goes without saying among its labels", () => {
    shown(frame(1, 1, { slider: { name: "map", labels: ["posterior", "best path"] }, alignment: true }, 2));
    expect(root.querySelector('input[aria-label="map"]')!.closest("label")!.hidden).toBe(true);
    const named = () => [...root.querySelectorAll<HTMLElement>('[role=group][aria-label="map"] button')];
    expect(named().map(({ textContent, ariaPressed }) => [textContent, ariaPressed])).toEqual([
      ["posterior", "true"],
      ["best path", "false"],
    ]);
    named()[1]!.click();
    expect([root.dataset["map"], named()[1]!.getAttribute("aria-pressed")]).toEqual(["1", "true"]);
    const rows = [..."-H-E-L-L-O-"];
    expect(telling(rows, 20, 13)).toEqual([...rows.keys()]);
    expect(telling(rows, 10, 13)).toEqual([1, 3, 5, 7, 9]);
    expect(telling(rows, 5, 13)).toEqual([1, 5, 9]);
    expect(telling([..."HELLOWORLD"], 10, 13)).toEqual([0, 2, 4, 6, 8]);
  });

  it("has a card of the row under the cursor, with the same row in each head", () => {
    shown();
    for (let times = 0; times < 4; times++) press("ArrowDown", ".rfnb-pane");
    const top = [...root.querySelectorAll(".rfnb-card-top li")].map((li) => li.textContent);
    expect(top).toEqual(["d 30.75", "a 00.05", "b 10.05", "c 20.05"]);
    const facts = [...root.querySelectorAll(".rfnb-card dt")].map(
      (dt) => `${dt.textContent} ${dt.nextElementSibling!.textContent}`,
    );
    expect(facts).toEqual(["sum 0.9", "entropy 0.634 of 1.39 nats", "as if at 1.88 of 4", "uniform 1/4 = 0.25"]);
    const heads = [...root.querySelectorAll<HTMLElement>(".rfnb-card-heads button")];
    expect(heads.map((head) => head.textContent)).toEqual(["head 0d 0.75", "head 1c 0.75"]);
    heads[1]!.click();
    expect(root.dataset["head"]).toBe("1");
  });

  it("shades tokens by the row, or by the column, of the one that is chosen", () => {
    shown();
    root.querySelector<HTMLElement>("[data-do=text]")!.click();
    const sides = [...root.querySelectorAll<HTMLElement>(".rfnb-tokens")];
    const numbers = (side: number) =>
      [...sides[side]!.children].map((token) => (token as HTMLElement).dataset["number"] ?? "");
    for (let times = 0; times < 3; times++)
      sides[0]!.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowRight", bubbles: true }));
    expect(root.dataset["row"]).toBe("2");
    expect(numbers(1)).toEqual(["0.05", "0.05", "0.75", ""]);
    sides[1]!.dispatchEvent(new KeyboardEvent("keydown", { key: "Home", bubbles: true }));
    expect(numbers(0)).toEqual(["0.75", "0.05", "0.05", "0.05"]);
    expect(sides[1]!.querySelector('[aria-selected="true"]')!.textContent).toBe("a");
  });

  it("says what is masked under the cursor and in the table", () => {
    shown();
    press("ArrowRight", ".rfnb-pane");
    press("ArrowRight", ".rfnb-pane");
    expect(root.querySelector(".rfnb-readout")!.textContent).toContain("masked");
    root.querySelector<HTMLElement>("[data-do=table]")!.click();
    expect([...root.querySelectorAll("tbody tr")[0]!.children].map((cell) => cell.textContent)).toEqual([
      "a",
      "0.7500",
      "masked",
      "masked",
      "masked",
    ]);
  });

  it("sorts by a number that is chosen for it", () => {
    shown();
    const selects = [...root.querySelectorAll<HTMLSelectElement>(".rfnb-heads select")];
    selects[2]!.id = "order";
    choose("#order", "high");
    expect(selects[1]!.value).toBe("entropy");
    press("Home");
    expect(root.dataset["map"]).toBe("5");
  });
});
