import { describe, expect, it } from "vitest";
import cases from "../../tests/viz/fixtures/visible.json";
import { shorten } from "../src/labels";
import { mount } from "../src/mount";
import { pack } from "./packing";
import { line, safe, visible } from "../src/visible_text";

HTMLCanvasElement.prototype.getContext = () => null; // jsdom has no canvas

describe("tokens", () => {
  it.each(cases.map((of): [string, (typeof cases)[0]] => [of.visible, of]))("are marked as in Python: %s", (_, of) => {
    const text = String.fromCodePoint(...of.codes);
    expect([visible(text), line(text), safe(text)]).toEqual([of.visible, of.line, of.safe]);
  });

  it("that differ in spaces alone have labels that differ", () => {
    expect(new Set(["a", " a", "a ", "", " ", "  ", "\xa0"].map((token) => shorten(token))).size).toBe(7);
  });

  it("in a frame act on nothing in the page", () => {
    const out = pack("group", { title: "a\u202eb\x1b", parts: [] }, {}, { ascii: true });
    const el = document.createElement("div");
    mount(el, out);
    expect(el.textContent).toBe("a⟨U+202E⟩b␛ — nothing recorded");
  });
});
