// The entry of the bundle as an anywidget module. `initialize` of the carrier only exports functions; `model` is the channel of a view.

import type { Wire } from "./exact_values";
import { mount } from "./mount";

interface Model {
  get(name: string): unknown;
  on(event: string, listener: (...given: any[]) => void): void;
  off(event: string, listener: (...given: any[]) => void): void;
  send?(message: object): void;
}

/** Custom messages of the model. */
const wireOf = (model: Model): Wire => ({
  send: (message) => model.send?.(message),
  listen(heard) {
    model.on("msg:custom", heard);
    return () => model.off("msg:custom", heard);
  },
  onGone(gone) {
    model.on("comm_live_update", gone); // sent by ipywidgets when the kernel restarts or ends
    return () => model.off("comm_live_update", gone);
  },
});

function render({ model, el }: { model: Model; el: HTMLElement }): () => void {
  const frame = () => (model.get("value") ?? new Uint8Array()) as DataView | Uint8Array;
  const mounted = mount(el, frame(), wireOf(model));
  const changed = () => mounted.update(frame());
  model.on("change:value", changed);
  return () => {
    model.off("change:value", changed);
    mounted.destroy();
  };
}

const initialize = () => ({ render });

export default { initialize, render };
