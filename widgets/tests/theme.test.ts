import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { onTheme } from "../src/theme";

let element: HTMLElement;
const changed = vi.fn();
let end = () => {};
const frame = () => new Promise(requestAnimationFrame);
/** After the observers, which run between tasks, and the frame that they ask for. */
const settled = () => frame().then(frame);

beforeEach(() => {
  element = document.body.appendChild(document.createElement("div"));
  changed.mockClear();
  end = onTheme(element, changed);
});
afterEach(() => {
  end();
  element.remove();
});

const paper = (color: string) => element.style.setProperty("--rfnb-paper", color);

it("tells of colours that change with an attribute of the page, once", async () => {
  paper("#111111");
  document.body.dataset.theme = "dark";
  await settled();
  document.body.dataset.theme = "dim"; // another name, the same colours
  await settled();
  expect(changed).toHaveBeenCalledTimes(1);
});

it("waits for a linked style sheet, however late it is", async () => {
  const link = document.body.appendChild(document.createElement("link"));
  document.body.dataset.jpThemeLight = "false";
  await settled();
  expect(changed).not.toHaveBeenCalled();
  paper("#111111"); // by the sheet
  link.dispatchEvent(new Event("load"));
  await settled();
  expect(changed).toHaveBeenCalledTimes(1);
  link.remove();
});

it("looks at an element again that was out of the page when the theme changed", async () => {
  let seen = () => {};
  const observe = vi.fn(),
    disconnect = vi.fn();
  vi.stubGlobal(
    "IntersectionObserver",
    class {
      constructor(callback: () => void) {
        seen = callback;
      }
      observe = observe;
      disconnect = disconnect;
    },
  );
  const told = vi.fn(),
    stop = onTheme(element, told);
  expect(observe).toHaveBeenCalledWith(element);
  seen(); // it is there: nothing to do
  element.remove();
  paper("#111111");
  document.body.dataset.theme = "dark";
  await settled();
  expect(told).not.toHaveBeenCalled();
  document.body.append(element);
  seen();
  await settled();
  expect(told).toHaveBeenCalledTimes(1);
  stop();
  expect(disconnect).toHaveBeenCalledTimes(1);
  vi.unstubAllGlobals();
});

it("is silent after its end", async () => {
  end();
  paper("#111111");
  document.body.dataset.theme = "light";
  document.body.appendChild(document.createElement("link")).dispatchEvent(new Event("load"));
  await settled();
  expect(changed).not.toHaveBeenCalled();
});
