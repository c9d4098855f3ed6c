// The place in a view that a person points at, by pointer or keys.

import { on } from "./dom";

/** The place under the pointer, else the one where a click or a key left the cursor. `moved` is called when it changes. */
export class Cursor<P> {
  hovered: P | null = null;
  pinned: P | null = null;

  constructor(private readonly moved: () => void) {}

  get at(): P | null {
    return this.hovered ?? this.pinned;
  }

  hover(at: P | null): void {
    if (JSON.stringify(at) === JSON.stringify(this.hovered)) return;
    this.hovered = at;
    this.moved();
  }

  pin(at: P | null): void {
    this.pinned = at;
    this.hovered = null;
    this.moved();
  }
}

/** Passes keys on, except for shortcuts of the host; keys handled by `use` do not propagate. */
export function onKeys(element: HTMLElement, use: (event: KeyboardEvent) => boolean): void {
  on(element, "keydown", (event) => {
    if (event.altKey || event.metaKey || !use(event)) return;
    event.preventDefault();
    event.stopPropagation();
  });
}
