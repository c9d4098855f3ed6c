// Which folder draws which kind.

import { render as attention } from "./attention/render";
import { BeamsView } from "./beams/render";
import type { Render } from "./context";
import { DimsView } from "./dims/render";
import { render as group } from "./group/render";
import { render as states } from "./states/render";

const beams: Render = (el, frame, ctx) => {
  const view = new BeamsView(el, ctx.palette);
  ctx.onTheme(() => view.restyle());
  const update = ({ head }: typeof frame) => view.update(head as unknown as Parameters<BeamsView["update"]>[0]);
  update(frame);
  return { update, destroy: () => view.destroy() };
};

const dims: Render = (el, frame) => {
  const view = new DimsView(el);
  const update = ({ head }: typeof frame) => view.update(head as unknown as Parameters<DimsView["update"]>[0]);
  update(frame);
  return { update, destroy: () => view.destroy() };
};

export const views: Record<string, Render> = { attention, beams, dims, group, states };
