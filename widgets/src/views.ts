// The folder that draws each kind; the build reads this list, one kind per line.

import { render as attention } from "./attention/render";
import { render as beams } from "./beams/render";
import { render as branches } from "./branches/render";
import type { Render } from "./context";
import { render as control } from "./control/render";
import { render as curves } from "./curves/render";
import { render as diff } from "./diff/render";
import { render as dims } from "./dims/render";
import { render as distribution } from "./distribution/render";
import { render as graph } from "./graph/render";
import { render as group } from "./group/render";
import { render as question } from "./question/render";
import { render as states } from "./states/render";

// The type of a head follows from its kind alone: it comes as JSON.
export const views: Record<string, Render<any>> = {
  attention,
  beams,
  control,
  branches,
  curves,
  diff,
  dims,
  distribution,
  flow: graph,
  group,
  plan: graph,
  question,
  states,
};
