// Making elements in one line.

/** An element with attributes and children: h("button", { type: "button" }, "Table"). */
export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Record<string, string> = {},
  ...children: (Node | string)[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

/** The same for SVG; its children are appended. */
export function svg<K extends keyof SVGElementTagNameMap>(
  tag: K,
  attributes: Record<string, string | number> = {},
  text = "",
): SVGElementTagNameMap[K] {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
  if (text) element.textContent = text;
  return element;
}

/** Text beside what matters. */
export const quiet = (text: string): HTMLElement => h("span", { class: "rfnb-quiet" }, text);

/** Calls `resized` when an element gets another size; returns the function that ends that. */
export function onResize(element: HTMLElement, resized: () => void): () => void {
  if (typeof ResizeObserver === "undefined") return () => {};
  const watcher = new ResizeObserver(resized);
  watcher.observe(element);
  return () => watcher.disconnect();
}

/** Calls `changed` when an element comes near to what is on the screen, or leaves that; returns the function that ends that. */
export function onSight(element: HTMLElement, changed: (near: boolean) => void): () => void {
  if (typeof IntersectionObserver === "undefined") return () => {};
  const watcher = new IntersectionObserver((all) => changed(all[all.length - 1]!.isIntersecting), {
    rootMargin: "50%",
  });
  watcher.observe(element);
  return () => watcher.disconnect();
}

/** Sets the options of a select, keeps the element (and so an open list) when nothing changed; hides it when there is no choice. */
export function setOptions(select: HTMLSelectElement, labels: string[], chosen: number): void {
  const old = [...select.options].map((option) => option.textContent);
  if (old.length !== labels.length || old.some((label, index) => label !== labels[index])) {
    select.replaceChildren(...labels.map((label, index) => h("option", { value: String(index) }, label)));
  }
  select.value = String(chosen);
  const box = select.closest("label") ?? select;
  box.hidden = labels.length < 2;
}

/** What is wrong with what is shown, as sentences with a mark; what is no fault follows quietly. Hidden if there is nothing. */
export function showNotes(box: HTMLElement, wrong: string, remark = "", more: string | 0 = ""): void {
  box.replaceChildren(
    ...(wrong ? [h("p", { class: "rfnb-wrong" }, h("b", {}, "! "), wrong)] : []),
    ...[remark, more].flatMap((text) => (text ? [h("p", { class: "rfnb-quiet" }, text)] : [])),
  );
  box.hidden = !box.childElementCount;
}
