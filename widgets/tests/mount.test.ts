import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { Head as AttentionHead } from "../src/attention/matrix";
import type { Frame } from "../src/frame";
import { fromJson } from "../src/frame";
import widget from "../src/index";
import { mount, showIn } from "../src/mount";
import { pack } from "./packing";
import { busOf } from "../src/selection";
import { views } from "../src/views";
import attention from "../../tests/viz/fixtures/attention_small.json";
import beams from "../../tests/viz/fixtures/beams_small.json";
import control from "../../tests/viz/fixtures/control_small.json";
import branches from "../../tests/viz/fixtures/branches_small.json";
import curves from "../../tests/viz/fixtures/curves_training.json";
import distribution from "../../tests/viz/fixtures/distribution_small.json";
import diff from "../../tests/viz/fixtures/diff_small.json";
import dims from "../../tests/viz/fixtures/dims_several.json";
import flow from "../../tests/viz/fixtures/flow_small.json";
import plan from "../../tests/viz/fixtures/plan_small.json";
import question from "../../tests/viz/fixtures/question_judged.json";
import states from "../../tests/viz/fixtures/states_small.json";

HTMLCanvasElement.prototype.getContext = () => null; // jsdom has no canvas

const FIXTURES: Record<string, unknown> = {
  attention,
  beams,
  branches,
  control,
  curves,
  diff,
  dims,
  distribution,
  flow,
  plan,
  question: question.specs.causal,
  states,
};

/** A frame of each kind; the group has all others as its parts, linked. */
function frameOf(kind: string, link = "test", more: Partial<AttentionHead> = {}): Frame {
  if (kind !== "group") {
    const frame = fromJson(FIXTURES[kind]),
      linked: Partial<AttentionHead> = { link, axis: "", col_axis: "source", ...more };
    return { ...frame, head: { ...frame.head, ...linked } };
  }
  const parts = Object.keys(FIXTURES).map((name) => frameOf(name, link));
  const blocks = Object.fromEntries(
    parts.flatMap((part, index) => Object.entries(part.blocks).map(([name, block]) => [`${index}/${name}`, block])),
  );
  const head = { title: "all", live: false, link, parts: parts.map(({ kind: of, head }) => ({ kind: of, head })) };
  return { kind, head, blocks };
}

/** What runs on by itself: animation frames, timers, observers, and listeners on what outlives a view. */
class Running {
  readonly frames = new Map<number, FrameRequestCallback>();
  readonly observers = new Set<object>();
  readonly media = new Set<unknown>();
  private count = 0;

  constructor() {
    vi.useFakeTimers();
    vi.stubGlobal("requestAnimationFrame", (work: FrameRequestCallback) => {
      this.frames.set(++this.count, work);
      return this.count;
    });
    vi.stubGlobal("cancelAnimationFrame", (id: number) => this.frames.delete(id));
    const { observers, media } = this;
    class Observer {
      constructor(readonly changed: () => void) {}
      observe() {
        observers.add(this);
      }
      disconnect() {
        observers.delete(this);
      }
      takeRecords() {
        return [];
      }
      unobserve() {}
    }
    vi.stubGlobal("ResizeObserver", Observer);
    vi.stubGlobal("MutationObserver", Observer);
    vi.stubGlobal("matchMedia", () => ({
      matches: false,
      addEventListener: (_: string, on: unknown) => media.add(on),
      removeEventListener: (_: string, on: unknown) => media.delete(on),
    }));
  }

  get left(): object {
    return {
      frames: this.frames.size,
      timers: vi.getTimerCount(),
      observers: this.observers.size,
      media: this.media.size,
    };
  }

  /** Everything that listens hears something, and what it asks for is done. */
  stir(): void {
    for (const observer of [...this.observers]) (observer as { changed(): void }).changed();
    for (const heard of [...this.media]) (heard as () => void)();
  }
}

const NOTHING = { frames: 0, timers: 0, observers: 0, media: 0 };

