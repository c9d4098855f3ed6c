// A scrollable area with one canvas for the visible part, so that a canvas is never larger than the screen; pointer, keyboard, and the text for
// screen readers of the cell under the cursor.

import { attempt } from "./attempt";
import { prepare } from "./canvas";
import { onKeys } from "./cursor";
import { button, h, on, onResize, set, zoomOf } from "./dom";

export interface Scene {
  left: number;
  top: number;
  width: number;
  height: number;
}
export interface Spot {
  x: number;
  y: number;
  left: number;
  top: number;
  touch: boolean;
} // in the visible part, and how far it is scrolled; whether a finger is there
/** The size of the content, and of the labels at its edges that do not scroll. */
export interface Placed {
  width: number;
  height: number;
  left: number;
  top: number;
}
export interface Box {
  x: number;
  y: number;
  width: number;
  height: number;
}
/** A drag: by pixels from its start; dropped, or (false) cancelled. */
export interface Grip {
  upright?: boolean; // only for drags that begin vertically
  move(right: number, down: number): void;
  end(dropped: boolean): void;
}
export interface Handlers {
  layout(width: number): Pick<Placed, "width" | "height">; // for the available width
  paint(g: CanvasRenderingContext2D, scene: Scene): void;
  hover(spot: Spot | null): void;
  click(spot: Spot): void;
  key(event: KeyboardEvent): boolean; // whether it was handled
  grab?(spot: Spot): Grip | null; // the grip for a press of the pointer, if it moves
}
/** A key that touch screens get as a button: its name, the text of the button, and its description. */
export type Tap = [key: string, text: string, does: string];
export interface Cell {
  row: number;
  col: number;
  rows: number;
  cols: number;
  text: string;
}

const WIDTH_UNKNOWN = 800,
  TAKEN = 4; // pixels from which on a press is a drag
const ARROWS: Tap[] = [
  ["ArrowLeft", "←", "left"],
  ["ArrowRight", "→", "right"],
  ["ArrowUp", "↑", "up"],
  ["ArrowDown", "↓", "down"],
];
let count = 0;

export class Pane {
  readonly element: HTMLDivElement;
  /** The keys of the picture as buttons, after a touch: cells are too small for fingers. */
  readonly pad = h("div.rfnb-pad", { role: "group", "aria-label": "keys", hidden: "" });
  private readonly canvas = h("canvas", { "aria-hidden": "true" });
  private readonly space = h("div.rfnb-pane-space", { role: "presentation" });
  private readonly cell = h("div", { role: "gridcell", id: `rfnb-cell-${++count}` });
  private readonly row = h("div.rfnb-hidden", { role: "row" }, this.cell);
  private unwatch = (): void => {};
  private frame = 0;
  private ended = false;
  private room = -1;
  private held: { grip: Grip; x: number; y: number; moved: boolean } | null = null;
  private dropped = false; // the next click ends a drag
  private touch = false; // whether the last press was a touch; not every browser reports that for clicks

  constructor(
    private readonly handlers: Handlers,
    private mostHeight: number,
    attributes: Record<string, string> = { role: "grid", "aria-readonly": "true" },
    taps: Tap[] = [],
  ) {
    const usual = { class: "rfnb-pane", tabindex: "0", "data-lm-suppress-shortcuts": "true" };
    this.element = h("div", { ...usual, ...attributes }, this.space);
    this.space.append(this.canvas);
    for (const [key, text, does] of [...ARROWS, ...taps])
      this.pad.append(button(text, () => this.tap(key), { "aria-label": does, title: does }));
    const spot = (event: MouseEvent): Spot => {
      const box = this.element.getBoundingClientRect(),
        zoom = zoomOf(this.element);
      return {
        x: (event.clientX - box.left) / zoom - this.element.clientLeft,
        y: (event.clientY - box.top) / zoom - this.element.clientTop,
        left: this.element.scrollLeft,
        top: this.element.scrollTop,
        touch: this.touch,
      };
    };
    on(this.element, "pointerdown", (event) => {
      this.touch = event.pointerType === "touch";
      if (this.touch) this.pad.hidden = false;
      this.grab(event, spot(event));
    });
    on(this.element, "touchmove", (event) => {
      if (this.held && event.cancelable) event.preventDefault(); // a dragging finger does not scroll
    });
    on(this.element, "pointermove", (event) => this.drags(event) || handlers.hover(spot(event)));
    on(this.element, "pointerup", () => this.drop(true));
    on(this.element, "pointercancel", () => this.drop(false));
    on(this.element, "pointerleave", () => handlers.hover(null));
    on(this.element, "click", (event) => {
      if (this.dropped) this.dropped = false;
      else handlers.click(spot(event));
    });
    on(this.element, "scroll", () => this.paintSoon());
    for (const name of ["focus", "blur"] as const) on(this.element, name, () => this.paintSoon());
    onKeys(this.element, (event) =>
      event.key === "Escape" && this.held?.moved ? this.drop(false) : handlers.key(event),
    );
  }

  /** A button of the pad: "Shift+ArrowLeft" is a key with a modifier. */
  private tap(name: string): void {
    const [key, shift] = name.split("+").reverse();
    this.element.dispatchEvent(new KeyboardEvent("keydown", { key: key!, shiftKey: !!shift, bubbles: true }));
  }

