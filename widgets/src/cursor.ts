// What a person points at in a view, by pointer or by keys.

import { on } from "./dom";

/** The place under the pointer, else the one that a click or a key has left the cursor on. `moved` is called when that changes. */
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

/** Hands out keys, but none of the host's shortcuts; what `use` has used goes no further. */
export function onKeys(element: HTMLElement, use: (event: KeyboardEvent) => boolean): void {
  on(element, "keydown", (event) => {
    if (event.altKey || event.metaKey || !use(event)) return;
    event.preventDefault();
    event.stopPropagation();
  });
}
