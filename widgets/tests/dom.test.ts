import { describe, expect, it } from "vitest";
import { h, set, svg } from "../src/dom";

describe("what becomes part of a page", () => {
  const damaged: unknown[] = [undefined, null, { label: "x" }, ["x"]];

  it("is text or an element: of anything else a view says that its data is damaged", () => {
    for (const one of damaged) {
      expect(() => h("td", {}, one as string), String(one)).toThrow(TypeError);
      expect(() => set(h("td"), "title", one as string), String(one)).toThrow(TypeError);
    }
    expect(() => svg("text", {}, { label: "x" } as unknown as string)).toThrow(TypeError);
    expect(h("td", "a", h("b", "c")).textContent).toBe("ac");
  });

  it("runs nothing, also where damaged data stands where attributes are", () => {
    expect(() => h("td", { onclick: "window.ran = 1" } as unknown as string)).toThrow(TypeError);
    expect(() => set(h("td"), "ONLOAD", "1")).toThrow(TypeError);
  });

  it("has a place that is a number", () => {
    expect(() => svg("rect", { x: NaN })).toThrow(TypeError);
    expect(() => svg("path", { d: "MNaN 3" })).toThrow(TypeError);
    expect(svg("path", { d: "M1 3", "aria-label": "NaN" }).getAttribute("d")).toBe("M1 3");
  });
});
