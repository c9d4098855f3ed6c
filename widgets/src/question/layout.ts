// A question that is answered in the view: the faults of an answer. Pure; the mirror image of rfnb/teaching/judgement.py, tested with the same file.

import type { AnyHead, Frame } from "../frame";
import { fixed } from "../number";

export type Board = number[][]; // by row and column: 1 where something is drawn
/** The unit of an answer: a grid, or one step of a search. */
export interface Step {
  rows: string[]; // labels
  names: string[]; // of rows, in sentences
  solution: Board;
  says: string[][]; // the message for a wrong cell
  right: string; // the message if none is wrong
  known: [board: Board, message: string][]; // common mistakes
  // For a step of a search: texts of cells, before and after the answer; the ties with the last survivor; the number of survivors.
  texts?: string[][];
  after?: string[][];
  ties?: Board;
  size?: number;
  most?: number[]; // for an alignment: the maximal overlap of a drawing with each row of weights; 0: the row does not count
}
export interface QuestionHead extends AnyHead {
  form: "mask" | "alignment" | "beam";
  name: string;
  asked: string;
  cols: string[];
  col_names: string[];
  steps: Step[];
  answer: Board[]; // for the answered steps
  missed?: (Board | null)[]; // by step: the first wrong answer; older frames lack it
  revealed: boolean;
  first?: number; // for a search: the number of its first step here
  forward?: boolean; // whether the columns of an alignment are monotonic
  enough?: number; // the overlap required to pass
}
export interface Judged {
  passed: boolean;
  message: string;
  marks: Board; // 0 nothing, 1 right, 2 wrong, 3 missed
  notes: string[]; // by row
  whole: boolean; // whether the board is a complete answer
  told: boolean; // whether sums, ranks and weights are shown: for a right answer, and from the second wrong one on
}

const SOME = 3; // wrong cells that are named
const SUM = "What counts is the sum: the score of a hypothesis, and the log probability of its next label.";

export const emptyBoard = ({ solution }: Step): Board => solution.map((row) => row.map(() => 0));

