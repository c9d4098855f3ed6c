// Creates elements in one line.

import { attempt } from "./attempt";

type Tag<K extends string> = K | `${K}.${string}`;
type Attributes = Record<string, string | number | boolean>;
type Child = Node | string;

/** An element with classes, attributes and children: h("button.rfnb-pick", { type: "button" }, "Table"), h("td", "3"). */
export function h<K extends keyof HTMLElementTagNameMap>(
  tag: Tag<K>,
  ...given: [attributes: Attributes, ...children: Child[]] | Child[]
): HTMLElementTagNameMap[K] {
  const [name, ...classes] = tag.split("."),
    element = document.createElement(name as K);
  for (const [index, one] of given.entries())
    if (index || typeof one !== "object" || one instanceof Node) element.append(shown(one as Child));
    else setAll(element, one);
  return classed(element, classes);
}

/** The same for SVG; its text is appended. */
export function svg<K extends keyof SVGElementTagNameMap>(
  tag: Tag<K>,
  attributes: Attributes = {},
  text = "",
): SVGElementTagNameMap[K] {
  const [name, ...classes] = tag.split("."),
    element = document.createElementNS("http://www.w3.org/2000/svg", name as K);
  setAll(element, attributes);
  if (text) element.textContent = shown(text);
  return classed(element, classes);
}

/** The content of an element; for values that are neither text nor elements, as in damaged data, a view says that it cannot be drawn. */
export function shown<T extends Child>(one: T): T {
  if (one === undefined || (typeof one === "object" && !(one instanceof Node))) throw new TypeError("no text");
  return one;
}

function setAll(element: Element, attributes: Attributes): void {
  for (const name in attributes) set(element, name, attributes[name]!);
}

function classed<E extends Element>(element: E, classes: string[]): E {
  if (classes.length) element.classList.add(...classes);
  return element;
}

/** Sets an attribute, except for attributes that would run code, or non-numbers where numbers are expected. */
export function set(element: Element, name: string, value: string | number | boolean): void {
  const text = String(shown(value as string));
  if (/^on/i.test(name) || Number.isNaN(value) || (PLACES.has(name) && /NaN|undefined/.test(text)))
    throw new TypeError(`no ${name}`);
  element.setAttribute(name, text);
}
const PLACES = new Set(["d", "transform", "points", "viewBox"]);

/** Listens to an event. */
export const on = <K extends keyof HTMLElementEventMap>(
  target: EventTarget,
  name: K,
  heard: (event: HTMLElementEventMap[K]) => void,
  capture = false,
): void =>
  target.addEventListener(name, (event) => attempt(target, () => heard(event as HTMLElementEventMap[K])), capture);

/** Whether the pointer is a finger, which needs larger targets and other words. */
export const coarse = (): boolean => globalThis.matchMedia?.("(pointer: coarse)").matches ?? false;

/** Listens for the pointer leaving: a lifted finger still points, a scrolling one does not. */
export function onLeave(target: EventTarget, left: () => void): void {
  on(target, "pointerleave", ({ pointerType }) => pointerType !== "touch" && left());
  on(target, "pointercancel", left);
}

/** A button with its action. */
export function button(text: string, act: () => void, attributes: Attributes = {}): HTMLButtonElement {
  const element = h("button", { type: "button", ...attributes }, text);
  on(element, "click", act);
  return element;
}

/** A select; `chosen` gets the index of an option (`setOptions`). */
export function select(label: string, chosen: (index: number) => void): HTMLSelectElement {
  const element = h("select", { "aria-label": label });
  on(element, "change", () => chosen(element.selectedIndex));
  return element;
}

/** A slider; `moved` gets its value. */
export function slider(attributes: Attributes, moved: (value: number) => void): HTMLInputElement {
  const element = h("input", { type: "range", ...attributes });
  on(element, "input", () => moved(Number(element.value)));
  return element;
}

/** A live region: screen readers read its text when it changes. */
export const status = (tag: Tag<"div"> = "div.rfnb-readout"): HTMLDivElement =>
  h(tag, { role: "status", "aria-live": "polite" });

