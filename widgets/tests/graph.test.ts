import { afterEach, describe, expect, it } from "vitest";
import small from "../../tests/viz/fixtures/plan_small.json";
import type { GraphHead } from "../src/graph/layout";
import { levelsOf, pathOf, problem, sentence, walk } from "../src/graph/layout";
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

  it.each([
    [{}, "This graph cannot be drawn: its picture is missing."],
    [
      { graph: { ...graph, edges: [{ ...graph.edges[0]!, to: "x" }] } },
      "This graph cannot be drawn: a line goes from value1 to x, which are not both there.",
    ],
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

  it("opens a box that stands for several, by click and by key", () => {
    const of = (shape: string, id: string) => ({ ...graph.nodes[0]!, id, shape });
    const level = (label: string, nodes: object[]) => ({ label, graph: { ...graph, bands: [], edges: [], nodes } });
    const levels = [
      level("folded", [of("fold", "layers")]),
      level("open", [of("op", "layers.0"), of("op", "layers.1")]),
    ];
    show({ title: "Flow", graph: undefined, levels });
    node("layers").dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", bubbles: true }));
    expect(root.dataset["level"]).toBe("1");
    expect(node("layers.1")).not.toBeNull();
  });
});
