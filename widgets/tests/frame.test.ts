import { beforeEach, describe, expect, it } from "vitest";
import { css, diverging, lightness, sequential } from "../src/color";
import { unpack } from "../src/frame";
import { drawn, shorten, stride } from "../src/labels";
import { mount } from "../src/mount";
import { exact, short } from "../src/number";
import { busOf } from "../src/selection";
import { isDark } from "../src/theme";
import { pick } from "../src/group/render";

HTMLCanvasElement.prototype.getContext = () => null; // jsdom has no canvas

/** What `pack` in rfnb/viz/spec.py does. */
function pack(
  kind: string,
  head: object,
  blocks: Record<string, { dtype: string; shape: number[]; bytes: Uint8Array }> = {},
  version = 1,
): Uint8Array {
  let offset = 0;
  const table: Record<string, object> = {};
  const parts: Uint8Array[] = [];
  for (const [name, { dtype, shape, bytes }] of Object.entries(blocks)) {
    table[name] = { offset, dtype, shape };
    const padded = new Uint8Array(Math.ceil(bytes.length / 8) * 8);
    padded.set(bytes);
    parts.push(padded);
    offset += padded.length;
  }
  const text = new TextEncoder().encode(JSON.stringify({ kind, head, blocks: table }));
  const json = new Uint8Array(Math.ceil(text.length / 8) * 8).fill(32);
  json.set(text);
  const out = new Uint8Array(8 + json.length + offset);
  new DataView(out.buffer).setUint32(0, json.length, true);
  new DataView(out.buffer).setUint32(4, version, true);
  out.set(json, 8);
  let at = 8 + json.length;
  for (const part of parts) {
    out.set(part, at);
    at += part.length;
  }
  return out;
}

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
    expect(() => unpack(pack("states", {}, {}, 7))).toThrow("This data is from another version of rfnb.");
    expect(() => unpack(packed.subarray(0, packed.length - 8))).toThrow("Block b is cut off.");
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
      Object.keys(
        pick({ "0/a": { data: new Uint8Array(), shape: [0] }, "1/b": { data: new Uint8Array(), shape: [0] } }, "1/"),
      ),
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
      [{ seq: null, step: 3, lost: false }, me],
      [{ seq: 1, step: 3, lost: false }, me],
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
      { seq: 1, step: null, lost: false },
      { seq: 1, step: 7, lost: false },
    ]);
    expect(target.now).toEqual({ seq: 1, step: 3, lost: false });
  });
});

describe("numbers", () => {
  it.each([
    [0.1, "0.1"],
    [1 / 3, "0.33333334"],
    [0, "0"],
    [-0.75, "−0.75"],
    [1e-20, "1e-20"],
    [16777216, "16777216"],
    [NaN, "NaN"],
    [-Infinity, "−∞"],
  ])("%d is the float32 %s", (value, text) => {
    expect(exact(Math.fround(value))).toBe(text);
  });

  it("are exact for any float32", () => {
    for (let index = 0; index < 2000; index++) {
      const value = Math.fround(Math.sin(index) * 10 ** ((index % 30) - 15));
      expect(Math.fround(Number(exact(value).replace("−", "-")))).toBe(value);
    }
  });

  it("have three digits in labels", () => {
    expect([short(0.12345), short(-12.345), short(0), short(1e-7)]).toEqual(["0.123", "−12.3", "0", "1.0e-7"]);
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