  private grab(event: PointerEvent, at: Spot): void {
    this.dropped = false;
    if (!at.touch) this.handlers.hover(at); // the page may have moved below a resting pointer: the text must be for the pressed place
    const grip = event.button ? null : this.handlers.grab?.(at);
    this.held = grip ? { grip, x: event.clientX, y: event.clientY, moved: false } : null;
  }

  /** Whether a pointer move drags something. */
  private drags({ clientX, clientY, pointerId, buttons }: PointerEvent): boolean {
    const { held } = this;
    if (!held) return false;
    if (!(buttons & 1)) return !this.drop(false);
    const [right, down] = [clientX - held.x, clientY - held.y];
    if (!held.moved && Math.hypot(right, down) < TAKEN) return false;
    if (!held.moved && held.grip.upright && Math.abs(right) > Math.abs(down)) {
      this.held = null;
      return false;
    }
    if (!held.moved) {
      this.element.setPointerCapture?.(pointerId);
      this.element.focus({ preventScroll: true });
    }
    held.moved = true;
    held.grip.move(right, down);
    return true;
  }

  private drop(kept: boolean): boolean {
    const { held } = this;
    this.held = null;
    if (!held?.moved) return false;
    this.dropped = true;
    held.grip.end(kept);
    return true;
  }

  /** Call this once the element is in the page. */
  start(): void {
    this.unwatch = onResize(this.element.parentElement!, () => {
      if (this.available() !== this.room) this.relayout();
    });
    this.relayout();
  }

  /** Whether the pointer grips something. */
  get holds(): boolean {
    return !!this.held;
  }

  get focused(): boolean {
    return (this.element.getRootNode() as Document | ShadowRoot).activeElement === this.element;
  }

  /** The height above which it scrolls. */
  limit(height: number): void {
    this.mostHeight = height;
  }

  relayout(): void {
    this.room = this.available();
    const size = this.handlers.layout(this.room - 2);
    const atEnd =
      this.element.scrollTop > 0 && this.element.scrollTop + this.element.clientHeight >= this.element.scrollHeight - 4;
    const wide = size.width > this.room - 2,
      tall = size.height > this.mostHeight;
    this.space.style.width = `${size.width}px`;
    this.space.style.height = `${size.height}px`;
    this.element.style.width = `${Math.min(this.room, Math.ceil(size.width) + 2 + (tall ? 16 : 0))}px`;
    this.element.style.height = `${Math.ceil(Math.min(this.mostHeight, size.height)) + 2 + (wide ? 16 : 0)}px`;
    this.element.style.overflow = `${wide || tall ? "auto" : "hidden"}`;
    if (atEnd) this.element.scrollTop = this.element.scrollHeight;
    this.paintSoon();
  }

  paintSoon(): void {
    cancelAnimationFrame(this.frame);
    if (this.ended) return; // removing a focused element from the page fires a blur event
    this.frame = requestAnimationFrame(() => attempt(this.element, () => this.paint()));
  }

  /** Scrolls until a part of the content is visible, beside the fixed labels. */
  reveal({ x, y, width, height }: Box, frozen: Pick<Placed, "left" | "top">): void {
    const box = this.element;
    if (x - frozen.left < box.scrollLeft) box.scrollLeft = x - frozen.left;
    else if (x + width > box.scrollLeft + box.clientWidth) box.scrollLeft = x + width - box.clientWidth;
    if (y - frozen.top < box.scrollTop) box.scrollTop = y - frozen.top;
    else if (y + height > box.scrollTop + box.clientHeight) box.scrollTop = y + height - box.clientHeight;
  }

  /** The texts for screen readers: of the whole, and of the cell under the cursor of a grid. */
  say(label: string, cell?: Cell | null): void {
    set(this.element, "aria-label", label);
    if (cell !== undefined && !this.row.parentElement) this.element.prepend(this.row);
    if (!cell) {
      this.element.removeAttribute("aria-activedescendant");
      this.cell.textContent = "";
      return;
    }
    set(this.element, "aria-rowcount", cell.rows);
    set(this.element, "aria-colcount", cell.cols);
    set(this.row, "aria-rowindex", cell.row + 1);
    set(this.cell, "aria-colindex", cell.col + 1);
    set(this.cell, "aria-selected", "true");
    this.cell.textContent = cell.text;
    set(this.element, "aria-activedescendant", this.cell.id);
  }

  destroy(): void {
    this.ended = true;
    cancelAnimationFrame(this.frame);
    this.unwatch();
  }

  private available(): number {
    return this.element.parentElement?.clientWidth || WIDTH_UNKNOWN;
  }

  private paint(): void {
    const within = (seen: number, size: string) => Math.min(seen, parseFloat(size) || seen); // browsers round zoomed pixels up
    const width = within(this.element.clientWidth, this.space.style.width),
      height = within(this.element.clientHeight, this.space.style.height);
    if (!width || !height) return;
    const g = prepare(this.canvas, width, height);
    if (g) this.handlers.paint(g, { left: this.element.scrollLeft, top: this.element.scrollTop, width, height });
  }
}