/** A scrollable part, which must be focusable; hidden at first. Not a landmark: a page has several with the same name. */
export const region = (tag: Tag<"div">, label: string): HTMLDivElement =>
  h(tag, { tabindex: 0, role: "group", "aria-label": label, hidden: "" });

/** The numbers as tables: a button that shows them, their box, and `fill`, to be called when they have changed. */
export function twin(label: string, make: () => Node): { toggle: HTMLElement; box: HTMLElement; fill: () => void } {
  const box = region("div.rfnb-table", label);
  const fill = () => {
    if (!box.hidden) box.replaceChildren(make());
  };
  const show = () => {
    box.hidden = !box.hidden;
    set(toggle, "aria-pressed", !box.hidden);
    fill();
  };
  const toggle = button("Table", show, { "aria-pressed": false, "data-do": "table" });
  return { toggle, box, fill };
}

/** A table with column headers, and rows that begin with a row header. */
export const table = (
  caption: string,
  heads: string[],
  rows: [head: string, ...cells: (string | HTMLTableCellElement)[]][],
): HTMLTableElement =>
  h(
    "table",
    h("caption", caption),
    h("thead", h("tr", ...heads.map((head) => h("th", { scope: "col" }, head)))),
    h(
      "tbody",
      ...rows.map(([head, ...cells]) =>
        h(
          "tr",
          h("th", { scope: "row" }, head),
          ...cells.map((cell) => (typeof cell === "string" ? h("td", cell) : cell)),
        ),
      ),
    ),
  );

/** Secondary text. */
export const quiet = (text: string): HTMLElement => h("span", { class: "rfnb-quiet" }, text);

/** Calls `resized` when the size of an element changes; returns a function that stops it. */
export function onResize(element: HTMLElement, resized: () => void): () => void {
  if (typeof ResizeObserver === "undefined") return () => {};
  const watcher = new ResizeObserver(() => attempt(element, resized));
  watcher.observe(element);
  return () => watcher.disconnect();
}

/** Keeps an element at the height of its tallest content so far, until its width changes, so that content below does not jump. */
export function steady(element: HTMLElement): () => void {
  let width = 0,
    height = 0;
  element.style.boxSizing = "border-box";
  return onResize(element, () => {
    const room = element.parentElement?.clientWidth;
    if (!room) return;
    if (room !== width) {
      [width, height] = [room, 0];
      element.style.minHeight = "";
    }
    if (element.offsetHeight > height) element.style.minHeight = `${(height = element.offsetHeight)}px`;
  });
}

/** Calls `changed` when an element comes near the visible area, or leaves it; returns a function that stops it. */
export function onSight(element: HTMLElement, changed: (near: boolean) => void): () => void {
  if (typeof IntersectionObserver === "undefined") return () => {};
  const watcher = new IntersectionObserver(
    (all) => attempt(element, () => changed(all[all.length - 1]!.isIntersecting)),
    {
      rootMargin: "50%",
    },
  );
  watcher.observe(element);
  return () => watcher.disconnect();
}

/** Sets the options of a select; keeps the element (and so an open list) if nothing changed; hides it if there is no choice. */
export function setOptions(select: HTMLSelectElement, labels: string[], chosen: number): void {
  const old = [...select.options].map((option) => option.textContent);
  if (old.length !== labels.length || old.some((label, index) => label !== labels[index])) {
    select.replaceChildren(...labels.map((label, index) => h("option", { value: String(index) }, label)));
  }
  select.value = String(chosen);
  const box = select.closest("label") ?? select;
  box.hidden = labels.length < 2;
}

/** Shows faults as sentences with a mark, then remarks in quiet text; hidden if there are none. */
export function showNotes(box: HTMLElement, wrong: string, remark = "", more: string | 0 = ""): void {
  box.replaceChildren(
    ...(wrong ? [h("p", { class: "rfnb-wrong" }, h("b", {}, "! "), wrong)] : []),
    ...[remark, more].flatMap((text) => (text ? [h("p", { class: "rfnb-quiet" }, text)] : [])),
  );
  box.hidden = !box.childElementCount;
}

/** The zoom factor of an element: in presentation mode. */
export function zoomOf(element: HTMLElement | null): number {
  const wide = element?.offsetWidth;
  return wide ? Math.round((100 * element.getBoundingClientRect().width) / wide) / 100 : 1;
}
