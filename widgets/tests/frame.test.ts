import { beforeEach, describe, expect, it } from "vitest";
import { css, diverging, lightness, sequential } from "../src/color";
import { unpack } from "../src/frame";
import { drawn, shorten, stride } from "../src/labels";
import { mount } from "../src/mount";
import { exact, short } from "../src/number";
import { busOf } from "../src/selection";
import { isDark } from "../src/theme";
import { pick } from "../src/group/render";
import { exactBlock } from "../src/block";
import type { Part } from "./packing";
import { pack } from "./packing";
import coded from "../../tests/viz/fixtures/coded.json";

HTMLCanvasElement.prototype.getContext = () => null; // jsdom has no canvas

const bytesOf = (array: Float32Array | Int32Array) => new Uint8Array(array.buffer);

describe("a frame", () => {
  const packed = pack(
    "states",
    { title: "ä" },
    {
      a: { dtype: "u8", shape: [3], bytes: Uint8Array.from([1, 2, 3]) },
      b: { dtype: "f32", shape: [2, 1], bytes: bytesOf(Float32Array.from([0.5, NaN])) },
      c: { dtype: "i32", shape: [0, 4], bytes: new Uint8Array() },
    },
  );

  it("gives head and blocks back, also from an unaligned view", () => {
    const moved = new Uint8Array(packed.length + 3);
    moved.set(packed, 3);
    for (const view of [packed, new DataView(moved.buffer, 3, packed.length)]) {
      const { kind, head, blocks } = unpack(view);
      expect([kind, head]).toEqual(["states", { title: "ä" }]);
      expect([...blocks["a"]!.data]).toEqual([1, 2, 3]);
      expect([...blocks["b"]!.data]).toEqual([0.5, NaN]);
      expect([blocks["c"]!.data.length, blocks["c"]!.shape]).toEqual([0, [0, 4]]);
    }
  });

  it("is refused with a sentence if it is none", () => {
    expect(() => unpack(new Uint8Array())).toThrow("There is no data yet.");
    expect(() => unpack(pack("states", {}, {}, { version: 1 }))).toThrow("This data is from another version of rfnb.");
    expect(() => unpack(packed.subarray(0, packed.length - 8))).toThrow("Block b is cut off.");
  });

  it("is inflated where it is deflated, also its head", () => {
    const values = Float32Array.from({ length: 500 }, (_, index) => index % 7);
    const block = { dtype: "f32", shape: [1, 20, 25], bytes: bytesOf(values), deflated: true };
    const short = pack("states", { title: "a".repeat(500) }, { a: block }, { deflated: true });
    expect(short.length).toBeLessThan(500);
    const { head, blocks } = unpack(short);
    expect(head.title).toBe("a".repeat(500));
    expect([...blocks["a"]!.data]).toEqual([...values]);
    expect(blocks["a"]!.at(0, 2, 3)).toBe(53 % 7);
  });

  it("says the same as Python of coded and pooled blocks", () => {
    const bytes = Uint8Array.from(atob(coded.frame), (letter) => letter.charCodeAt(0));
    const { blocks } = unpack(bytes);
    expect(Object.keys(blocks)).toEqual(Object.keys(coded.values));
    for (const [name, rows] of Object.entries(coded.values)) {
      const { shape, value, at, exact } = blocks[name]!;
      const wanted = rows.map((text) => Number(text)); // NaN and infinities too
      expect(exact).toBe(name === "exact");
      expect(wanted.map((_, index) => value(index))).toEqual(wanted);
      const [, two = 1, three = 1] = shape;
      const where = (index: number): [number, number, number] => [
        Math.floor(index / (two * three)),
        Math.floor(index / three) % two,
        index % three,
      ];
      expect(wanted.map((_, index) => at(...where(index)))).toEqual(wanted);
    }
  });

  const zeros: Part = { dtype: "f32", shape: [10000], bytes: new Uint8Array(40000), deflated: true };
  const lies: [string, Partial<Part>, string][] = [
    ["a block that is longer than it says", { shape: [100] }, "Block b is not as long as it says."],
    ["a block that is shorter than it says", { shape: [10001] }, "Block b is not as long as it says."],
    ["a block that cannot be so long", { shape: [1e6] }, "Block b claims an impossible size."],
    ["a block that no page has room for", { shape: [1e6, 1e6] }, "Block b is too large for a page."],
    ["a shape that is none", { shape: [-1, -1] }, "Block b has no shape."],
    ["factors that are none", { code: { kind: "sqrt", low: 0, high: 1 }, pool: [0] }, "Block b has no shape."],
    ["bytes that are too few", { deflated: false, shape: [10001] }, "Block b is cut off."],
    ["bytes that are not there", { deflated: false, size: 50000 }, "Block b is cut off."],
    ["an unknown code", { code: { kind: "cube", low: 0, high: 1 }, shape: [40000] }, "cannot read"],
    ["an unknown type", { dtype: "f16" }, "unknown type f16"],
  ];
  it.each(lies)("is refused with a sentence for %s", (_, lie, words) => {
    expect(unpack(pack("states", {}, { b: zeros })).blocks["b"]!.shape).toEqual([10000]);
    expect(() => unpack(pack("states", {}, { b: { ...zeros, ...lie } }))).toThrow(words);
  });

  it("is refused with a sentence for a head that is no head", () => {
    expect(() => unpack(pack("states", {}, {}, { deflated: true, size: 2 ** 31 }))).toThrow(
      "The head claims an impossible size",
    );
    const broken = pack("states", { title: "a".repeat(99) }, {}, { deflated: true });
    broken.fill(255, 20);
    expect(() => unpack(broken)).toThrow("The head cannot be inflated.");
  });
});

