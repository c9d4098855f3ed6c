// The commands that a run accepts now, and the reasons for those that it refuses. Pure.

import type { Frame } from "../frame";
import type { Held, RunState } from "../run";

export type Act = "pause" | "resume" | "step" | "steps" | "stop" | "branch";

/** The reason why a button is inactive; "" for an active one. */
export function whyNot(act: Act, { state, title, loops }: RunState): string {
  const over = ["done", "failed", "stopped"].includes(state);
  if (act === "branch") return loops.length ? "" : "There is no step to continue from yet.";
  if (over)
    return `${title} is ${state === "failed" ? "over: it has failed" : state}. Another run can continue from a step.`;
  if (state === "stopping") return "It is about to stop.";
  if (act === "pause" && state !== "running") return "It is paused.";
  if (act === "resume" && state === "running") return "It is running.";
  return "";
}

/** The keys of the toolbar, while the focus is in it but not in a field. */
export const KEYS: Record<string, Act> = { p: "pause", r: "resume", s: "step", n: "steps", x: "stop", b: "branch" };

/** A note about the kernel, if there is any. */
export function ofKernel(kernel: Held["kernel"] | null, { live }: RunState): string {
  if (kernel === "gone") return "The kernel has stopped, and the run with it. This is its last state.";
  if (kernel === "late")
    return "The kernel has not answered yet: a cell is running. It handles your request afterwards.";
  if (kernel === "silent") return live ? "No kernel answers, so the run takes no commands." : "";
  return "";
}

/** The speeds to choose from, in steps per second; 0: unlimited. */
export const speeds = (now: number): number[] =>
  [...new Set([0, 0.5, 1, 2, 5, 10, 50, now])].sort((a, b) => (b || Infinity) - (a || Infinity));

export const speedText = (speed: number): string =>
  speed ? `${Number(speed.toPrecision(3))} ${speed === 1 ? "step" : "steps"} per second` : "full speed";

export const timesText = (hits: number): string => (hits === 1 ? "once" : `${hits} times`);

/** The fault of a frame as a sentence. */
export function problem({ head }: Frame<RunState>): string | null {
  const lists = [head.loops, head.points, head.runs];
  return typeof head.words === "string" && typeof head.state === "string" && lists.every(Array.isArray)
    ? null
    : "This run has no state.";
}
