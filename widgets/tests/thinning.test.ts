import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { exactBlock } from "../src/block";
import type { Head } from "../src/curves/layout";
import { bandOf, bandPath, curvesOf, odd, valueText, within } from "../src/curves/layout";
import { mount, showIn } from "../src/mount";
import type { Frame } from "../src/frame";
import { chance, percent, share, short } from "../src/number";
import { pack } from "./packing";

HTMLCanvasElement.prototype.getContext = () => null; // jsdom has no canvas

// Of 300 points: three stretches of 100, the second with nothing but NaN at its end, the third with none of a number.
const X = [0, 40, 60, 99, 100, 120, 130, 131, 199, 200, 299],
  Y = [1, -5, 9, 2, 3, 7, -1, NaN, NaN, NaN, NaN];
const HEAD: Head = {
  title: "thin",
  live: false,
  x: "step",
  thinned: "Of each 100 of 300 points ...",
  version: 3,
  series: [{ label: "loss", x: "x0", y: "y0", of: 300, every: 100, kept: "kept0", odd: ["NaN since step 131"] }],
};
const frame = (): Frame<Head> => ({
  kind: "curves",
  head: HEAD,
  blocks: {
    x0: exactBlock(Int32Array.from(X), [X.length]),
    y0: exactBlock(Float32Array.from(Y), [Y.length]),
    kept0: exactBlock(Uint8Array.from([4, 5, 2]), [3]),
  },
});
const part = (dtype: string, bytes: Int32Array | Float32Array | Uint8Array) => ({
  dtype,
  shape: [bytes.length],
  bytes: new Uint8Array(bytes.buffer),
});
const packed = (head: object, x: number[], y: number[], kept?: number[]) =>
  pack("curves", head, {
    x0: part("i32", Int32Array.from(x)),
    y0: part("f32", Float32Array.from(y)),
    ...(kept ? { kept0: part("u8", Uint8Array.from(kept)) } : {}),
  });

describe("a curve of which the page has less", () => {
  const [curve] = curvesOf(frame());

  it("is a band from the least to the largest of each stretch, which ends where numbers do", () => {
    expect(bandOf(curve!)).toEqual([
      { from: 0, to: 99, low: -5, high: 9 },
      { from: 100, to: 131, low: -1, high: 7 },
      { from: 200, to: 200, low: Infinity, high: -Infinity },
    ]);
    expect(
      bandPath(
        bandOf(curve!)!,
        (x) => x,
        (y) => -y,
      ),
    ).toBe("M0 -9L99 -9L100 -7L131 -7L131 1L100 1L99 5L0 5Z");
    expect(bandOf(within(curve!, [100, 150]))).toHaveLength(1);
  });

  it("says the range of a stretch where it has no point, and what is no number in all of them", () => {
    expect(valueText(curve!, "step", 40)).toBe("−5");
    expect(valueText(curve!, "step", 50)).toBe("−5 to 9 (step 0 to 99)");
    expect(odd(curve!, "step")).toEqual(["NaN since step 131"]);
  });

  it("is drawn as a band without a line or dots, and says so", () => {
    const root = document.createElement("div");
    document.body.replaceChildren(root);
    const shown = showIn(root);
    shown.update(frame());
    expect(root.querySelectorAll(".rfnb-curves-band-of")).toHaveLength(1);
    expect(root.querySelectorAll(".rfnb-curves-line, .rfnb-curves-dots")).toHaveLength(0);
    expect(root.textContent).toContain("a band from the least to the largest of each 100 of 300 points");
    expect(root.querySelector(".rfnb-thinned")!.textContent).toContain("Of each 100 of 300 points");
    shown.destroy();
  });
});

