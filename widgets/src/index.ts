// The bundle's entry as an anywidget module. The carrier's `initialize` only hands out functions: anywidget gives it two seconds.

import { mount } from "./mount";

interface Model {
  get(name: string): unknown;
  on(event: string, listener: () => void): void;
  off(event: string, listener: () => void): void;
}

function render({ model, el }: { model: Model; el: HTMLElement }): () => void {
  const frame = () => (model.get("frame") ?? new Uint8Array()) as DataView | Uint8Array;
  const mounted = mount(el, frame());
  const changed = () => mounted.update(frame());
  model.on("change:frame", changed);
  return () => {
    model.off("change:frame", changed);
    mounted.destroy();
  };
}

const initialize = () => ({ render });

export default { initialize, render };
