// Shows `title` texts on touch screens: by a tap on elements that are not controls, by a long press on controls.

import { h, on } from "./dom";

const LONG = 500, // ms of a press
  STILL = 10, // maximal movement in pixels
  CONTROLS = "button, select, input, label, summary, a, [role=option]";

/** Shows the titles of a root's elements on touch. */
export function tips(root: HTMLElement): void {
  const tip = h("div.rfnb-tip", { role: "status", hidden: "" });
  let timer: ReturnType<typeof setTimeout> | undefined,
    from: [number, number] = [0, 0],
    told = false, // shown by a press, whose click is ignored
    tapped: HTMLElement | null = null;
  const titled = (target: EventTarget | null) => (target as Element | null)?.closest?.<HTMLElement>("[title]") ?? null;
  const say = (of: HTMLElement | null) => {
    tip.hidden = !of?.title;
    if (!of?.title) return;
    // The next press anywhere in the page hides it: there is only one tip at a time.
    root.ownerDocument.addEventListener("pointerdown", () => say(null), { capture: true, once: true });
    tip.textContent = of.title;
    (of.closest(".rfnb-on-stage") ?? root).append(tip);
    const box = of.getBoundingClientRect(),
      around = tip.offsetParent?.getBoundingClientRect() ?? root.getBoundingClientRect(),
      left = Math.min(box.left - around.left, around.width - tip.offsetWidth - 8);
    Object.assign(tip.style, { left: `${Math.max(4, left)}px`, top: `${box.bottom - around.top + 4}px` });
  };
  on(root, "pointerdown", (event) => {
    clearTimeout(timer);
    told = false;
    tapped = null;
    if (event.pointerType !== "touch") return;
    from = [event.clientX, event.clientY];
    const of = titled(event.target);
    if (of?.closest(CONTROLS))
      timer = setTimeout(() => {
        say(of);
        told = true;
      }, LONG);
    tapped = of && !of.closest(CONTROLS) ? of : null;
  });
  on(root, "pointermove", ({ clientX, clientY }) => {
    if (Math.hypot(clientX - from[0], clientY - from[1]) > STILL) clearTimeout(timer);
  });
  on(root, "click", () => say(tapped));
  for (const name of ["pointerup", "pointercancel"] as const) on(root, name, () => clearTimeout(timer));
  on(root, "contextmenu", (event) => told && event.preventDefault());
  on(
    root,
    "click",
    (event) => {
      if (!told) return;
      told = false;
      event.preventDefault();
      event.stopPropagation();
    },
    true,
  );
}
