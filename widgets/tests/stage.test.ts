import { afterEach, describe, expect, it, vi } from "vitest";
import small from "../../tests/viz/fixtures/attention_small.json";
import { asked, textBefore, upTo } from "../src/group/stage";
import type { AnyHead } from "../src/frame";
import { fromJson } from "../src/frame";
import { busOf } from "../src/selection";
import { showIn } from "../src/mount";

HTMLCanvasElement.prototype.getContext = () => null; // jsdom has no canvas
HTMLElement.prototype.showPopover = HTMLElement.prototype.hidePopover = () => {};

const group = () => {
  const { kind, head, blocks } = fromJson<AnyHead>(small);
  return {
    kind: "group",
    head: { title: "all", live: false, link: "stage", parts: [{ kind, head: { ...head, axis: "out" } }] } as AnyHead,
    blocks: Object.fromEntries(Object.entries(blocks).map(([name, block]) => [`0/${name}`, block])),
  };
};
const opened = () => {
  const root = document.createElement("div");
  document.body.append(root);
  const shown = showIn(root);
  shown.update(group());
  return { root, shown };
};
const press = (root: Element, key: string, target: Element = root) =>
  target.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));

afterEach(() => {
  document.body.replaceChildren();
  globalThis.location.hash = "";
  busOf("stage", "out").point({ step: null, seq: null }, {});
});

describe("an address", () => {
  it("names a step from 0, a hypothesis from 1, a view and the stage; what is none of these is nothing", () => {
    expect(asked("#step=4&hyp=2")).toEqual({ step: 4, hyp: 2, view: null, stage: false });
    expect(asked("#view=1&stage")).toEqual({ step: null, hyp: null, view: 1, stage: true });
    expect(asked("#step=-1&hyp=0&view=x")).toEqual({ step: null, hyp: null, view: null, stage: false });
    expect(asked("#step=&hyp=1e1&view=%E0%A4%A")).toEqual({ step: null, hyp: null, view: null, stage: false });
    expect(asked("#step=0x3&step=2&hyp=+2&&=")).toEqual({ step: null, hyp: null, view: null, stage: false });
    expect(asked("#a-heading")).toEqual({ step: null, hyp: null, view: null, stage: false });
  });

  it("opens a page at a step, and follows when it changes; a step that is not there is left alone", () => {
    globalThis.location.hash = "#step=1";
    const { shown } = opened(),
      bus = busOf("stage", "out");
    expect(bus.now.step).toBe(1);
    globalThis.location.hash = "#step=99";
    globalThis.dispatchEvent(new Event("hashchange"));
    expect(bus.now.step).toBe(1);
    globalThis.location.hash = "#step=0";
    globalThis.dispatchEvent(new Event("hashchange"));
    expect(bus.now.step).toBe(0);
    shown.destroy();
  });
});

describe("what comes next", () => {
  it("is left out of views over the same axis, and of no others", () => {
    const frame = fromJson<AnyHead & { seqs: { rows: string[]; row_len: number }[] }>(small);
    frame.head.axis = "out";
    const [before] = frame.head.seqs;
    const { head } = upTo(frame, 0, "out");
    expect([head.seqs[0]!.row_len, head.seqs[0]!.rows]).toEqual([1, [before!.rows[0]]]);
    expect(before!.rows.length).toBeGreaterThan(1); // the frame itself stays
    expect(upTo(frame, 0, "letters")).toBe(frame);
  });

  it("of a search: its steps, its winner and what would tell of them", () => {
    const step = (token: string) => ({ tokens: [token], parents: [0], scores: [-1], ended: [false], states: [null] });
    const seq = {
      label: "s",
      steps: [step("a"), step("b"), step("c")],
      best: [
        [0, 0],
        [1, 0],
        [2, 0],
      ],
      result: "a b c",
      smaller: [],
    };
    const frame = { kind: "beams", head: { title: "t", live: false, axis: "out", seqs: [seq] } as AnyHead, blocks: {} };
    const [made] = (upTo(frame, 1, "out").head as unknown as { seqs: (typeof seq)[] }).seqs;
    expect(made!.steps.map(({ tokens }) => tokens[0])).toEqual(["a", "b"]);
    expect([made!.best.length, made!.result, "smaller" in made!, "states" in made!.steps[0]!]).toEqual([
      2,
      "",
      false,
      false,
    ]);
  });
});

describe("the stage", () => {
  it("opens and leaves by f, steps by arrows, hides and reveals, and shows one view by its digit", async () => {
    const { root, shown } = opened(),
      ticks = () => [...root.querySelectorAll(".rfnb-stage-tick")].map(({ textContent }) => textContent),
      map = () => root.querySelector<HTMLElement>('[data-kind="attention"]')!;
    press(root, "ArrowRight");
    expect(root.querySelector(".rfnb-stage-tick")).toBeNull(); // keys are its own only while it is open
    press(root, "f");
    expect(root.classList.contains("rfnb-on-stage")).toBe(true);
    const labels = ticks();
    expect(labels.length).toBeGreaterThan(2);
    press(root, "ArrowRight");
    expect(root.querySelector('.rfnb-stage-tick[aria-selected="true"]')!.textContent).toBe(labels[1]);
    const whole = map().dataset["step"];
    press(root, ".");
    // The views have no sizes yet: what they hide would be missing in these.
    expect([ticks(), root.querySelectorAll("[data-fitted]").length]).toEqual([labels, 0]);
    await vi.waitFor(() => expect(ticks()).toEqual([labels[0], labels[1], ...labels.slice(2).map(() => "?")]));
    expect(root.querySelectorAll("[data-fits]:not([data-fitted])").length).toBe(0);
    expect(map().dataset["step"]).toBe("1"); // the map has no later row
    press(root, "ArrowRight");
    expect(ticks()[2]).toBe(labels[2]);
    press(root, ".");
    expect([ticks(), map().dataset["step"]]).toEqual([labels, whole]);
    press(root, "End");
    press(root, "ArrowRight");
    expect(root.dataset["stageStep"]).toBe(String(labels.length - 1));
    press(root, "Escape");
    expect([root.classList.contains("rfnb-on-stage"), root.querySelector(".rfnb-stage-bar")]).toEqual([false, null]);
    shown.destroy();
  });

  it("leaves keys to fields", () => {
    const { root, shown } = opened(),
      field = root.appendChild(document.createElement("input"));
    press(root, "f", field);
    expect(root.classList.contains("rfnb-on-stage")).toBe(false);
    shown.destroy();
  });

  it("has the text of the notebook before its cell as notes", () => {
    document.body.innerHTML =
      '<div class="jp-Cell jp-MarkdownCell"><div class="jp-RenderedMarkdown">Ask them first.</div></div>' +
      '<div class="jp-Cell jp-CodeCell"><i></i></div>';
    const text = document.querySelector<HTMLElement>(".jp-RenderedMarkdown")!;
    Object.defineProperty(text, "innerText", { value: text.textContent }); // jsdom has no layout
    expect(textBefore(document.querySelector("i")!)).toBe("Ask them first.");
    expect(textBefore(document.body)).toBe("");
  });
});
