// Keeps a part of a view visible while the page scrolls: hosts that scroll outputs sideways disable `position: sticky`.

import { onResize } from "./dom";

export type Edge = "top" | "bottom";

/** Keeps an element at the top or bottom of the visible area, within its container. */
export class Stick {
  private frame = 0;
  private shift = 0; // in pixels
  private readonly unwatch: () => void;
  private readonly scrolled = () => {
    cancelAnimationFrame(this.frame);
    this.frame = requestAnimationFrame(() => this.update());
  };

  constructor(
    private readonly element: HTMLElement,
    private readonly within: HTMLElement,
    private readonly edge: Edge,
  ) {
    document.addEventListener("scroll", this.scrolled, { capture: true, passive: true });
    this.unwatch = onResize(within, this.scrolled);
  }

  update(): void {
    const { element, within, edge } = this,
      { top, bottom } = sightOf(within),
      around = within.getBoundingClientRect(),
      own = element.getBoundingClientRect(),
      [above, below] = [own.top - this.shift, own.bottom - this.shift]; // its natural position
    this.shift = !own.height
      ? 0
      : edge === "top"
        ? Math.max(0, Math.min(around.bottom - below, top - above))
        : Math.min(0, Math.max(around.top - above, bottom - below));
    element.style.transform = this.shift ? `translateY(${this.shift}px)` : "";
    element.toggleAttribute("data-stuck", this.shift !== 0);
  }

  destroy(): void {
    cancelAnimationFrame(this.frame);
    this.unwatch();
    document.removeEventListener("scroll", this.scrolled, { capture: true });
  }
}

/** The visible part of a scrolling container. */
function sightOf(element: HTMLElement): { top: number; bottom: number } {
  let scroller = element.parentElement;
  while (
    scroller &&
    !(scroller.scrollHeight > scroller.clientHeight + 1 && /auto|scroll/.test(getComputedStyle(scroller).overflowY))
  )
    scroller = scroller.parentElement;
  const whole = { top: 0, bottom: globalThis.innerHeight };
  if (!scroller || scroller === document.documentElement) return whole;
  const { top, bottom } = scroller.getBoundingClientRect();
  return { top: Math.max(0, top), bottom: Math.min(whole.bottom, bottom) };
}
