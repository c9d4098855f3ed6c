import { afterEach, describe, expect, it } from "vitest";
import several from "../../tests/viz/fixtures/dims_several.json";
import type { DimsHead } from "../src/dims/layout";
import {
  bytesText,
  columnsOf,
  layout,
  namesOf,
  numberText,
  problem,
  statsText,
  valueTables,
  waste,
} from "../src/dims/layout";
import { exactBlock } from "../src/block";
import { showIn } from "../src/mount";

const head = several.head as unknown as DimsHead;

describe("the layout", () => {
  const made = layout(head);
  const row = (label: string) => made.rows.find((other) => other.label === label)!;

  it("tells dims of equal name apart", () => {
    expect(made.legend.map((chip) => chip.text)).toEqual(["batch=3", "time#1<=5", "vocab=40", "model=2", "time#2=5"]);
    expect([...namesOf(head.dims).values()]).toEqual(["batch", "time#1", "vocab", "model", "time#2"]);
  });

  it("puts equal dims under each other, so that a missing one leaves a gap", () => {
    const shown = (label: string) => row(label).cells.map((cell) => cell?.chip.name ?? "");
    expect(shown("x")).toEqual(["batch", "time#1", "model", ""]);
    expect(shown("h")).toEqual(["batch", "", "model", ""]);
    expect(shown("energy")).toEqual(["batch", "time#1", "", "time#2"]);
  });

  it("marks a row whose axes are in another order", () => {
    expect(row("y").permuted).toBe(true);
    expect(row("y").stored).toBe("[time#1<=5, batch=3, model=2]");
    expect(row("y").cells.map((cell) => cell?.axis)).toEqual([1, 0, 2, undefined]);
    expect(row("x").permuted).toBe(false);
  });

  it("writes sizes, values and padding as the Python side does", () => {
    expect(row("x")).toMatchObject({
      dtype: "float32",
      bytes: "120 B",
      values: "min 0 mean 10.3 max 23",
      padding: "33 % padding",
    });
    expect(row("source").values).toBe("min 0 max 11");
    expect(row("count").values).toBe("value 7");
    expect(waste([5, 3, 2])).toBeCloseTo(1 / 3);
  });

  it("shares columns among many dims that never meet", () => {
    const rows = [1, 2, 3, 4, 5, 6, 7, 8].map((other) => ({ label: "", dims: [0, other] }));
    expect([...columnsOf(rows).entries()].sort((a, b) => a[0] - b[0])).toEqual([
      [0, 0],
      ...rows.map((_, index) => [index + 1, 1]),
    ]);
    expect([
      ...columnsOf(
        [
          [0, 1],
          [0, 2],
          [0, 2, 1],
          [1, 0],
        ].map((dims) => ({ label: "", dims })),
      ),
    ]).toEqual([
      [0, 0],
      [2, 1],
      [1, 2],
    ]);
  });

  it.each([
    [null, ""],
    [0, "0 B"],
    [999, "999 B"],
    [1000, "1 kB"],
    [41984, "42 kB"],
    [123456, "123 kB"],
    [999600, "1 MB"],
    [5e9, "5 GB"],
  ])("writes %s bytes as %s", (count, text) => expect(bytesText(count)).toBe(text));
  it.each([
    [null, "-"],
    [0, "0"],
    [-3, "-3"],
    [0.12345, "0.123"],
    [1234.5678, "1235"],
    [1.5e7, "1.5e+07"],
    [-2.5e-7, "-2.5e-07"],
    [12.345, "12.3"],
  ])("writes the number %s as %s", (value, text) => expect(numberText(value)).toBe(text));

  it("says when there are no values", () => {
    expect(statsText({ min: null, max: null, mean: null, nan: 0, inf: 0, valid: 0, cells: 4 })).toBe("no values");
  });

  it("tells what is wrong with bad data in a sentence", () => {
    expect(problem(head)).toBeNull();
    expect(problem({} as DimsHead)).toBe("These dims cannot be drawn: the lists of dims and rows are missing.");
    expect(problem({ dims: [], rows: [{ label: "x", dims: [4] }] })).toBe(
      "These dims cannot be drawn: row 0 names dim 4, which is not in the list of dims.",
    );
  });
});