/** After the first wrong answer it tells how to find the mistake, without revealing the answer. */
export function judge({ head, blocks }: Frame<QuestionHead>, at: number, board: Board, first = false): Judged {
  const step = head.steps[at]!,
    { names, solution, says, right, known, ties, size, most } = step;
  const nothing = emptyBoard(step);
  const done = (message: string, marks: Board, passed = false, told = true, notes: string[] = []): Judged => ({
    passed,
    message,
    marks,
    notes,
    whole: true,
    told,
  });
  const unfinished = (message: string): Judged => ({ ...done(message, nothing, false, false), whole: false });
  const count = board.flat().filter(Boolean).length;
  if (size ? count !== size : !count && solution.flat().some(Boolean))
    return unfinished(
      size ? `${size} stay, and ${count} ${count === 1 ? "is" : "are"} picked.` : "Nothing is drawn yet.",
    );
  const marks = solution.map((row, r) =>
    row.map((wanted, c) => {
      const drawn = board[r]![c]!;
      return wanted === drawn || ties?.[r]![c] ? drawn : 3 - drawn;
    }),
  );
  if (!most) {
    const wrong = marks.flatMap((row, r) => row.flatMap((mark, c) => (mark > 1 ? [says[r]![c]!] : [])));
    if (!wrong.length) return done(right, marks, true);
    const usual = known.find(([other]) => JSON.stringify(other) === JSON.stringify(board));
    if (usual) return done(usual[1], first ? nothing : marks, false, !first);
    if (first && size) {
      const out = marks.flat().filter((mark) => mark === 2).length;
      const said = out
        ? `${out} of the ${size} that you picked ${out === 1 ? "goes" : "go"}.`
        : "A better one is left out.";
      return done(`${said} ${SUM}`, nothing, false, false);
    }
    if (first && wrong.length > 1) {
      const row = marks.findIndex((row) => row.some((mark) => mark > 1)),
        col = marks[row]!.findIndex((mark) => mark > 1),
        alone = marks.map((cells, r) => cells.map((mark, c) => (r === row && c === col ? mark : 0)));
      return done(`Wrong in ${wrong.length} places, one of them:\n${wrong[0]}`, alone, false, false);
    }
    const rest = wrong.length > SOME ? [`${wrong.length - SOME} more are marked.`] : [];
    const many = wrong.length === 1 ? "1 place" : `${wrong.length} places`;
    return done([`Wrong in ${many}:`, ...wrong.slice(0, SOME), ...rest].join("\n"), marks);
  }
  const rows = [...most.keys()].filter((r) => most[r]! > 0);
  for (const [index, r] of rows.entries()) {
    if (!board[r]!.includes(1)) return unfinished(`${names[r]} has no cell yet: draw at least one in each row.`);
    const before = rows[index - 1];
    if (head.forward && index && board[r]!.indexOf(1) < board[before!]!.lastIndexOf(1))
      return unfinished(`${names[r]} begins before ${names[before!]} ends: this alignment only goes forward.`);
  }
  const agreed = most.map((best, r) => (best ? common(board[r]!, (c) => weightAt(head, blocks, r, c)) / best : NaN)),
    mean = rows.reduce((sum, r) => sum + agreed[r]!, 0) / rows.length,
    least = rows.reduce((worst, r) => (agreed[r]! < agreed[worst]! ? r : worst), rows[0]!),
    enough = head.enough!,
    passed = mean >= enough;
  const words = `Agreement ${fixed(mean, 2)}, ${passed ? "enough" : "too little"}: it passes from ${fixed(enough, 2)}.`,
    told = passed || !first,
    why = told ? `: ${says[least]![0]}` : ".",
    where = agreed[least]! < 0.995 ? `\nLeast in ${names[least]}, ${fixed(agreed[least]!, 2)}${why}` : "",
    met = board.map((row, r) =>
      row.map((drawn, c) =>
        !drawn || !(agreed[r]! >= 0) ? 0 : solution[r]![c] ? 1 : weightAt(head, blocks, r, c) ? 0 : 2,
      ),
    );
  return done(
    words + where,
    told ? met : nothing,
    passed,
    told,
    agreed.map((value) => (value >= 0 ? fixed(value, 2) : "")),
  );
}

/** The weight of a cell of an alignment. */
export const weightAt = (head: QuestionHead, blocks: Frame["blocks"], r: number, c: number): number =>
  blocks["weights"]!.value(r * head.cols.length + c);

/** The overlap of a drawn row, spread evenly over its cells, with a row of weights. */
function common(drawn: number[], weight: (c: number) => number): number {
  const count = drawn.filter(Boolean).length;
  return drawn.reduce((sum, is, c) => sum + (is ? Math.min(1 / count, weight(c)) : 0), 0);
}

/** The fault of a frame as a sentence. */
export function problem({ head, blocks }: Frame<QuestionHead>): string | null {
  const all = Array.isArray,
    { cols, steps, form } = head,
    shape = blocks["weights"]?.shape;
  const good = ({ rows, names, solution, says, known, texts, after, ties, most }: Step) =>
    [rows, names, known, ...(form === "alignment" ? [most] : [])].every((list) => all(list) && list.length <= 1e4) &&
    [solution, says, texts ?? says, after ?? says, ties ?? solution].every(
      (grid) =>
        all(grid) &&
        grid.length === rows.length &&
        grid.every((row, r) => all(row) && row.length === solution[r]!.length),
    ) &&
    (form === "beam" ? texts && after : solution.every((row) => row.length === cols.length)) &&
    (form !== "alignment" || (shape?.[0] === rows.length && shape[1] === cols.length));
  return all(head.answer) &&
    all(cols) &&
    all(head.col_names) &&
    all(steps) &&
    steps.length &&
    steps.every((step) => step && good(step))
    ? null
    : "This question lacks what it asks about.";
}