describe.each(Object.keys(views))("a destroyed view of %s", (kind) => {
  afterEach(() => {
    vi.unstubAllGlobals();
    vi.useRealTimers();
    vi.restoreAllMocks();
  });

  it("listens to nothing any more", () => {
    const running = new Running();
    const first = showIn(document.createElement("div")); // the selector engine of jsdom listens to the document from its first use on
    first.update(frameOf(kind));
    document.querySelector("*:focus");
    first.destroy();
    const outside = [window, document, document.body, document.documentElement].map((target) => ({
      target,
      added: vi.spyOn(target, "addEventListener"),
      removed: vi.spyOn(target, "removeEventListener"),
    }));
    const root = document.createElement("div");
    document.body.replaceChildren(root);
    const shown = showIn(root);
    shown.update(frameOf(kind));
    expect(root.childElementCount, "the view is there").toBeGreaterThan(0);
    expect(running.observers.size, "it follows the theme or its size").toBeGreaterThan(
      ["control", "dims", "flow", "plan", "question"].includes(kind) ? -1 : 0,
    );
    root.querySelector<HTMLElement>("[tabindex='0'], button")?.focus();
    vi.runAllTimers(); // jsdom has one for the focus
    running.stir();
    const elements = [...root.querySelectorAll("*")];
    shown.destroy();
    expect(running.left).toEqual(NOTHING);
    for (const { added, removed } of outside) expect(added.mock.calls.length).toBe(removed.mock.calls.length);
    for (const element of elements) element.dispatchEvent(new Event("blur")); // what goes with a focused element
    const before = JSON.stringify({ ...root.dataset });
    for (const axis of ["", "source"]) {
      for (const step of [0, 1, 2]) {
        busOf("test", axis).point({ seq: 1, step }, {});
        expect([root.childElementCount, JSON.stringify({ ...root.dataset })]).toEqual([0, before]);
      }
    }
    expect(running.left).toEqual(NOTHING);
  });
});

describe("the mount", () => {
  let running: Running;
  let el: HTMLElement;
  beforeEach(() => {
    running = new Running();
    document.body.replaceChildren((el = document.createElement("div")));
  });
  afterEach(() => {
    vi.unstubAllGlobals();
    vi.useRealTimers();
  });

  it("paints once for all that arrives before the next animation frame", () => {
    const mounted = mount(el, pack("group", { title: "a", parts: [] }));
    for (const title of ["b", "c", "d"]) mounted.update(pack("group", { title, parts: [] }));
    expect(el.textContent).toContain("a — nothing");
    expect(running.frames.size).toBe(1);
    for (const work of running.frames.values()) work(0);
    expect(el.textContent).toContain("d — nothing");
    expect(vi.getTimerCount()).toBe(0);
  });

  it("paints on a hidden page too, which gets no animation frames, and has no timer when nothing arrives", () => {
    const mounted = mount(el, pack("group", { title: "a", parts: [] }));
    expect(vi.getTimerCount()).toBe(0);
    mounted.update(pack("group", { title: "b", parts: [] }));
    vi.advanceTimersByTime(1000);
    expect(el.textContent).toContain("b — nothing");
    expect([vi.getTimerCount(), running.frames.size]).toEqual([0, 0]);
  });

  it("ends the view with itself", () => {
    const mounted = mount(el, pack("beams", beams.head));
    expect(running.left).not.toEqual(NOTHING);
    mounted.destroy();
    expect(running.left).toEqual(NOTHING);
  });

  it("ends a view of a group that is no longer a part of it", () => {
    const shown = showIn(el),
      empty = { kind: "group", head: { title: "none left", link: "test" }, blocks: {} };
    shown.update(empty);
    const own = running.left; // what the group itself watches
    shown.update(frameOf("group"));
    expect(running.left).not.toEqual(own);
    shown.update(empty);
    expect(running.left).toEqual(own);
    shown.destroy();
    expect(running.left).toEqual(NOTHING);
  });

  it("follows the frames of a widget's model until the widget goes", () => {
    const listeners = new Map<string, () => void>();
    let frame = pack("group", { title: "a", parts: [] });
    const model = {
      get: () => frame,
      on: (event: string, listener: () => void) => void listeners.set(event, listener),
      off: (event: string, listener: () => void) => void (listeners.get(event) === listener && listeners.delete(event)),
    };
    const end = widget.render({ model, el });
    frame = pack("beams", beams.head);
    listeners.get("change:value")!();
    vi.advanceTimersByTime(1000);
    expect(el.querySelector('[data-kind="beams"]')).not.toBeNull();
    end();
    expect([listeners.size, el.childElementCount]).toEqual([0, 0]);
    expect(running.left).toEqual(NOTHING);
  });

  it("paints nothing after its end", () => {
    const mounted = mount(el, pack("group", { title: "a", parts: [] }));
    mounted.update(pack("group", { title: "b", parts: [] }));
    mounted.destroy();
    expect(running.left).toEqual(NOTHING);
    expect(el.childElementCount).toBe(0);
  });

  it.each(["x", "m", "b", "ArrowDown", "Enter", "Escape", "M"])("keeps the plain key %s from the host", (key) => {
    mount(el, pack("group", { title: "a", parts: [] }));
    const heard: string[] = [];
    el.addEventListener("keydown", (event) => heard.push(event.key));
    const inner = el.querySelector(".rfnb-group-title")!;
    inner.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, shiftKey: key === "M" }));
    expect(heard).toEqual([]);
  });

  it.each(["ctrlKey", "metaKey", "altKey"])("leaves keys with %s to the host", (modifier) => {
    mount(el, pack("group", { title: "a", parts: [] }));
    const heard: string[] = [];
    el.addEventListener("keydown", (event) => heard.push(event.key));
    el.querySelector(".rfnb-group-title")!.dispatchEvent(
      new KeyboardEvent("keydown", { key: "s", bubbles: true, [modifier]: true }),
    );
    expect(heard).toEqual(["s"]);
  });
});