describe("the view in the page", () => {
  let root: HTMLElement;
  const open = (shown: DimsHead) => {
    root = document.createElement("div");
    document.body.append(root);
    showIn(root).update({ kind: "dims", head: shown, blocks: {} });
  };
  const chips = (name: string) =>
    [...root.querySelectorAll<HTMLElement>("[data-dim]")].filter((chip) => chip.dataset["text"] === name);
  afterEach(() => document.body.replaceChildren());

  it("marks all occurrences of the dim that is pointed at, and says in how many rows it is", () => {
    open(head);
    chips("model=2")[0]!.dispatchEvent(new Event("pointerover", { bubbles: true }));
    expect(chips("model=2").every((chip) => chip.classList.contains("rfnb-dims-same"))).toBe(true);
    expect(root.querySelectorAll(".rfnb-dims-same").length).toBe(4); // legend, x, y, h
    expect(root.querySelector('[aria-live="polite"]')!.textContent).toBe("model=2, feature dim: in 3 of 6 rows");
    expect(root.dataset["cursor"]).toBe("3");
  });

  it("does the same by keyboard: one tab stop, arrows between chips", () => {
    open(head);
    const stops = root.querySelectorAll<HTMLElement>('[tabindex="0"]');
    expect(stops.length).toBe(1);
    stops[0]!.focus();
    const press = (key: string) =>
      document.activeElement!.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
    press("ArrowRight");
    expect((document.activeElement as HTMLElement).dataset["text"]).toBe("time#1<=5");
    expect(root.dataset["cursor"]).toBe("1");
    press("Home");
    press("ArrowDown");
    press("ArrowDown");
    press("ArrowDown");
    expect(document.activeElement!.closest("tr")!.dataset["tensor"]).toBe("y");
    expect(root.querySelectorAll('[tabindex="0"]').length).toBe(1);
  });

  it("stays a table for a screen reader where its rows are blocks", () => {
    open(head);
    const roles = [...root.querySelectorAll("table, table *")].flatMap((el) => el.getAttribute("role") ?? []);
    expect([...new Set(roles)].filter((role) => role !== "img").sort()).toEqual(
      ["cell", "columnheader", "row", "rowgroup", "rowheader", "table"].sort(),
    );
    expect(root.querySelectorAll("td:not([role=cell]), th:not([role]), tr:not([role=row])")).toHaveLength(0);
  });

  it("shows lengths as bars with their numbers as text", () => {
    open(head);
    const bars = root.querySelector('.rfnb-dims-bars[role="img"]')!;
    expect(bars.getAttribute("aria-label")).toBe("lengths 5, 3, 2");
    expect(bars.childElementCount).toBe(3);
    expect(root.querySelector("li:nth-child(2)")!.textContent).toContain("33 % of the cells are padding");
  });

  it("shows a failure above, text as text", () => {
    open({ ...head, failure: "DimError: <b>" });
    expect(root.querySelector('[role="alert"]')!.textContent).toBe("DimError: <b>");
  });

  it("shows bad data as a sentence", () => {
    open({ dims: [], rows: [{ label: "x", dims: [4] }] });
    expect(root.textContent).toBe("These dims cannot be drawn: row 0 names dim 4, which is not in the list of dims.");
  });
});

describe("a model of many dims and rows", () => {
  const dims = Array.from({ length: 9 }, (_, id) => ({ id, name: `d${id}`, size: id + 2, kind: null, lengths: null }));
  const rowOf = (label: string, of: number[]) => ({
    label,
    dims: of,
    dtype: "float32",
    device: "cpu",
    bytes: 4,
    stats: null,
  });
  const rows = [
    rowOf("filter", [0, 1, 2, 3, 4]),
    ...Array.from({ length: 24 }, (_, at) => rowOf(`bias ${at}`, [at % 9])),
  ];
  const shown = (head: unknown) => {
    const root = document.createElement("div");
    document.body.replaceChildren(root);
    showIn(root).update({ kind: "dims", head, blocks: {} } as never);
    return root;
  };

  it("folds what is said of each dim, says once what is the same everywhere, and keeps the chips of a row together", () => {
    const root = shown({ title: "Model", dims, rows });
    const legend = root.querySelector("details")!;
    expect([legend.open, legend.querySelector("summary")!.textContent]).toEqual([false, "9 dims"]);
    expect(legend.querySelectorAll("li")).toHaveLength(9);
    expect(root.querySelector(".rfnb-dims-title")!.textContent).toBe("Model on cpu, float32");
    expect([...root.querySelectorAll("thead th")].map(({ textContent }) => textContent)).toEqual([
      "tensor",
      "dims",
      "bytes",
    ]);
    const [filter] = root.querySelectorAll<HTMLTableRowElement>("tbody tr");
    expect([filter!.cells.length, filter!.cells[1]!.querySelectorAll("[data-dim]").length]).toEqual([3, 5]);
  });

  it("keeps what is small as it is: each dim with its lengths, below each other where it is the same", () => {
    const root = shown({ title: "Small", dims: dims.slice(0, 3), rows: [rowOf("x", [0, 1]), rowOf("y", [1, 2])] });
    expect([root.querySelector("details"), root.querySelectorAll("li").length]).toEqual([null, 3]);
    expect([...root.querySelectorAll("thead th")].map(({ textContent }) => textContent)).toContain("dtype");
    expect(root.querySelector('button[data-do="all"]')).toBeNull();
    expect(root.querySelectorAll("tbody .rfnb-dims-missing").length).toBe(2);
  });

  it("has no empty cell beside a heading of which nothing is said", () => {
    const heading = (note: string) => ({ label: "layers", dims: [], indent: 0, note }),
      cells = (note: string) =>
        [
          ...shown({ title: "Model", dims, rows: [heading(note), ...rows] }).querySelectorAll<HTMLTableCellElement>(
            ".rfnb-dims-heading > *",
          ),
        ].map(({ textContent, colSpan }) => [textContent, colSpan > 1]);
    expect(cells("")).toEqual([["layers", true]]);
    expect(cells("ModuleList")).toEqual([
      ["layers", false],
      ["ModuleList", true],
    ]);
  });

  it("opens a legend in which a dim clashes, and shows all rows where a key leads", () => {
    const root = shown({ title: "Model", dims: [{ ...dims[0], clash: true }, ...dims.slice(1)], rows });
    expect(root.querySelector("details")!.open).toBe(true);
    const all = root.querySelector('button[data-do="all"]')!,
      chips = [...root.querySelectorAll<HTMLElement>("[data-dim]")];
    expect(all.getAttribute("aria-pressed")).toBe("false");
    chips[0]!.dispatchEvent(new KeyboardEvent("keydown", { key: "End", bubbles: true }));
    expect(document.activeElement).toBe(chips.at(-1));
    expect([all.getAttribute("aria-pressed"), !!root.querySelector(".rfnb-dims-whole")]).toEqual(["true", true]);
  });
});