describe("what a notebook has less of", () => {
  const sent: { rfnb: string; id: number; version: number; range?: number[] }[] = [];
  type Heard = (message: unknown, buffers: DataView[]) => void;
  const listeners = new Set<Heard>(),
    heard: Heard = (message, buffers) => [...listeners].forEach((one) => one(message, buffers));
  const wire = {
    send: (message: object) => void sent.push(message as (typeof sent)[number]),
    listen: (listener: Heard) => {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
  };
  const settled = () => vi.advanceTimersByTimeAsync(1);
  const answer = async (bytes: Uint8Array | null) => {
    heard({ rfnb: "whole", id: sent.at(-1)!.id }, bytes ? [new DataView(bytes.buffer)] : []);
    await settled();
  };
  let el: HTMLElement;
  const { thinned: _, ...all } = HEAD;
  const whole = packed({ ...all, series: [{ label: "loss", x: "x0", y: "y0" }] }, [0, 1, 2], [4, 5, 6]);

  beforeEach(() => {
    vi.useFakeTimers();
    sent.length = 0;
    document.body.replaceChildren((el = document.createElement("div")));
  });
  afterEach(() => void vi.useRealTimers());

  it("is asked of the kernel, and drawn whole", async () => {
    const mounted = mount(el, packed(HEAD, X, Y, [4, 5, 2]), wire);
    await settled();
    expect(sent).toMatchObject([{ rfnb: "whole", version: 3 }]);
    expect(el.querySelectorAll(".rfnb-curves-band-of")).toHaveLength(1);
    await answer(whole);
    expect(el.querySelectorAll(".rfnb-curves-band-of, .rfnb-thinned")).toHaveLength(0);
    expect(el.querySelectorAll(".rfnb-curves-line")).toHaveLength(1);
    expect(sent).toHaveLength(1);
    mounted.destroy();
  });

  it("stays as it is where no kernel has it, and where a newer frame has come", async () => {
    const mounted = mount(el, packed(HEAD, X, Y, [4, 5, 2]), wire);
    await settled();
    const [old] = sent;
    await answer(null);
    expect(el.querySelectorAll(".rfnb-curves-band-of")).toHaveLength(1);
    mounted.update(packed({ ...HEAD, version: 4, title: "newer" }, X, Y, [4, 5, 2]));
    await vi.advanceTimersByTimeAsync(300);
    expect(sent.at(-1)).toMatchObject({ version: 4 });
    heard({ rfnb: "whole", id: old!.id }, [new DataView(whole.buffer)]);
    await settled();
    expect(el.textContent).toContain("newer");
    expect(el.querySelectorAll(".rfnb-curves-band-of")).toHaveLength(1);
    mounted.destroy();
    await answer(whole);
    expect(el.childElementCount).toBe(0);
  });

  it("is asked for when a view that runs stands still", async () => {
    const mounted = mount(el, packed({ ...HEAD, live: true }, X, Y, [4, 5, 2]), wire);
    for (let version = 4; version < 8; version++) {
      mounted.update(packed({ ...HEAD, live: true, version }, X, Y, [4, 5, 2]));
      await vi.advanceTimersByTimeAsync(400);
    }
    expect(sent).toEqual([]);
    await vi.advanceTimersByTimeAsync(1000);
    expect(sent).toMatchObject([{ rfnb: "whole", version: 7 }]);
    mounted.destroy();
  });

  it("is asked for again of a range that is zoomed into", async () => {
    const mounted = mount(el, packed(HEAD, X, Y, [4, 5, 2]), wire);
    await settled();
    await answer(null);
    const stage = el.querySelector<HTMLElement>(".rfnb-curves-stage")!;
    stage.focus();
    stage.dispatchEvent(new KeyboardEvent("keydown", { key: "+", bubbles: true }));
    expect(sent.at(-1)).toMatchObject({ rfnb: "whole", version: 3, range: [60, 200] });
    await answer(
      packed({ ...all, series: [{ label: "loss", x: "x0", y: "y0" }] }, [59, 60, 61, 62, 199, 200], [1, 2, 3, 4, 5, 6]),
    );
    expect(el.querySelectorAll(".rfnb-curves-line")).toHaveLength(1);
    expect(el.querySelectorAll(".rfnb-curves-band-of")).toHaveLength(0);
    stage.dispatchEvent(new KeyboardEvent("keydown", { key: "0", bubbles: true }));
    expect(el.querySelectorAll(".rfnb-curves-band-of")).toHaveLength(1);
    mounted.destroy();
  });
});

describe("a rounded number", () => {
  it.each([
    [0, "0.00", "0 %"],
    [1, "1.00", "100 %"],
    [0.9996, ">.99", ">99 %"],
    [0.004, "<.01", "<1 %"],
    [0.25, "0.25", "25 %"],
  ])("is 0 or 1 only where it is that: %d", (value, part, whole) => {
    expect([share(value), percent(value)]).toEqual([part, whole]);
  });
  it("has more digits where it would be 1", () => {
    expect([short(0.9996), short(1), short(0.25)]).toEqual(["0.9996", "1", "0.25"]);
    expect([chance(Math.log(0.999)), chance(Math.log(0.0123)), chance(0)]).toEqual([">99 %", "1.2 %", "100 %"]);
  });
});