describe.each(["attention", "states"])("%s of the best hypothesis", (kind) => {
  const open = (best: boolean) => {
    const root = document.createElement("div");
    document.body.replaceChildren(root);
    const link = `${kind} ${best}`;
    showIn(root).update(frameOf(kind, link, { best }));
    return { root, bus: busOf(link), said: () => root.querySelector(".rfnb-readout")!.textContent };
  };

  it("marks nothing when another hypothesis is pointed at, and says why", () => {
    const { root, bus, said } = open(true);
    bus.point({ step: 1, lost: true }, {});
    expect([root.dataset["linked"], said()]).toEqual([
      "",
      "The hypothesis under the pointer is not shown here; a click on it shows it.",
    ]);
    bus.point({ step: 1, lost: false }, {});
    expect(root.dataset["linked"]).toBe("1");
    expect(said()).toContain("arrow keys");
  });

  it("marks the step of every hypothesis where it is the same for all", () => {
    const { root, bus } = open(false);
    bus.point({ step: 1, lost: true }, {});
    expect(root.dataset["linked"]).toBe("1");
  });
});

describe.each(["attention", "states", "beams"])("%s that begins with data that cannot be drawn", (kind) => {
  afterEach(() => vi.unstubAllGlobals());

  it("follows its size from the first picture on", () => {
    const running = new Running(),
      root = document.createElement("div"),
      shown = showIn(root);
    shown.update({ kind, head: { title: "nothing" }, blocks: {} });
    const before = running.observers.size;
    shown.update({ ...frameOf(kind), head: { ...frameOf(kind).head, link: "", axis: "" } });
    expect(running.observers.size).toBeGreaterThan(before);
    shown.destroy();
    vi.useRealTimers();
  });
});

describe.each(["+", "=", "-", "Escape"])("Ctrl and %s on a map", (key) => {
  it("is the host's where it is a shortcut", () => {
    const root = document.createElement("div");
    showIn(root).update(frameOf("attention"));
    const event = new KeyboardEvent("keydown", { key, ctrlKey: true, bubbles: true, cancelable: true });
    root.querySelector(".rfnb-pane")!.dispatchEvent(event);
    expect(event.defaultPrevented).toBe(false);
  });
});