describe("repeats and values", () => {
  const root = document.createElement("div");
  document.body.append(root);
  const view = showIn(root);
  afterEach(() => view.destroy());
  const heading = (label: string) => ({ label, indent: 0, dims: [] });
  const weight = { label: "weight", indent: 1, dims: [0], dtype: "float32" };
  const dims = [
    { name: "model", size: 2, lengths: null, kind: null, id: 0, origin: "time / 4, rounded up; made at a.py:1" },
  ];

  it("folds what is alike, and opens it by a button that says so", () => {
    const rows = ["0", "1", "2"].flatMap((label) => [heading(label), weight]);
    const head = { title: "", live: false, dims, rows, folds: [{ first: 0, rows: 2, count: 3 }] };
    view.update({ kind: "dims", head: head as unknown as DimsHead, blocks: {} });
    const shown = () => root.querySelectorAll("tbody tr").length;
    expect(shown()).toBe(2);
    const button = () => root.querySelector<HTMLButtonElement>("[data-fold]")!;
    expect(button().getAttribute("aria-label")).toBe("× 3: 0 to 2 are alike");
    button().click();
    expect([shown(), button().getAttribute("aria-expanded")]).toEqual([6, "true"]);
    button().click();
    expect(shown()).toBe(2);
    expect(root.querySelector("li")!.textContent).toContain("time / 4, rounded up");
  });

  it("shows the values of a small tensor where they are, and none past the end of a sequence", () => {
    const head = { title: "", live: false, dims: [dims[0]!, { ...dims[0]!, name: "time", id: 1 }], rows: [] };
    const table = { dims: [0, 1], block: "v", real: "r" };
    const block = (...data: number[]) => exactBlock(new Float32Array(data), [2, 2]);
    view.update({
      kind: "dims",
      head: { ...head, table } as unknown as DimsHead,
      blocks: { v: block(1, NaN, 3, 99), r: block(1, 1, 1, 0) },
    });
    const cells = [...root.querySelectorAll(".rfnb-dims-values-table tr")].map((row) =>
      [...row.children].map((cell) => cell.textContent),
    );
    expect(cells).toEqual([
      ["time →", "0", "1"],
      ["model 0", "1", "NaN"],
      ["model 1", "3", ""],
    ]);
  });

  it("says that folded rows are not there", () => {
    expect(problem({ title: "", live: false, dims: [], rows: [], folds: [{ first: 0, rows: 1, count: 2 }] })).toBe(
      "These dims cannot be drawn: rows are folded that are not there.",
    );
  });
});

it("calls the coordinates of a vocabulary by its labels", () => {
  const frame = {
    kind: "dims",
    head: { table: { dims: [1, 2], block: "v", real: "r", labels: { "1": ["a", " b"] } } } as unknown as DimsHead,
    blocks: { v: exactBlock(Float32Array.of(0, 1, 2, 3), [2, 2]), r: exactBlock(Uint8Array.of(1, 1, 1, 0), [2, 2]) },
  };
  const names = new Map([
    [1, "batch"],
    [2, "letters"],
  ]);
  expect(valueTables(frame, names)).toEqual([
    {
      title: "",
      rows: [
        ["letters →", "a", "␣b"],
        ["batch 0", "0", "1"],
        ["batch 1", "2", ""],
      ],
    },
  ]);
});
