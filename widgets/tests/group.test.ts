import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { exactBlock } from "../src/block";
import type { ExactOf } from "../src/exact_values";
import { NO_KERNEL } from "../src/exact_values";
import type { Frame } from "../src/frame";
import { showIn } from "../src/mount";

HTMLCanvasElement.prototype.getContext = () => null; // jsdom has no canvas

const NAMES = ["1: tongue", "2: a", "3: queue"];
const LENGTHS = [3, 1, 2];
type Part = { kind: string; head: Record<string, unknown>; blocks: Frame["blocks"] };

const steps = (tokens: string[]) => ({
  steps: tokens.map((token, step) => ({
    tokens: [token, `${token}'`],
    parents: step ? [0, 1] : [0, 0],
    scores: [-1 - step, -2 - step],
    ended: [false, false],
  })),
  best: tokens.map((_, step): [number, number] => [step, 0]),
});
const beams = (live = false): Part => ({
  kind: "beams",
  head: {
    key: "beams", title: "Beam search", live, batch: "", axis: "t",
    seqs: NAMES.map((label, seq) => ({ label, result: `R${seq}`, ...steps(["x", "y", "z"].slice(0, LENGTHS[seq])) })),
  },
  blocks: {},
}); // prettier-ignore
const attention = (batch = "", labels = NAMES): Part => ({
  kind: "attention",
  head: {
    key: `attention ${batch}`, title: "Attention, best hypothesis", batch, axis: "t", best: true,
    maps: [{ label: "w", row_dim: { name: "step" }, col_dim: { name: "s" }, block: "map0", slots: "map0/slots", before: true, seqs: labels.map((_, seq) => seq), at: [0, 0], notes: batch ? {} : { 2: "weight on padding" } }],
    layers: [""], heads: [""], range: [0, 1],
    seqs: labels.map((label, seq) => ({ label, rows: ["x", "y", "z"].slice(0, LENGTHS[seq]), cols: ["p", "q"], row_len: LENGTHS[seq], col_len: 2 })),
  },
  blocks: {
    map0: exactBlock(new Float32Array(labels.length * 6).fill(0.5), [labels.length, 3, 2]),
    "map0/slots": exactBlock(Float32Array.from({ length: labels.length * 12 }, (_, at) => at), [labels.length, 3, 2, 2]),
  },
}); // prettier-ignore
const states = (): Part => ({
  kind: "states",
  head: {
    key: "states", title: "States", batch: "", axis: "letters", step_dim: { name: "letters" },
    tracks: [{ label: "h", unit_dim: { name: "u" }, block: "track0", range: [-1, 1] }],
    seqs: NAMES.map((label, seq) => ({ label, steps: ["a", "b", "c"].slice(0, LENGTHS[seq]), len: LENGTHS[seq] })),
    orders: [],
  },
  blocks: { track0: exactBlock(new Float32Array(18), [3, 3, 2]) },
}); // prettier-ignore

let links = 0;
const frameOf = (link: string, ...parts: Part[]): Frame => ({
  kind: "group",
  head: {
    title: "G2P: beam search",
    link,
    batch: "",
    parts: parts.map(({ kind, head }) => ({ kind, head })),
  } as Frame["head"],
  blocks: Object.fromEntries(
    parts.flatMap(({ blocks }, index) => Object.entries(blocks).map(([name, block]) => [`${index}/${name}`, block])),
  ),
});

