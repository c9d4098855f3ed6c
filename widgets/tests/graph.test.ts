import { afterEach, beforeEach, describe, expect, it } from "vitest";
import flowSmall from "../../tests/viz/fixtures/flow_small.json";
import small from "../../tests/viz/fixtures/plan_small.json";
import type { GraphHead } from "../src/graph/layout";
import { levelsOf, middleOf, pathOf, problem, scaleOf, sentence, trail, walk } from "../src/graph/layout";
import { showIn } from "../src/mount";

const head = small.head as unknown as GraphHead;
const graph = levelsOf(head)[0]!.graph;

describe("the layout", () => {
  it("walks from an op to what reads it and back", () => {
    expect(walk(graph, "op3", "ArrowDown")).toBe("op4");
    expect(walk(graph, "op3", "ArrowUp")).toBe("op1");
    expect(walk(graph, "result next h", "ArrowDown")).toBe("value0"); // the recurrence
    expect(walk(graph, "op6", "ArrowDown")).toBe("result stack 0");
    expect(walk(graph, "op3", "Tab")).toBeNull();
  });

  it("says what an op reads, where it is, and what reads it", () => {
    expect(sentence(graph, "op3")).toBe("#3 add [batch=3, hidden=4], from #1, #2, model.py:1; goes to #4 tanh");
    expect(sentence(graph, "value0")).toBe("state.h, next h of the step before; goes to #2 mul");
  });

  it("draws lines upright at their ends", () => {
    const path: [number, number][] = [
      [0, 0],
      [10, 20],
    ];
    expect(pathOf({ path, form: "steps" })).toBe("M0 0C0 10 10 10 10 20");
    expect(pathOf({ path, form: "lines" }, 5)).toBe("M5 0L15 20");
  });

  it("marks lines in their middle", () => {
    const path: [number, number][] = [
      [0, 0],
      [8, 0],
      [8, 16],
      [16, 16],
    ];
    expect(middleOf({ path, form: "bezier" })).toEqual([8, 8]);
    expect(middleOf({ path: path.slice(0, 2), form: "steps" })).toEqual([4, 0]);
    expect(middleOf({ path: path.slice(0, 3), form: "steps" })).toEqual([8, 0]);
  });

  it.each([
    [{}, "This graph cannot be drawn: its picture is missing."],
    [
      { graph: { ...graph, edges: [{ ...graph.edges[0]!, to: "x" }] } },
      "This graph cannot be drawn: a line goes from value1 to x, which are not both there.",
    ],
    ...[
      [[1]],
      [
        [1, 2],
        [3, null],
      ],
      [[1, 2], "x"],
      [
        [1, 2],
        [3, NaN],
      ],
    ].map(
      (path) =>
        [
          { graph: { ...graph, edges: [{ ...graph.edges[0]!, path }] } },
          `This graph cannot be drawn: the line from ${graph.edges[0]!.from} to ${graph.edges[0]!.to} has no path.`,
        ] as [object, string],
    ),
    [{ graph: { ...graph, width: NaN } }, "This graph cannot be drawn: it has no size."],
  ])("says what is wrong in a sentence", (wrong, words) => {
    expect(problem({ title: "", live: false, ...wrong } as GraphHead)).toBe(words);
  });
});

describe("in the page", () => {
  const root = document.createElement("div");
  document.body.append(root);
  const view = showIn(root);
  afterEach(() => view.destroy());
  const show = (other: object) =>
    view.update({ kind: "plan", head: { live: false, ...other } as GraphHead, blocks: {} });
  const node = (id: string) => root.querySelector<SVGGElement>(`[data-node="${id}"]`)!;

  it("marks what an op reads and what reads it, and reads it out", () => {
    show(head);
    node("op3").dispatchEvent(new FocusEvent("focusin", { bubbles: true }));
    const near = [...root.querySelectorAll<SVGGElement>("[data-node].rfnb-graph-near")].map((el) => el.dataset["node"]);
    expect(near.sort()).toEqual(["op1", "op2", "op3", "op4"]);
    expect(root.querySelector("[role=status]")!.textContent).toContain("#3 add");
  });

  it("shows a plan of too many ops as a table", () => {
    show({ ...head, graph: null });
    expect([...root.querySelectorAll("tr th")].map((cell) => cell.textContent)).toEqual([
      "#1 matmul",
      "#2 mul",
      "#3 add",
      "#4 tanh",
      "#5 softmax",
      "#6 mul",
    ]);
  });
});

