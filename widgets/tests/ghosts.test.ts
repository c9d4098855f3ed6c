import { describe, expect, it } from "vitest";
import type { Context } from "../src/context";
import { type Change, Trial } from "../src/ghosts";
import type { Told } from "../src/run";

describe("a change that goes on", () => {
  const over = { over: true, lane: null, refused: null } as unknown as Told;
  const change = (name: string): Change => ({ at: name, place: { path: "", nth: 0, step: 1 }, then: [], name, seq: 0 });

  /** A trial, what it asked for and of whom that was not ended, and whose answers it gave on. */
  function trial() {
    const asked: { name: string; told: (told: Told) => void; ended: boolean }[] = [],
      given: string[] = [];
    const ghost = ({ name }: { name: string }, told: (told: Told) => void) => {
      const one = { name, told, ended: false };
      asked.push(one);
      return () => void (one.ended = true);
    };
    const made = new Trial({ run: { ghost } } as unknown as Context, (_, { name }) => given.push(name));
    return { made, asked, given };
  }

  it("is asked for one ahead, and then again in its newest form", () => {
    const { made, asked, given } = trial();
    expect(made.behind).toBe(false);
    for (const name of ["a", "b", "c", "d"]) made.ask(change(name));
    expect(asked.map(({ name }) => name)).toEqual(["a", "b"]);
    asked[0]!.told({ ...over, over: false });
    expect([asked.length, given]).toEqual([2, []]);
    asked[0]!.told(over);
    asked[0]!.told(over); // an answer counts once
    expect([asked.map(({ name }) => name), given]).toEqual([["a", "b", "d"], ["a"]]);
    asked[1]!.told(over);
    expect(made.behind).toBe(true); // the answer is of "b", what is shown beside it of "d"
    asked[2]!.told(over);
    expect(made.behind).toBe(false);
    made.ask(change("e"));
    expect(made.behind).toBe(true);
    expect([asked.map(({ name }) => name), given]).toEqual([
      ["a", "b", "d", "e"],
      ["a", "b", "d"],
    ]);
  });

  it("is over at its end: what is still on its way is let go, and no answer is given on", () => {
    const { made, asked, given } = trial();
    for (const name of ["a", "b", "c"]) made.ask(change(name));
    made.stop();
    expect(asked.map(({ ended }) => ended)).toEqual([true, true]);
    for (const { told } of [...asked]) told(over);
    expect([asked.length, given]).toEqual([2, []]);
  });
});