describe("the page of a recording", () => {
  let root: HTMLElement, link: string, shown: ReturnType<typeof showIn>;
  const show = (...parts: Part[]) => shown.update(frameOf(link, ...parts));
  const part = (kind: string) => root.querySelector<HTMLElement>(`[data-kind=${kind}]`)!;
  const seqs = () => [...root.querySelectorAll<HTMLElement>(".rfnb-part")].map(({ dataset }) => dataset["seq"]);
  const chooser = (name = "sequence", of: Element = root) =>
    of.querySelector<HTMLSelectElement>(`select[aria-label=${name}]`)!;
  const texts = (select: HTMLSelectElement) => [...select.options].map(({ textContent }) => textContent);
  const options = () => [...root.querySelectorAll<HTMLElement>("[role=option]")];
  const change = (select: HTMLSelectElement, index: number) => {
    select.selectedIndex = index;
    select.dispatchEvent(new Event("change"));
  };
  const settled = async () => {
    for (let turn = 0; turn < 8; turn++) await Promise.resolve();
  };
  const open = (exact: ExactOf = NO_KERNEL) => {
    document.body.append((root = document.createElement("div")));
    link = `page ${++links}`;
    shown = showIn(root, exact);
  };
  beforeEach(() => open());
  afterEach(() => {
    shown.destroy();
    root.remove();
  });

  it("has the views of a run in the order of its frame, whenever they come, and folds what is folded", () => {
    const kinds = () => [...root.querySelectorAll<HTMLElement>(".rfnb-part")].map(({ dataset }) => dataset["kind"]);
    const ordered = (...parts: Part[]) => {
      const frame = frameOf(link, ...parts);
      shown.update({ ...frame, head: { ...frame.head, ordered: true } as Frame["head"] });
    };
    const folded: Part = { ...states(), head: { ...states().head, folded: true } };
    ordered(folded);
    expect(kinds()).toEqual(["states"]);
    const details = root.querySelector("details")!;
    expect([details.open, details.querySelector("summary")!.textContent]).toEqual([false, states().head["title"]]);
    details.open = true;
    ordered(beams(true), attention(), folded);
    expect(kinds()).toEqual(["beams", "attention", "states"]);
    expect([root.querySelector("details"), details.open]).toEqual([details, true]);
  });

  it("has one chooser for all its views, in words, and marks what is wrong", () => {
    show(beams(), attention(), states());
    expect(texts(chooser())).toEqual(["1: tongue", "2: a", "3: queue !"]);
    const own = [...root.querySelectorAll(".rfnb-part select[aria-label=sequence]")] as HTMLSelectElement[];
    expect([own.length, own.every(({ hidden }) => hidden)]).toEqual([3, true]);
    change(chooser(), 2);
    expect(seqs()).toEqual(["2", "2", "2"]);
  });

  it("shows all sequences with what was found for each; a click or a key chooses", () => {
    show(beams(), attention(), states());
    expect(options().map(({ title }) => title)).toEqual(["1: tongue: R0", "2: a: R1", "3: queue: R2"]);
    options()[1]!.click();
    expect([seqs(), chooser().value]).toEqual([["1", "1", "1"], "1"]);
    options()[1]!.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowRight", bubbles: true }));
    expect(seqs()).toEqual(["2", "2", "2"]);
    expect(options().map((option) => [option.getAttribute("aria-selected"), option.tabIndex])).toEqual([
      ["false", -1],
      ["false", -1],
      ["true", 0],
    ]);
    expect(document.activeElement).toBe(options()[2]);
  });

  it("leaves views of other sequences alone: the fifth of these is not the fifth of those", () => {
    show(beams(), attention(), attention("1", ["other 0", "other 1", "other 2"]));
    change(chooser(), 2);
    expect(seqs()).toEqual(["2", "2", "0"]);
    const own = chooser("sequence", root.querySelectorAll(".rfnb-part")[2]);
    expect([own.hidden, texts(own)]).toEqual([false, ["other 0", "other 1", "other 2"]]);
    change(own, 1);
    expect(seqs()).toEqual(["2", "2", "1"]);
  });

  it("counts the sequences where its views call them by different names", () => {
    show(states(), attention("", ["1: tongue", "2: b", "3: queue"]));
    expect(texts(chooser())).toEqual(["1: tongue", "2", "3: queue !"]);
  });

  it("has the views of a recording that is over in the order of its frame, whatever else was shown of it", () => {
    const kinds = () => [...root.querySelectorAll<HTMLElement>(".rfnb-part")].map(({ dataset }) => dataset["kind"]);
    show(attention()); // another output of the same page, of some of it
    const other = showIn(document.createElement("div"));
    show(beams(), attention(), states());
    expect(kinds()).toEqual(["beams", "attention", "states"]);
    other.destroy();
  });

  it("lists many views by name, and opens the one that is asked for", () => {
    const contents = () => root.querySelector<HTMLElement>(".rfnb-group-contents")!,
      folded: Part = { ...states(), head: { ...states().head, folded: true, key: "others" } };
    show(beams(), attention(), states());
    expect(contents().hidden).toBe(true); // three are seen without
    show(beams(), attention(), states(), folded);
    const names = [...contents().querySelectorAll("button")];
    expect([contents().hidden, names.map(({ title }) => title)]).toEqual([
      false,
      [beams(), attention(), states(), folded].map(({ head }) => head["title"]),
    ]);
    const scrolled: Element[] = [];
    Element.prototype.scrollIntoView = function (this: Element) {
      scrolled.push(this);
    };
    names[3]!.click();
    expect(scrolled).toEqual([root.querySelector("details")]);
    expect(root.querySelector("details")!.open).toBe(true);
  });

  it("keeps views where they are and as they are when others come before them", () => {
    const live = (...parts: Part[]) => {
      const frame = frameOf(link, ...parts);
      shown.update({ ...frame, head: { ...frame.head, live: true } });
    };
    live(attention());
    const there = part("attention");
    options()[2]!.click();
    live(beams(true), attention(), states());
    expect([...root.querySelectorAll<HTMLElement>(".rfnb-part")].map(({ dataset }) => dataset["kind"])).toEqual([
      "attention", "beams", "states",
    ]); // prettier-ignore
    expect(part("attention")).toBe(there);
    expect([seqs(), chooser().value]).toEqual([["2", "2", "2"], "2"]);
    const kinds = () => [...root.querySelectorAll<HTMLElement>(".rfnb-part")].map(({ dataset }) => dataset["kind"]);
    const before = kinds();
    shown.destroy(); // as JupyterLab does when the stored output is replaced
    shown = showIn(root);
    show(beams(), attention(), states());
    expect([kinds(), seqs(), chooser().value]).toEqual([before, ["2", "2", "2"], "2"]);
  });

  it("asks the kernel for the blocks of a view by its place of now", async () => {
    const asked: string[] = [];
    root.remove();
    open({ now: () => null, ask: ({ block }) => (asked.push(block), Promise.resolve(null)) });
    const far = attention();
    delete far.blocks["map0/slots"];
    show(far);
    show(beams(), far);
    change(chooser("hypothesis"), 1);
    await settled();
    expect(asked).toEqual(["1/map0/slots"]);
  });

  it("lets choose a hypothesis, which all its views follow", async () => {
    show(beams(), attention());
    expect(texts(chooser("hypothesis"))).toEqual(["best: x y z", "2: x' y' z'"]);
    change(chooser("hypothesis"), 1);
    await settled();
    expect(part("attention").dataset["hypothesis"]).toBe("x' y' z'");
    expect(part("beams").dataset["followed"]).toBe("2,1");
    change(chooser("hypothesis"), 0);
    await settled();
    expect([part("attention").dataset["hypothesis"], part("beams").dataset["followed"]]).toEqual(["", ""]);
    part("beams").querySelectorAll<HTMLButtonElement>(".rfnb-beams-pick")[1]!.click();
    expect(chooser("hypothesis").selectedIndex).toBe(1);
    change(chooser(), 1); // another sequence has hypotheses of its own
    expect([chooser("hypothesis").selectedIndex, texts(chooser("hypothesis"))]).toEqual([0, ["best: x", "2: x'"]]);
  });

  it("ends pictures with the sequence, unless the padding is asked for or wrong", () => {
    show(attention(), states());
    const size = (kind: string) =>
      ["row", "col"].map((axis) => part(kind).querySelector("[role=grid]")!.getAttribute(`aria-${axis}count`));
    const point = () => {
      for (const kind of ["attention", "states"])
        part(kind)
          .querySelector("[role=grid]")!
          .dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowRight", bubbles: true }));
      return [size("attention"), size("states")];
    };
    const buttons = () =>
      [...root.querySelectorAll<HTMLButtonElement>("[data-do=padding]")].map(({ hidden }) => hidden);
    change(chooser(), 1);
    expect([point(), buttons()]).toEqual([[["1", "2"], ["3", "1"]], [false, false]]); // prettier-ignore
    for (const button of root.querySelectorAll<HTMLButtonElement>("[data-do=padding]")) button.click();
    expect(point()).toEqual([["3", "2"], ["3", "3"]]); // prettier-ignore
    for (const button of root.querySelectorAll<HTMLButtonElement>("[data-do=padding]")) button.click();
    change(chooser(), 2); // its attention is wrong there
    expect([point(), buttons()]).toEqual([[["3", "2"], ["3", "2"]], [true, false]]); // prettier-ignore
    change(chooser(), 0); // it has none
    expect(buttons()).toEqual([true, true]);
  });

  it("has no chooser for one sequence", () => {
    const one = states();
    one.head["seqs"] = (one.head["seqs"] as unknown[]).slice(0, 1);
    show(one);
    expect([root.querySelector(".rfnb-group-bar"), root.querySelector(".rfnb-batch")]).toEqual([null, null]);
  });
});