describe("the flow of dims", () => {
  const root = document.createElement("div");
  document.body.append(root);
  const view = showIn(root);
  const flow = flowSmall.head as unknown as GraphHead;
  const levels = levelsOf(flow);
  const inner = levels[0]!.graph.nodes.find(({ opens }) => opens !== undefined)!;
  const node = (id: string) => root.querySelector<SVGGElement>(`[data-node="${id}"]`)!;
  const press = (id: string, key: string) =>
    node(id).dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
  const level = () => root.dataset["level"];
  beforeEach(() => {
    view.update({ kind: "flow", head: { ...flow, live: false }, blocks: {} });
  });

  it("has the levels from the whole down to one", () => {
    expect(levels.map(({ label, up }) => [label, up])).toEqual([
      ["all", null],
      ["blocks × 3", 0],
    ]);
    expect(trail(levels, 1)).toEqual([0, 1]);
    expect(trail([{ ...levels[0]!, up: 0 }], 0).length).toBeLessThan(3); // a circle ends
  });

  it("draws a line for each dim with its mark, ragged ones dashed", () => {
    const edge = levels[0]!.graph.edges[0]!;
    const line = root.querySelector(`[data-from="${edge.from}"][data-to="${edge.to}"]`)!;
    expect(line.querySelectorAll(".rfnb-graph-strand")).toHaveLength(edge.hues!.length);
    expect([...line.querySelectorAll("text")].map((text) => text.textContent)).toEqual(edge.glyphs);
    expect(line.querySelectorAll(".rfnb-graph-ragged")).toHaveLength(edge.ragged!.filter(Boolean).length);
  });

  it("greys nothing of what a click has opened, until the pointer moves", () => {
    const at = (node: string) => root.querySelector(`[data-node="${node}"]`)!,
      move = (node: string, movementX: number) =>
        at(node).dispatchEvent(Object.assign(new MouseEvent("pointermove", { bubbles: true }), { movementX }));
    const [first] = levels[1]!.graph.nodes;
    move(inner.id, 3);
    expect(root.dataset["cursor"]).toBe(inner.id);
    at(inner.id).dispatchEvent(new MouseEvent("click", { bubbles: true, detail: 1 }));
    move(first!.id, 0); // as a browser says when what lies under the pointer is another one
    expect([level(), root.dataset["cursor"]]).toEqual(["1", ""]);
    move(first!.id, 1);
    expect(root.dataset["cursor"]).toBe(first!.id);
    press(first!.id, "Escape");
  });

  it("is drawn larger where there is room, and never smaller", () => {
    const of = (width: number, height: number, room: number) =>
      scaleOf({ width, height, bands: [], nodes: [], edges: [] }, room);
    expect([of(160, 300, 800), of(700, 300, 840), of(160, 500, 800), of(2000, 300, 800), of(160, 900, 800)]).toEqual([
      1.6, 1.2, 1.12, 1, 1,
    ]);
  });

  it("opens a box by key and by click, and goes back to it", () => {
    press(inner.id, "Enter");
    expect(level()).toBe("1");
    expect(document.activeElement).toBe(root.querySelector("[data-node]"));
    press(levels[1]!.graph.nodes[0]!.id, "Escape");
    expect(level()).toBe("0");
    expect(document.activeElement).toBe(node(inner.id));
    node(inner.id).dispatchEvent(new MouseEvent("click", { bubbles: true }));
    const buttons = [...root.querySelectorAll<HTMLButtonElement>("button")];
    expect(buttons.map((button) => [button.textContent, button.getAttribute("aria-pressed")])).toEqual([
      ["all", "false"],
      ["blocks × 3", "true"],
    ]);
    buttons[0]!.click();
    expect(level()).toBe("0");
  });

  it("names the dims that are in the picture only, and says all in words", () => {
    press(inner.id, " ");
    expect([...root.querySelectorAll(".rfnb-graph-legend li")].map((item) => item.textContent)).toEqual([
      "bbatch=3",
      "ttime<=5",
      "ffeat=7",
      "mmodel=4",
    ]);
    expect([...root.querySelectorAll(".rfnb-graph-list li")].map((item) => item.textContent)).toEqual(
      levels[1]!.graph.nodes.map(({ words }) => words),
    );
    press(levels[1]!.graph.nodes[0]!.id, "Escape");
  });

  it("reads out what a station does, and where it goes", () => {
    const merge = levels[0]!.graph.nodes.find(({ lines }) => lines[0] === "merge_dims")!;
    node(merge.id).dispatchEvent(new FocusEvent("focusin", { bubbles: true }));
    expect(root.querySelector("[role=status]")!.textContent).toBe(
      "merge_dims: in [batch=3, time<=5, out=2]; out [batch=3, time * out<=10]; makes time * out<=10 of time<=5, out=2; goes to result",
    );
  });

  it.each([
    [{ up: 3 }, "This graph cannot be drawn: level 1 is in level 3."],
    [
      { graph: { ...levels[1]!.graph, nodes: [{ ...levels[1]!.graph.nodes[0]!, opens: 9 }] } },
      `This graph cannot be drawn: node ${levels[1]!.graph.nodes[0]!.id} opens to a level that is not there.`,
    ],
  ])("says what is wrong with a level", (wrong, words) => {
    expect(problem({ ...flow, levels: [levels[0]!, { ...levels[1]!, ...wrong }] })).toBe(words);
  });

  it("says that there are no calls", () => {
    const empty = { label: "all", up: null, graph: { width: 28, height: 28, bands: [], nodes: [], edges: [] } };
    const head = { title: "Flow", live: false, legend: [], levels: [empty] };
    view.update({ kind: "flow", head, blocks: {} });
    expect(root.querySelector("[role=status]")!.textContent).toBe("No calls were recorded.");
  });
});
