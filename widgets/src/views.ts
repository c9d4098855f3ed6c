// Which folder draws which kind.

import { render as attention } from "./attention/render";
import { render as beams } from "./beams/render";
import type { Render } from "./context";
import { render as curves } from "./curves/render";
import { render as dims } from "./dims/render";
import { render as group } from "./group/render";
import { render as states } from "./states/render";

export const views: Record<string, Render> = { attention, beams, curves, dims, group, states };