describe("the mount", () => {
  let el: HTMLElement;
  beforeEach(() => {
    document.body.replaceChildren((el = document.createElement("div")));
  });

  it.each([
    ["nothing", new Uint8Array(), "There is no data yet."],
    ["an unknown kind", pack("pie", {}), 'no view "pie"'],
    ["a broken head", pack("attention", { maps: 3 }), "no list of maps"],
  ])("says what is wrong with %s", (_, bytes, words) => {
    mount(el, bytes);
    expect(el.querySelector("[role=alert]")!.textContent).toContain(words);
  });

  it("takes its elements away", () => {
    mount(el, pack("group", { title: "t", parts: [] })).destroy();
    expect(el.childElementCount).toBe(0);
  });

  it("shows the parts of a group, with their own blocks", () => {
    mount(
      el,
      pack("group", {
        title: "all",
        live: true,
        parts: [{ kind: "states", head: { title: "one", live: true, tracks: [], seqs: [] } }],
      }),
    );
    expect(el.querySelector(".rfnb-part")!.getAttribute("data-kind")).toBe("states");
    expect(
      Object.keys(pick({ "0/a": exactBlock(new Uint8Array(), [0]), "1/b": exactBlock(new Uint8Array(), [0]) }, "1/")),
    ).toEqual(["b"]);
  });

  it("keeps host shortcuts away", () => {
    mount(el, new Uint8Array());
    expect(el.querySelector(".rfnb-root")!.hasAttribute("data-lm-suppress-shortcuts")).toBe(true);
  });
});

describe("the selection", () => {
  it("reaches the linked views, and nobody hears the same twice", () => {
    const [bus, same, other] = [busOf("x"), busOf("x"), busOf("y")];
    const heard: unknown[] = [];
    const end = same.listen((selection, origin) => heard.push([selection, origin]));
    other.listen(() => heard.push("other"));
    const me = {};
    bus.point({ step: 3 }, me);
    bus.point({ step: 3 }, me);
    bus.point({ seq: 1 }, me);
    end();
    bus.point({ step: 5 }, me);
    expect(heard).toEqual([
      [{ seq: null, head: null, hypothesis: null, step: 3, lost: false }, me],
      [{ seq: 1, head: null, hypothesis: null, step: 3, lost: false }, me],
    ]);
  });
});

describe("the selection on several axes", () => {
  it("shares the sequence, not the step", () => {
    const [target, source] = [busOf("axes", ""), busOf("axes", "letters")];
    const heard: unknown[] = [];
    source.listen((selection) => heard.push(selection));
    target.point({ step: 3 }, {});
    target.point({ seq: 1 }, {});
    source.point({ step: 7 }, {});
    expect(heard).toEqual([
      { seq: 1, head: null, hypothesis: null, step: null, lost: false },
      { seq: 1, head: null, hypothesis: null, step: 7, lost: false },
    ]);
    expect(target.now).toEqual({ seq: 1, head: null, hypothesis: null, step: 3, lost: false });
  });
});

describe("numbers", () => {
  it.each([
    [0.1, "0.1"],
    [1 / 3, "0.33333334"],
    [0, "0"],
    [-0.75, "−0.75"],
    [1e-20, "1e−20"],
    [16777216, "16777216"],
    [NaN, "NaN"],
    [-Infinity, "−∞"],
  ])("%d is the float32 %s", (value, text) => {
    expect(exact(Math.fround(value))).toBe(text);
  });

  it("are exact for any float32", () => {
    for (let index = 0; index < 2000; index++) {
      const value = Math.fround(Math.sin(index) * 10 ** ((index % 30) - 15));
      expect(Math.fround(Number(exact(value).replaceAll("−", "-")))).toBe(value);
    }
  });

  it("have three digits in labels", () => {
    expect([short(0.12345), short(-12.345), short(0), short(1e-7)]).toEqual(["0.123", "−12.3", "0", "1.0e−7"]);
  });
});

describe("labels", () => {
  it("show what is invisible and cut what is long", () => {
    expect([shorten(""), shorten(" "), shorten("a\nb"), shorten("abcdef", 4), shorten("👩‍🚀👩‍🚀", 9)]).toEqual([
      "∅",
      "␣",
      "a⏎b",
      "abc…",
      "👩‍🚀👩‍🚀",
    ]);
  });

  it("are thinned to even steps", () => {
    expect([stride(20, 12), stride(8, 12), stride(0.5, 12), stride(0.1, 12)]).toEqual([1, 2, 50, 200]);
    expect(drawn(12, 5, 12)).toEqual([0, 5, 10]);
  });
});

describe("colours", () => {
  it.each([[false], [true]])("run evenly away from the paper (dark: %s)", (dark) => {
    const steps = Array.from({ length: 33 }, (_, index) => lightness(sequential(dark), index / 32));
    const change = steps.slice(1).map((value, index) => (value - steps[index]!) * (dark ? 1 : -1));
    expect(Math.min(...change)).toBeGreaterThan(0.005);
    expect(Math.max(...change)).toBeLessThan(0.05);
  });

  it("are symmetric in lightness around zero", () => {
    for (const dark of [false, true])
      for (const at of [0, 0.25])
        expect(Math.abs(lightness(diverging(dark), at) - lightness(diverging(dark), 1 - at))).toBeLessThan(0.06);
    expect(css(diverging(false), 0.5)).toMatch(/^rgb\(24\d, 24\d, 24\d\)$/);
  });

  it("follow the paper", () => {
    expect([isDark("#111"), isDark("rgb(255, 255, 255)"), isDark("rgba(17,17,17,.9)"), isDark("white")]).toEqual([
      true,
      false,
      true,
      false,
    ]);
  });
});
