// Mounts a view in an element of the host: one paint per animation frame, and a sentence for bad data.

import type { Rendered } from "./context";
import { attempt, forgive } from "./attempt";
import { h, on, set } from "./dom";
import type { ExactOf, Wire } from "./exact_values";
import { Exact, NO_KERNEL } from "./exact_values";
import type { AnyHead, Frame } from "./frame";
import { unpack } from "./frame";
import { Held, stateIn } from "./run";
import type { Bus } from "./selection";
import { busOf } from "./selection";
import type { Palette } from "./theme";
import { onTheme, palette } from "./theme";
import { tips } from "./tip";
import { safe } from "./visible_text";
import { views } from "./views";

const PAUSE = 1000; // ms without a frame until more is requested

/** Whether the kernel has more data than the page, for a view or a part of it. */
const isThinned = ({ thinned, parts = [] }: AnyHead & { parts?: { head: AnyHead }[] }): boolean =>
  !!thinned || parts.some(({ head }) => isThinned(head));

/** A frame, or the bytes of one. */
type Framed = DataView | Uint8Array | Frame;
export interface Mounted {
  update(frame: Framed): void;
  destroy(): void;
}

/** Shows frames; `wire` connects to their kernel, if there is one. */
export function mount(el: HTMLElement, frame: Framed, wire: Wire | null = null): Mounted {
  const exact = new Exact(wire),
    run = wire && new Held(wire);
  const root = h("div.rfnb-root", { "data-lm-suppress-shortcuts": "true" });
  // Plain keys belong to the view: with the focus in it, JupyterLab's own would delete the cell (x), or leave it (arrows).
  on(root, "keydown", (event) => {
    if (!event.ctrlKey && !event.metaKey && !event.altKey) event.stopPropagation();
  });
  el.append(root);
  tips(root);
  let shown: Rendered<AnyHead> | null = null;
  let next: Framed | null = null,
    last: Frame | null = null,
    held = false;
  run?.listen(() => {
    if (held === !!run.held) return;
    held = !held; // the edit panels of views appear and disappear with the kernel
    if (last && shown) attempt(root, () => shown!.update(last!));
  });
  let asking: ReturnType<typeof setTimeout> | undefined;
  const show = (made: Frame) => {
    last = made;
    shown!.update(made);
  };
  /** The kernel has the full data of a thinned frame; while frames arrive, it is requested during a pause. */
  const complete = (made: Frame) => {
    clearTimeout(asking);
    if (!wire || !isThinned(made.head)) return;
    const put = (whole: Frame | null) => whole && made === last && attempt(root, () => show(whole));
    asking = setTimeout(() => void exact.frame().then(put), made.head.live ? PAUSE : 0);
  };
  let asked = 0;
  let timer: ReturnType<typeof setTimeout> | undefined;
  const draw = () => {
    cancelAnimationFrame(asked);
    clearTimeout(timer);
    asked = 0;
    const latest = next;
    next = null;
    if (!latest) return;
    attempt(
      root,
      () => {
        const made = "kind" in latest ? latest : unpack(latest);
        exact.renew(made.head.version ?? 0);
        run?.renew(stateIn(made));
        shown ??= showIn(root, exact, undefined, run);
        show(made);
        complete(made);
      },
      () => shown?.destroy(),
    );
  };
  next = frame;
  draw();
  return {
    update(latest) {
      next = latest;
      if (asked) return;
      asked = requestAnimationFrame(draw);
      timer = setTimeout(draw, 250); // a hidden page gets no animation frames
    },
    destroy() {
      cancelAnimationFrame(asked);
      clearTimeout(timer);
      clearTimeout(asking);
      last = null;
      shown?.destroy();
      exact.destroy();
      run?.destroy();
      root.remove();
    },
  };
}

/** Shows frames of any kind in a root element; another kind replaces the view. */
export function showIn(
  root: HTMLElement,
  exact: ExactOf = NO_KERNEL,
  hasChooser = () => false,
  held: Held | null = null,
): Rendered<AnyHead> {
  let view: Rendered<AnyHead> | null = null;
  let made = ""; // identifies the view: kind, link and axis
  let ends: (() => void)[] = [];
  // Reading colours forces the browser to compute styles, on each pointer move if they were not cached.
  let colors: Palette | null = null;
  const forget = () => (colors = null);
  on(root, "pointerenter", forget); // a host may have changed them without an event
  const destroy = () => {
    for (const end of ends.splice(0)) end();
    const old = view;
    view = null;
    root.replaceChildren();
    old?.destroy();
  };
  /** Listeners of other views, removed when this view ends. */
  const heard = (bus: Bus): Bus =>
    Object.assign(Object.create(bus) as Bus, {
      listen(listener: Parameters<Bus["listen"]>[0]) {
        const end = bus.listen((...said) => attempt(root, () => listener(...said)));
        ends.push(end);
        return end;
      },
    });
  return {
    update(frame) {
      forget();
      forgive(root);
      attempt(
        root,
        () => {
          const { link = "", axis = "", batch = "" } = frame.head,
            wanted = JSON.stringify([frame.kind, link, axis, batch]);
          if (view && made === wanted) {
            view.update(frame);
            return;
          }
          destroy();
          const render = views[frame.kind];
          if (!render) throw new Error(`This version of rfnb has no view "${frame.kind}".`);
          made = wanted;
          set(root, "data-kind", frame.kind);
          view = render(root, frame, {
            palette: () => (colors ??= palette(root)),
            onTheme: (changed) => {
              ends.push(onTheme(root, () => attempt(root, () => (forget(), changed()))));
            },
            bus: heard(busOf(link, axis, batch)),
            busOf: (other) => heard(busOf(link, other, batch)),
            hasChooser,
            exact,
            held,
            get run() {
              return held?.held ?? null;
            },
          });
        },
        destroy,
      );
      set(root, "data-live", Boolean(frame.head.live));
      tell(root, frame);
    },
    destroy,
  };
}

/** Notes below a view: remarks, and the data that only the kernel has. */
function tell(root: HTMLElement, { kind, head: { remark, thinned } }: Frame): void {
  const last = root.lastElementChild,
    there = last?.classList.contains("rfnb-thinned") ? last : null;
  const where =
    kind === "curves"
      ? "Zooming into a range loads all of its points from the kernel, if there is one."
      : "Numbers in texts are exact if a kernel answers; otherwise they are marked “about”.";
  const coded = thinned && `${thinned} ${where}`;
  const said = [safe(remark ?? ""), coded].filter(Boolean).join(" ");
  if (!said) return there?.remove();
  if (there) there.textContent = said;
  else root.append(h("p.rfnb-quiet.rfnb-thinned", said));
}
