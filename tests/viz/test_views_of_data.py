"""Every number, label, line and mark of a view is in the data that it is made of: its text and picture are read, and compared with it.

The data is random, of fixed seeds; what is expected comes from the data alone, never from the spec of the view.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable

import numpy as np
import pytest
from asserting import randn, tensor
from waiting import LONG

import rfnb as rf
from rfnb import Dim
from rfnb.trace.probe import trace_context
from rfnb.trace.run_tree import AppliedChange, Branch, BranchPoint, Outcome, Tree
from rfnb.viz.control.spec import spec as control_spec
from rfnb.viz.drawing.shapes import Area, Cells, Drawing, Lines, Marks, Rect, Text
from rfnb.viz.kinds import drawing_of, text_of
from rfnb.viz.question.alignment import alignment_spec
from rfnb.viz.question.beam import beam_spec
from rfnb.viz.question.mask import mask_spec
from rfnb.viz.question.spec import answered
from rfnb.viz.spec import Spec

SEEDS = 24
WORDS = "the cat sat on a mat and it slept".split()


def of(made: Drawing, kind: type, **fields: object) -> list:
    """The shapes of a kind whose fields have these values."""
    return [
        shape
        for shape in made.shapes
        if isinstance(shape, kind) and all(getattr(shape, name) == value for name, value in fields.items())
    ]


def numbers(text: str) -> list[float]:
    return [float(found) for found in re.findall(r"-?\d+\.?\d*(?:e[+-]?\d+)?", text.replace("−", "-"))]


# -- question ----------------------------------------------------------------------------------------------------------


def read_grid(made: Drawing) -> tuple[np.ndarray, dict[int, str], dict[int, str]]:
    """The drawn cells, and the labels of rows and columns by their places."""
    [cells] = of(made, Cells)
    rows, cols = cells.bytes.shape
    high, wide = cells.height / rows, cells.width / cols
    left = {
        round((each.y - cells.y) / high - 0.5): each.text
        for each in of(made, Text, anchor="right")
        if each.x <= cells.x
    }
    above = {
        round((each.x - cells.x) / wide - 0.5): each.text
        for each in of(made, Text)
        if each.y < cells.y and each.x > cells.x and not each.bold
    }
    return cells.bytes > 0, left, above


def check_board(spec: Spec, board: np.ndarray, rows: list[str], cols: list[str]) -> None:
    spec = answered(spec, [board.astype(int).tolist()], "")
    [_, heads, *lines] = text_of(spec).splitlines()
    assert heads.split() == cols
    for line, label, cells in zip(lines, rows, board, strict=True):
        assert line.split() == [label, *("·■"[cell] for cell in cells.astype(int))]
    drawn, left, above = read_grid(drawing_of(spec))
    np.testing.assert_array_equal(drawn, board)
    assert left == dict(enumerate(rows)) and above == dict(enumerate(cols))


def mask_question(dice: np.random.Generator) -> None:
    rows, cols = dice.integers(2, 7, 2)
    lag = np.subtract.outer(np.arange(rows), np.arange(cols))
    mask = [dice.random((rows, cols)) > 0.4, lag >= 0, (lag >= 0) & (lag <= 2), abs(lag) <= 1, lag > 0][
        dice.integers(5)
    ]
    mask = mask & (np.arange(cols) < cols - dice.integers(2)) & (np.arange(rows)[:, None] < rows - dice.integers(2))
    names = [f"{WORDS[at]}{at}"[:3] for at in range(7)]
    spec = mask_spec("m", mask, target=names[:rows], source=names[:cols], asked="Draw.")
    check_board(spec, dice.random(mask.shape) > 0.5, names[:rows], names[:cols])
    true = {
        "it is itself": lambda r, c: r == c,
        "it is earlier": lambda r, c: c < r and not mask[lag < 0].any(),
        "it is later": lambda r, c: c > r and not mask[lag < 0].any(),
        "nothing hides it": lambda r, c: True,
        "no row sees it, as padding": lambda r, c: not mask[:, c].any(),
        "this row sees nothing, as padding": lambda r, c: not mask[r].any(),
    }
    for r, c in np.ndindex(*mask.shape):
        said = spec.head["steps"][0]["says"][r][c]
        begin = f'row {r} "{names[r]}" {"must" if mask[r, c] else "may not"} see column {c} "{names[c]}"'
        assert said.startswith(begin), said
        why = said.removeprefix(begin).strip(": .")
        if found := re.fullmatch(r"it is (\d+) (back|ahead), and the window has (\d+)", why):
            side = 1 if found[2] == "back" else -1
            far = (side * lag[mask]).max(initial=0)
            assert (int(found[1]), int(found[3])) == (side * lag[r, c], far) and side * lag[r, c] > far
        elif why:
            assert true[why](r, c), (said, mask)


def alignment_question(dice: np.random.Generator) -> None:
    rows, cols = dice.integers(2, 7, 2)
    weights = dice.integers(0, 4, (rows, cols)) * (dice.random((rows, 1)) > 0.2) + np.eye(rows, cols)
    weights = weights if dice.integers(2) else np.eye(rows, cols)[:, np.arange(cols) // 2]
    names = [f"{WORDS[at]}{at}"[:3] for at in range(7)]
    spec = alignment_spec("a", weights, target=names[:rows], source=names[:cols], asked="Draw.", forward=False)
    check_board(spec, dice.random((rows, cols)) > 0.5, names[:rows], names[:cols])
    [step] = spec.head["steps"]
    for r, row in enumerate(weights):
        if not row.any():
            continue
        said, most = step["says"][r][0], set(np.flatnonzero(row == row.max()))
        assert {int(at) for at in re.findall(r"column (\d+)", said)} <= most, said
        if said.startswith("most of its weight"):
            assert row.max() > row.sum() / 2, (said, row)
        shares = row / row.sum()
        common = [np.minimum(1 / n, np.sort(shares)[::-1][:n]).sum() for n in range(1, cols + 1)]
        assert step["most"][r] == pytest.approx(max(common), abs=1e-5)
        right = np.array(step["solution"][r], bool)
        assert shares[right].min() >= shares[~right].max(initial=0)
        assert np.minimum(1 / right.sum(), shares[right]).sum() == pytest.approx(max(common), abs=1e-5)


def beam_question(dice: np.random.Generator) -> None:
    size, count, steps = int(dice.integers(1, 4)), int(dice.integers(2, 6)), 3
    fields: dict[str, list] = {name: [] for name in "tokens parents scores ended".split()}
    cands: dict[str, list] = {f"cand_{name}": [] for name in "tokens parents scores kept".split()}
    scores, ended, prefixes, truth = np.zeros(1), np.zeros(1, bool), [[]], []
    for step in range(steps):
        gains = np.log(dice.dirichlet(np.ones(count), len(scores)))
        every = [
            (total, lane, label)
            for lane, base in enumerate(scores)
            for label, total in enumerate([base] if ended[lane] else base + gains[lane])
        ]
        every.sort(key=lambda one: -one[0])
        kept = every[:size]
        truth.append((scores, ended, prefixes, every, kept))
        for name, values in zip("tokens parents scores".split(), (2, 1, 0)):
            fields[name].append(np.array([one[values] for one in kept]))
            cands[f"cand_{name}"].append(np.array([one[values] for one in every]))
        cands["cand_kept"].append(np.arange(len(every)) < size)
        now = np.array([ended[lane] or (label == 0 and step > 0) for _, lane, label in kept])
        prefixes = [prefixes[lane] if ended[lane] else [*prefixes[lane], WORDS[label]] for _, lane, label in kept]
        scores, ended = np.array([one[0] for one in kept]), now
        fields["ended"].append(now)
    first = int(dice.integers(0, 2))
    if any(len(every) <= len(kept) for *_, every, kept in truth[first:]):
        return
    spec = beam_spec("b", {"labels": WORDS[:count], **fields, **cands}, steps=2, first=first, top=99, asked="Pick.")
    for number in range(2):
        scores, ended, prefixes, every, kept = truth[first + number]
        boards = [step["solution"] for step in spec.head["steps"][: number + 1]]
        [_, stay, *lines] = re.sub(r"\n +", "  ", text_of(answered(spec, boards, ""))).splitlines()
        assert stay == f"step {first + number}: {len(kept)} stay"
        digits = len(re.search(r"\.(\d+)\)", lines[0])[1])
        near, sums, ranks = 0.6 * 10.0**-digits, [], []
        assert len(lines) == len({lane for _, lane, _ in every})
        for line, says in zip(lines, spec.head["steps"][number]["says"]):
            lane = int(found[1]) if (found := re.match(r"lane (\d+)", line)) else 0
            assert line.startswith(f"lane {lane}: {' '.join(prefixes[lane])} (" if prefixes[lane] else "the start (")
            shown = re.findall(r"([■·])\s+(\S+)\s+(−?[\d.]+)", line)
            mine = [one for one in every if one[1] == lane]
            assert len(shown) == len(mine)
            for (picked, label, gain), (total, _, at), said in zip(shown, mine, says):
                assert label == ("complete" if ended[lane] else WORDS[at])
                assert numbers(gain)[0] == pytest.approx(total - scores[lane], abs=2 * near)
                assert (picked == "■") == ((total, lane, at) in kept)
                base, step, sum_, rank, of_all = numbers(said.split('": ')[1].replace("+ ", "").replace("− ", "-"))
                assert base + step == pytest.approx(sum_, abs=1e-9) and sum_ == pytest.approx(total, abs=near)
                sums.append(sum_)
                ranks.append(rank)
                assert of_all == len(every)
                assert said.endswith("stays." if picked == "■" else "goes.")
        assert ranks == [1 + sum(other > sum_ for other in sums) for sum_ in sums]
        last, out, margin = numbers(spec.head["steps"][number]["right"].replace("that", ""))
        assert (last, out) == pytest.approx((min(kept)[0], max(one[0] for one in every if one not in kept)), abs=near)
        assert margin == pytest.approx(last - out, abs=1e-9)


def question(dice: np.random.Generator) -> None:
    for check in (mask_question, alignment_question, beam_question):
        for _ in range(4):
            check(dice)


# -- diff --------------------------------------------------------------------------------------------------------------


def diff(dice: np.random.Generator) -> None:
    paths, steps, width = int(dice.integers(1, 40)), int(dice.integers(1, 6)), int(dice.integers(1, 5))
    values = dice.standard_normal((2, steps, paths, width)).astype(np.float32)
    values *= (10.0 ** dice.integers(-3, 4, (steps, paths, 1))).astype(np.float32)
    same = dice.random((steps, paths)) < dice.choice([0.3, 0.8, 1.0])
    values[1][same] = values[0][same]
    feat, time = Dim(width, name="feat"), Dim(steps, name="time", kind="spatial")
    there = dice.random((steps, paths)) < 0.9
    there[0] = True
    traces = []
    for run in values:
        with rf.record(limit=1 << 28) as trace:
            for step in range(steps):
                with trace_context.loop("loop", step, time):
                    for path in np.flatnonzero(there[step]):
                        with trace_context.module(f"layer{path}"):
                            rf.probe("states", h=tensor(run[step, path], feat))
        traces.append(trace)
    view = rf.viz.diff(*traces, names=("one", "other"))
    apart = np.abs(values[0].astype(np.float64) - values[1]).max(-1)
    apart[~there] = np.nan
    differ = apart > 0
    text = view.text()
    found = re.findall(
        r"^  (layer\d+) +(.+?)  (from (\d+)( \(first of all\))? +largest (\S+) +at (\d+)|the same)", text, re.M
    )
    wrong = [path for path in range(paths) if differ[:, path].any()]
    listed = wrong or list(range(paths))
    assert [label for label, *_ in found] == [f"layer{path}" for path in listed[:24]]
    first = next(((step, path) for step in range(steps) for path in range(paths) if differ[step, path]), None)
    for (_, bars, said, begin, mark, largest, at), path in zip(found, listed):
        assert [bar == " " for bar in bars.ljust(steps)[:steps]] == np.isnan(apart[:, path]).tolist()
        assert [bar == "·" for bar in bars.ljust(steps)[:steps]] == (apart[:, path] == 0).tolist()
        assert (said == "the same") == (path not in wrong)
        if path in wrong:
            assert int(begin) == np.flatnonzero(differ[:, path])[0]
            assert bool(mark) == (first == (int(begin), path))
            assert float(largest) == pytest.approx(np.nanmax(apart[:, path]), rel=6e-3)
            assert int(at) == np.nanargmax(apart[:, path])
    rest = re.findall(r"and (\d+) more paths(?: that do not differ|, (\S+) of which differ)?", text)
    if paths > len(found):
        [(more, differing)] = rest
        assert int(more) == paths - len(found)
        assert int(differing or 0) == len(wrong) - len([path for path in listed[:24] if path in wrong])
    else:
        assert not rest
    made = drawing_of(view.spec)
    cells = of(made, Cells)[0]
    labels = {
        round((each.y - cells.y) / 16 - 0.5): each
        for each in of(made, Text, anchor="left", size=11)
        if each.x == 0 and each.y > cells.y
    }
    labels = {row: each for row, each in labels.items() if row < len(cells.bytes)}
    assert cells.bytes.shape == (paths, steps)
    assert [labels[path].text for path in range(paths)] == [f"layer{path}" for path in range(paths)]
    assert [labels[path].bold for path in range(paths)] == [path in wrong for path in range(paths)]
    np.testing.assert_array_equal(cells.bytes == 0, np.isnan(apart).T)
    np.testing.assert_array_equal(cells.bytes > 1, differ.T)
    boxes = of(made, Rect, stroke="warn")
    pitch = cells.width / steps
    assert [(round((box.x + 1.5 - cells.x) / pitch), round((box.y + 1.5 - cells.y) / 16)) for box in boxes] == (
        [first] if first else []
    )
    size = np.maximum(np.abs(values).max((0, 3)), np.sqrt((np.square(values, dtype=np.float64)).mean(3)).max(0))
    dots = {
        (round((x - cells.x) / pitch - 0.5), round((y - cells.y) / 16 - 0.5))
        for marks in of(made, Marks, color="paper")
        for x, y in marks.points
    }
    assert dots == {(int(step), int(path)) for step, path in np.argwhere(np.nan_to_num(apart) > size * 128 * 2.0**-23)}
    if first:
        a, b, minus = of(made, Cells)[1:4]
        pair = values[:, first[0], first[1]]
        limits = [np.abs(pair).max()] * 2 + [np.abs(pair[0] - pair[1]).max()]
        for cells_, row, limit in zip((a, b, minus), (*pair, pair[0] - pair[1]), limits):
            np.testing.assert_allclose((cells_.bytes[0].astype(int) - 128) / 127, row / limit, atol=0.01)


# -- graphs: plan and flow ---------------------------------------------------------------------------------------------


def read_graph(made: Drawing) -> tuple[list[str], dict[tuple[str, str], int], dict[str, float]]:
    """The first line of each box, how many lines there are from box to box, and the heights of the boxes."""
    boxes = [box for box in of(made, Rect) if box.stroke in ("ink", "warn") and box.fill]
    named = {}
    for box in boxes:
        inside = [
            each
            for each in of(made, Text, anchor="middle", size=12)
            if abs(each.x - box.x - box.width / 2) < 0.1 and box.y < each.y < box.y + box.height
        ]
        [named[id(box)]] = [each.text for each in inside]
    tips = {(x, y - 5) for area in of(made, Area) for _, (x, y), _ in area.paths}

    def box_at(x: float, y: float, below: bool) -> str:
        [box] = [
            box
            for box in boxes
            if box.x - 12 <= x <= box.x + box.width + 12 and abs(y - (box.y - 6 if below else box.y + box.height)) < 0.2
        ]
        return named[id(box)]

    edges: dict[tuple[str, str], int] = {}
    for line in of(made, Lines):
        [path] = line.paths
        (x0, y0), (x1, y1) = path[0], path[-1]
        if any(abs(y1 - y) < 0.01 and abs(x1 - x) < 40 for x, y in tips):
            ends = box_at(x0, y0, False), box_at(x1, y1, True)
            edges[ends] = edges.get(ends, 0) + 1
    return list(named.values()), edges, {named[id(box)]: box.y + box.height / 2 for box in boxes}


UNARY = "tanh exp sin cos sqrt relu sigmoid abs square".split()
BINARY = "maximum minimum add mul sub".split()
CALLS = {"abs": abs, "add": lambda a, b: a + b, "mul": lambda a, b: a * b, "sub": lambda a, b: a - b}


def plan(dice: np.random.Generator) -> None:
    """A body of random ops, each of another name, of the state and of frames: what reads what, and what needs the state, is known."""
    batch, feat, time = Dim(2, name="batch"), Dim(3, name="feat"), Dim(4, name="time")
    x = tensor(dice.random((2, 4, 3)).astype(np.float32), batch, time, feat, name="x")
    loop = rf.Loop(axis=time, name="body")
    loop.state.h = rf.zeros([batch, feat])
    reads: dict[str, list[str]] = {}
    known = ["state.h", "frame of x"]
    for name in map(str, dice.permutation([*UNARY, *BINARY])[: dice.integers(3, 12)]):
        reads[name] = list(map(str, dice.choice(known, 1 if name in UNARY else 2, replace=False)))
        known.append(name)
    after, out = known[-1], known[int(dice.integers(2, len(known)))]
    with loop:
        values = {"state.h": loop.state.h, "frame of x": loop.unstack(x)}
        for name, take in reads.items():
            values[name] = CALLS.get(name, getattr(rf, name, None))(*(values[each] for each in take))
        loop.state.h = values[after]
        loop.stack(values[out])

    def needs(name: str) -> set[str]:
        return {name}.union(*(needs(other) for other in reads.get(name, [])))

    def place(name: str) -> str:
        return "before" if "state.h" not in needs(name) else "inside" if name in needs(after) else "after"

    used = needs(after) | needs(out)
    ops = {name: place(name) for name in reads}
    view = rf.viz.plan(loop)
    where, number, found, empty = "", {}, {}, set()
    tail = {}
    for text in re.sub(r"\n {6,}", "  ", view.text()).splitlines()[1:]:
        if begin := re.match(r"(before|inside|after): ", text):
            where = begin[1]
            empty = {*empty, where} if text.endswith("(nothing)") else empty
        elif row := re.match(r"  (#\d+) +(\w+) +\[(.*?)\] +from (.+?)  +test_views_of_data.py:\d+$", text):
            number[row[1]] = row[2]
            found[row[2]] = where
            assert [number.get(name, name) for name in row[4].split(", ")] == list(dict.fromkeys(reads[row[2]]))
            dims = {"batch=2", "feat=3"} | ({"time=4"} if where != "inside" else set())
            assert set(row[3].split(", ")) == dims
        else:
            left, right = text.split(" = ")
            tail[left] = number.get(right, right)
    for name, where in found.items():
        assert where == ops[name] or name not in used, (name, where, ops, reads)
    assert used & set(reads) <= set(found) and empty == {"before", "inside", "after"} - set(found.values())
    assert tail["next h"] == after and tail["stack 0"] == out
    assert tail.get("state.h") == (
        "next h of the step before" if "state.h" in {each for name in found for each in reads[name]} else None
    )
    made = drawing_of(view.spec)
    boxes, edges, heights = read_graph(made)
    names = {f"{at} {name}": name for at, name in number.items()}
    assert set(names) <= set(boxes)
    true = {(other, name) for name in found for other in reads[name]} | {(after, "next h"), (out, "stack 0")}
    lines = {(names.get(high, high), names.get(low, low)) for high, low in edges}
    assert lines - {("next h", "state.h")} == true
    assert (("next h", "state.h") in lines) == ("state.h" in tail)
    bands = {each.text.split(":")[0]: each.y for each in of(made, Text, size=12, color="muted", halo=True)}
    for label, name in names.items():
        assert max((top for top in bands.values() if top < heights[label]), default=None) == bands[found[name]]


REPEATS = (4, 3)


class Net(rf.Module):
    """Layers that each read what another one has made, some of it after an op that keeps its dims."""

    def __init__(self, layers: list[tuple[str, str, bool, Dim, Dim]]):
        self.names = [(name, source, bent) for name, source, bent, _, _ in layers]
        for name, _, bent, low, high in layers:
            some = [rf.Functional(rf.sin) for _ in range(REPEATS[bent])]
            setattr(self, name, rf.Sequential(some) if low is high else rf.Linear(low, high))

    def __call__(self, x: rf.Tensor, *, other: rf.Tensor) -> rf.Tensor:
        made = {"input 1": x, "other": other}
        for name, source, bent in self.names:
            made[name] = getattr(self, name)(rf.tanh(made[source]) if bent else made[source])
        return made[name]


def flow(dice: np.random.Generator) -> None:
    """Layers in a net, each of another name: what reads what, and the dims of that, are known."""
    batch, sizes = Dim(2, name="batch"), dice.permutation(np.arange(3, 9))
    time, pool = Dim(4, name="time"), [Dim(int(size), name=f"{'pqrstu'[at]}{at}") for at, size in enumerate(sizes)]
    dim_of, layers = {"input 1": pool[0], "other": pool[1]}, []
    for at in range(int(dice.integers(2, 8))):
        source = str(dice.choice(list(dim_of)))
        keeps = dice.random() < 0.2
        out = dim_of[source] if keeps else [dim for dim in pool if dim is not dim_of[source]][dice.integers(5)]
        layers.append((f"{WORDS[at]}_{at}", source, bool(dice.integers(2)), dim_of[source], out))
        dim_of[layers[-1][0]] = out
    net, knows = Net(layers), bool(dice.integers(3))
    with rf.record(ops=knows) as trace:
        net(randn(batch, time, pool[0]), other=randn(batch, time, pool[1], seed=1))
    spec = rf.viz.flow(trace, dot=False).spec
    true: dict[tuple[str, str], set[str]] = {}
    dims = lambda dim: {"batch", "time", dim.name}  # noqa: E731
    last_name, *_, last_dim = layers[-1]
    if knows:
        true = {(source, name): dims(low) for name, source, _, low, _ in layers}
        true[last_name, "result"] = dims(last_dim)
    else:  # from each call that has a dim to the next one
        last = dict.fromkeys(dims(pool[0]), "input 1") | dict.fromkeys(dims(pool[1]), "other")
        for name, low, high in [
            *((name, low, high) for name, _, _, low, high in layers),
            ("result", last_dim, last_dim),
        ]:
            for dim in dims(low):
                if dim in last:
                    true.setdefault((last[dim], name), set()).add(dim)
            last |= dict.fromkeys(dims(low) | dims(high), name)
    text = re.sub(r"\n {6,}", "  ", text_of(spec))
    assert ("The data flow was not recorded" in text) != knows
    title, *lines = text.split("The data flow was")[0].splitlines()
    assert title == "Flow of dims through Net"
    legend = {
        found[1]: (found[2], int(found[3])) for line in lines if (found := re.match(r"  (\w+) +(\w+)=(\d+)", line))
    }
    there = {
        dim.name: dim.size
        for dim in (batch, time, *pool)
        if any(dim in (a, b) for *_, a, b in layers) or dim in (batch, time, *dim_of.values())
    }
    named = {name for ends in true for name in ends}
    assert dict(legend.values()).items() <= there.items() and len(set(legend)) == len(legend)
    before, seen = "", dict[str, str]()
    for line in lines[lines.index("") + 1 :]:
        label, times, marks, rest = re.match(r"(\S+(?: 1)?)( × \d)? +((?:\[[^]]*\](?: → )?)+)(.*)", line).groups()
        sides = [{legend[mark][0] for mark in side.split()} for side in re.findall(r"\[([^]]*)\]", marks)]
        reads = rest.partition("from ")[2].split(", ") if "from " in rest else None
        sources = [high for high, low in true if low == label]
        assert reads is None or set(reads) == set(sources), (line, true)
        assert reads is not None or sources in ([before], []), (line, true)
        layer = next((one for one in layers if one[0] == label), None)
        if layer is None:
            assert sides == [dims(last_dim if label == "result" else dim_of[label])]
        else:
            keeps = layer[3] is layer[4]
            assert sides == [dims(layer[3]), dims(layer[4])][keeps:]
            change = [] if keeps else [f"{layer[3].name} → {layer[4].name}"]
            assert [each for each in rest.partition("from ")[0].strip(" ,").split(", ") if each] == change
            assert times == (f" × {REPEATS[layer[2]]}" if keeps and knows else None)
        before, seen[label] = label, times or ""
    assert named <= set(seen) <= {*dim_of, "result"} and {name for name, *_ in layers} <= set(seen)
    made = drawing_of(spec)
    boxes, edges, _ = read_graph(made)
    assert sorted(boxes) == sorted(label + times for label, times in seen.items())
    assert {(high.partition(" ×")[0], low.partition(" ×")[0]): count for (high, low), count in edges.items()} == {
        ends: len(names) for ends, names in true.items()
    }
    glyphs = sorted(each.text for each in of(made, Text, size=9.5))
    assert sorted(legend[glyph][0] for glyph in glyphs) == sorted(name for names in true.values() for name in names)


# -- control and explore -----------------------------------------------------------------------------------------------


def control(dice: np.random.Generator) -> None:
    """Two loops, one after the other, stepped, held at a step, branched; ended by an error, a stop, or the end."""
    sizes = {"one": int(dice.integers(1, 5)), "two": int(dice.integers(1, 5))}
    every = [(path, step) for path, size in sizes.items() for step in range(size)]
    fails, made = int(dice.integers(len(every))) if dice.random() < 0.4 else None, []

    def body() -> None:
        for path, size in sizes.items():
            for step in rf.Loop(axis=Dim(size, name="time"), name=path):
                made.append((path, step))
                if every.index((path, step)) == fails:
                    raise ValueError("told so")

    def say(run: rf.Run) -> tuple[str, list[str]]:
        made_of = control_spec(run)
        first, *more = text_of(made_of).splitlines()
        drawn = [each.text for each in of(drawing_of(made_of), Text)]
        assert [line.strip() for line in (first, *more)] == [line.strip() for line in drawn]
        return first, [line.strip() for line in more]

    run = rf.run(body, paused=True, name="r")
    assert run.wait(LONG)
    assert say(run)[0] == 'r: Paused before step 0 of "one": it was started paused.'
    steps = int(dice.integers(1, len(every) + 1))
    run.step(steps)
    run.wait(LONG)
    over = fails is not None and fails < steps
    assert made == every[: fails + 1 if over else steps]
    held_at = int(dice.integers(0, 4))
    if not over and steps < len(every):
        path, step = every[steps]
        assert (
            say(run)[0]
            == f'r: Paused before step {step} of "{path}": {steps} step{"s were" if steps > 1 else " was"} made.'
        )
        run.break_when(held_at)
        run.resume()
        run.wait(LONG)
        hits = [at for at in range(steps + 1, len(every)) if every[at][1] == held_at and (fails is None or at <= fails)]
        first, more = say(run)
        assert f"breakpoint step {held_at}, hit {'once' if hits else '0 times'}" in more
        if hits:
            path, step = every[hits[0]]
            assert (
                len(made) == hits[0]
                and first == f'r: Paused before step {step} of "{path}": breakpoint step {held_at}.'
            )
            run.stop()
            first, more = say(run)
            assert first == f"r: Stopped after {len(made)} step{'s' * (len(made) != 1)}, without a result."
            return
    first, more = say(run)
    if fails is not None and len(made) == fails + 1:
        path, step = every[fails]
        assert first == f'r: Failed in step {step} of "{path}": ValueError: told so'
    else:
        assert first == f"r: Done after {len(every)} step{'s' * (len(every) > 1)}." and made == every
    at = int(dice.integers(len(made)))
    branch = run.from_step(every[at][1], path=every[at][0], name="b")
    branch.wait(LONG)
    first, more = say(branch)
    path, step = every[at]
    assert first == f'b: Paused before step {step} of "{path}": here it branches from r.'
    assert more[-1] == f'b, from step {step} of "{path}" of r, paused  <- shown'
    branch.stop()
    assert say(branch)[0] == f"b: Stopped after {at} step{'s' * (at != 1)}, without a result."


def explore(dice: np.random.Generator) -> None:
    """Values one after the other: what stands below them is theirs, their error, or said to be of others."""
    go, bad = threading.Event(), int(dice.integers(2, 9))
    go.set()

    def fn(a: int, b: str) -> str:
        go.wait(LONG)
        if a == bad:
            raise ValueError(f"not {a}")
        return f"{a} times {b}"

    def expected(a: int, b: str) -> list[str]:
        return [f'explore: a = {a}, b = "{b}"', f"ValueError: not {a}" if a == bad else f"{a} times {b}"]

    explorer, good = rf.explore(fn, a=1, b="x"), (1, "x")
    for _ in range(4):
        a, b = int(dice.integers(2, 9)), WORDS[dice.integers(len(WORDS))]
        if explorer.values == {"a": a, "b": b}:  # nothing to be run
            continue
        go.clear()
        explorer.set(a=a, b=b)
        assert explorer.text().splitlines() == [
            expected(a, b)[0],
            "It has no result yet.",
            f'The views below still show a = {good[0]}, b = "{good[1]}".',
            expected(*good)[1],
        ]
        go.set()
        assert explorer.wait(LONG)
        assert explorer.text().splitlines() == expected(a, b)
        good = good if a == bad else (a, b)


# -- branches ----------------------------------------------------------------------------------------------------------


def edits_between(a: list[str], b: list[str]) -> int:
    costs = list(range(len(b) + 1))
    for i, one in enumerate(a):
        now = [i + 1]
        for j, other in enumerate(b):
            now.append(min(now[j] + 1, costs[j + 1] + 1, costs[j] + (one != other)))
        costs = now
    return costs[-1]


def branches(dice: np.random.Generator) -> None:
    """A tree of runs, each with what it has come to, and attention that was recorded in its steps."""
    count, seqs, steps = int(dice.integers(2, 6)), int(dice.choice([1, 2, 18])), int(dice.integers(2, 7))
    time, source = Dim(steps, name="time", kind="spatial"), Dim(4, name="source")
    made: list[Branch] = []
    weights = dice.random((count, steps, 4)).astype(np.float32)
    weights[-1] = np.where(dice.random((steps, 1)) < 0.5, weights[0], weights[-1])
    for at in range(count):
        with rf.record() as trace:
            for step in range(steps):
                with trace_context.loop("loop", step, time):
                    rf.probe("attention", weights=tensor(weights[at, step], source), axis=source)
        ticks, parent = int(dice.integers(1, steps + 1)), made[dice.integers(at)] if at else None
        tick = int(dice.integers(0, min(ticks, len(parent.steps)))) if parent else 0
        left = BranchPoint(tick, "loop", tick) if parent else None
        changes = tuple(
            AppliedChange(each, "loop", each, f"forced {WORDS[each]}")
            for each in range(tick, ticks)
            if dice.integers(2)
        )
        labels = tuple(tuple(map(str, dice.choice(WORDS[:4], dice.integers(1, 7)))) for _ in range(seqs))
        labels = labels[: seqs - (seqs > 1 and at > 0 and bool(dice.integers(2)))]
        outcome = Outcome("", labels, tuple(map(float, -dice.random(len(labels)) * 9)))
        name, state = f"run{at}", str(dice.choice(["done", "stopped", "failed"]))
        taken = tuple(("loop", each) for each in range(ticks))
        made.append(
            Branch(name, parent.name if parent else None, left, taken, changes, state, outcome=outcome, trace=trace)
        )
    tree = Tree(made)
    view = rf.viz.branches(tree)
    text = view.text()
    for branch in made:
        [story] = re.findall(rf"^ *(?:└─ )?{branch.name}: (.*)$", text, re.M)
        came = f'leaves {branch.parent} before step {branch.left.tick} of "loop"; ' if branch.left else ""
        assert story == f"{came}{len(branch.steps)} step{'s' * (len(branch.steps) != 1)}, {branch.state}"
    picture = drawing_of(view.spec)
    scale = {
        each.x: int(each.text)
        for each in of(picture, Text, anchor="middle", size=10, color="muted")
        if each.text.isdigit() and each.y < 40
    }
    (x0, t0), (x1, t1) = min(scale.items()), max(scale.items())
    tick_at = lambda x: round((x - x0) / (x1 - x0) * (t1 - t0) + t0, 6)  # noqa: E731
    height = {
        each.text: each.y + 6 for each in reversed(of(picture, Text, anchor="left", size=11)) if each.text in tree
    }
    lines = [path for shape in of(picture, Lines) for path in shape.paths]
    for branch in made:
        y = height[branch.name]
        [(start, end)] = [(a, b) for (a, ya), (b, yb) in (path for path in lines if len(path) == 2) if ya == yb == y]
        left = branch.left.tick if branch.left else 0
        assert (tick_at(start), tick_at(end)) == (left, len(branch.steps))
        if branch.parent:
            assert [(start, height[branch.parent]), (start, y)] in lines
        own = sorted({change.tick for change in branch.changes})
        rings = [tick_at(x) for marks in of(picture, Marks, shape="ring") for x, at in marks.points if at == y]
        assert sorted(rings) == own
        end_of = {"done": "dot", "stopped": "square", "failed": "cross"}[branch.state]
        assert any((end, y) in marks.points for marks in of(picture, Marks, shape=end_of, radius=4.0))
    b, a = made[-1], tree[made[-1].parent]
    letters = {each.text: each.y for each in of(picture, Text, anchor="middle", bold=True) if each.x == 8}
    assert letters == {"A": height[a.name], "B": height[b.name]}
    has = [len(branch.outcome.seqs) for branch in (a, b)]
    shown, seqs = min(max(has), 16), max(has)
    assert (f"and {seqs - shown} more sequences" in text) == (seqs > shown)
    assert any(each.text == f"and {seqs - shown} more sequences" for each in of(picture, Text)) == (seqs > shown)
    begins = [each for each in of(picture, Text, bold=True) if each.text.startswith("sequence ")]
    assert len(begins) == shown
    for seq, begin in enumerate(begins):
        if seq >= min(has):
            assert begin.text.startswith(f"sequence {seq}: only in {'AB'[has[1] > has[0]]}, score")
            continue
        far = edits_between(list(a.outcome.seqs[seq]), list(b.outcome.seqs[seq]))
        scores = f"score A {a.outcome.scores[seq]:.3f}, score B {b.outcome.scores[seq]:.3f}".replace("-", "−")
        assert begin.text.startswith(f"sequence {seq}: ") and begin.text.endswith(scores)
        assert sum(map(int, re.findall(r"(\d+) (?:sub|ins|del)", begin.text))) == far
        rows = [
            [
                each.text
                for each in sorted(of(picture, Text, anchor="middle", size=11), key=lambda each: each.x)
                if abs(each.y - begin.y - down) < 1
            ]
            for down in (20, 40)
        ]
        for row, branch in zip(rows, (a, b)):
            assert [label for label in row if label != "–"] == list(branch.outcome.seqs[seq])
        frames = [box for box in of(picture, Rect, stroke="accent") if abs(box.y - begin.y - 10) < 1]
        assert len(frames) == far == sum(one != other for one, other in zip(*rows))
    apart = weights[made.index(a)] - weights[made.index(b)]
    [largest] = re.findall(r"The largest difference is (\S+)\.\s", text + "\n") or [0]
    assert float(largest) == pytest.approx(np.abs(apart).max(), rel=5e-3)
    cells = [each.bytes.astype(int) for each in of(picture, Cells) if each.bytes.shape == (steps, 4)]
    if largest:
        [*_, minus] = cells
        full = next(each["head"]["range"][1] for each in view.spec.head["parts"] if each["head"].get("signed"))
        assert np.abs(apart).max() <= full * (1 + 1e-6) and full <= np.abs(apart).max() * 1.1
        np.testing.assert_allclose((minus - 128) / 127, apart / full, atol=0.01)
        for drawn, branch in zip(cells, (a, b)):
            true = weights[made.index(branch)]
            assert (np.diff(drawn.ravel()[np.argsort(true, axis=None)]) >= 0).all()


KINDS: dict[str, Callable[[np.random.Generator], None]] = {
    "question": question,
    "diff": diff,
    "plan": plan,
    "flow": flow,
    "branches": branches,
    "control": control,
    "explore": explore,
}


@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.parametrize("kind", KINDS)
def test_what_a_view_shows_is_in_its_data(kind, seed):
    KINDS[kind](np.random.default_rng(seed))
