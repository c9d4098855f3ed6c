"""The way from a cell of a view to a command: what a page would ask names what the cell shows."""

from __future__ import annotations

import math
import queue
import re

import numpy as np
import pytest
import torch
from control.held_models import sums
from control.seen_models import VOCAB, nested, search
from viz.stored_files import assert_stored
from waiting import LONG

import rfnb as rf
from rfnb.control.commands import obey
from rfnb.models import load_g2p, pronounce
from rfnb.trace.editing import BESIDE
from rfnb.viz import trace_page
from rfnb.viz.control.run_view import edit_handles_of
from rfnb.viz.group import spec as group


def views(run):
    """The parts of the view of a held run by kind."""
    parts = group.parts_of(trace_page.spec(run.trace, handles=edit_handles_of(run)))
    return {kind: [part for part in parts if part.kind == kind] for kind in ("beams", "attention", "states")}


def place(held, row, *, after=0):
    """The step that a row is of, as `from_step` takes it; the states of a row are those before the step after it."""
    step = held["steps"][row] if "steps" in held else row
    return {"step": step + after, "path": held["path"], "nth": held["nth"]}


def entries(held, row, seq, unit=None, slot=None):
    """The entries that a cell is of, by the names of dims."""
    found = dict(held.get("fixed", {}))
    for number, dims in ((seq, held["seqs"]), (unit, held.get("units", []))):
        if number is None:
            continue
        for name, size in reversed(dims):
            number, found[name] = divmod(number, size)
    if "slot" in held:
        found[held["slot"]] = slot
    return {name: at for name, at in found.items() if name not in held.get("lacks", {}).get(str(row), [])}


def of_named(value, wanted):
    """The part of a Tensor at entries by name."""
    return value.numpy()[tuple(wanted.get(dim.name, slice(None)) for dim in value.dims)]


@pytest.fixture(
    params=[{}, {"heads": 1, "beam": 4}, {"face": "with"}, {"batches": 2}, {"batches": 2, "turns": True}],
    ids=["for", "one head", "with", "two batch dims", "in another order in each step"],
)
def searched(request):
    run = rf.run(search(**request.param))
    assert run.result is not None
    return run


def test_the_states_of_each_cell_are_those_before_the_step_that_its_command_names(searched):
    run, seen = searched, 0
    [part] = views(run)["states"]
    tracks = {track["label"]: track for track in part.head["tracks"]}
    held = tracks["h"]["held"]
    assert held["path"] == "decode" and held["state"] == "h"
    if "slots_of_best" in part.head:
        assert any(any(slots[:-1]) for slots in part.head["slots_of_best"]["after"])  # that it is not slot 0 matters
    for row in range(len(run.steps) - 1):
        where = place(held, row, after=1)
        branch = run.from_step(where.pop("step"), **where)
        branch.wait()
        state = branch.at.states["h"]
        for seq, entry in enumerate(part.head["seqs"]):
            if row >= entry["len"]:
                continue
            slot = part.head["slots_of_best"]["after"][seq][row] if "slots_of_best" in part.head else None
            for unit in range(math.prod(size for _, size in held["units"])):
                wanted = entries(held, row, seq, unit, slot)
                assert state[wanted] == part.blocks[tracks["h"]["block"]][seq, row, unit]
                seen += 1
        branch.stop()
    assert seen > 40


def test_the_gates_of_each_cell_are_those_that_its_command_puts_others_in_the_place_of():
    model = load_g2p()
    run = rf.run(pronounce, model, "parachute", beam_size=4, record={"model": model})
    run.wait(LONG)
    parts = [
        part for part in views(run)["states"] if any("gate" in track.get("held", {}) for track in part.head["tracks"])
    ]
    [part] = parts
    tracks = [track for track in part.head["tracks"] if "gate" in track.get("held", {})]
    names = {track["held"]["gate"] for track in tracks}
    assert names == {f"decoder.lstm.{name}" for name in ("input_gate", "forget_gate", "cell_input", "output_gate")}
    slots = part.head["slots_of_best"]["before"][0]
    assert slots[5]  # slot 0 would not tell it from others
    for track in tracks:
        for row in (0, 5, len(slots) - 1):
            where = place(track["held"], row)
            asked = entries(track["held"], row, 0, 5, slots[row])
            put, answers = (
                {"do": "put", "place": track["held"]["gate"], "entries": asked, "value": 0.125},
                queue.Queue(),
            )
            branch = obey(run, {"do": "edit", **where, "then": [put]}, answers.put)
            assert answers.get(timeout=LONG) is None and branch.wait(LONG)
            name = track["held"]["gate"].rpartition(".")[2]
            before, after = (
                next(
                    event.values[name]
                    for event in one.trace.by_path("states")["decoder.lstm.gates"]
                    if one.place_of(event.entry).step == row
                )
                for one in (run, branch)
            )
            assert len(np.argwhere(before.numpy() != after.numpy())) == 1
            assert of_named(after, asked) == np.float32(0.125)
            assert of_named(before, asked) == part.blocks[track["block"]][0, row, 5]


def test_a_head_that_is_scaled_by_its_command_is_the_head_that_its_map_shows():
    torch.manual_seed(5)
    transformers = pytest.importorskip("transformers")
    sizes = {"vocab_size": 11, "n_positions": 32, "n_embd": 16, "n_layer": 2, "n_head": 2}
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(**sizes, bos_token_id=1, eos_token_id=2)).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    ids = torch.tensor([[3, 4, 5, 9]])
    options = {"max_new_tokens": 5, "do_sample": False, "attention_mask": ids >= 0, "pad_token_id": 0}
    run = rf.run(lambda: model.generate(ids, **options), record={"model": model})
    run.wait(LONG)
    _, part = views(run)["attention"]  # the first is of the prompt
    results = []
    for entry in part.head["maps"]:
        held = entry["held"]
        for how, same in (({"value": 0}, 0), ({"scale": 0.5}, lambda weights: weights * 0.5)):
            put = {"do": "put", "place": held["weights"], "entries": held["fixed"], "lasting": True, **how}
            answers = queue.Queue()
            branch = obey(run, {"do": "edit", **place(held, 0), "then": [put]}, answers.put)
            assert answers.get(timeout=LONG) is None and branch.wait(LONG)
            layer, head = held["attention"], held["fixed"]["head"]
            with rf.edit(model, {f"{layer}.weights[head={head}]": same}):
                assert torch.equal(branch.result, model.generate(ids, **options))
            assert f"[head={head}]: {'× 0.5' if callable(same) else 0} from here on" in str(branch.changes[0])
            results.append(tuple(branch.result.flatten().tolist()))
    assert len(results) == 8 and len(set(results)) > 4
    for wrong in ({}, {"value": 0, "scale": 1}):
        obey(run, {"do": "put", "place": "h.0.attn.weights", **wrong}, answers.put)
        assert "nothing waits" in (said := answers.get(timeout=LONG)) or "one of" in said


@pytest.mark.parametrize("cell", [torch.nn.LSTMCell, torch.nn.GRUCell])
def test_gates_of_torch_are_refused_with_the_reason_in_the_view_and_in_code(cell):
    model = cell(2, 3)

    def read():
        state = None
        for step in range(3):
            rf.gate(step)
            state = model(torch.ones(1, 2), state)

    run = rf.run(read, record={"model": model}, paused=True)
    run.step(2)
    tracks = {track["label"]: track for part in views(run)["states"] for track in part.head["tracks"]}
    gates = {"LSTMCell": "input_gate forget_gate cell_input output_gate", "GRUCell": "reset_gate update_gate candidate"}
    assert {name for name, track in tracks.items() if track.get("cannot") == BESIDE} == set(
        gates[cell.__name__].split()
    )
    gate = gates[cell.__name__].split()[0]
    with pytest.raises(ValueError, match=re.escape(f'edit: "{gate}" is not a result of this module.')) as error:
        run.at.edit({gate: 0.0})
        run.step()
        raise run.error
    assert BESIDE in str(error.value)


def test_without_a_recorded_model_gates_are_only_looked_at():
    run = rf.run(pronounce, load_g2p(), "knight", beam_size=2)
    run.wait(LONG)
    assert not any("gate" in track.get("held", {}) for part in views(run)["states"] for track in part.head["tracks"])


def test_the_weights_of_each_cell_are_those_of_the_step_and_entries_that_its_command_names(searched):
    run, seen = searched, 0
    [part] = views(run)["attention"]
    assert len(part.head["maps"]) in (1, 2)
    events = {run.place_of(event.entry): event for event in run.trace.select(kind="attention")}
    for entry in part.head["maps"]:
        held = entry["held"]
        assert held["axis"] == "source" and held["widths"] == 5
        for row in range(len(run.steps)):
            where = place(held, row)
            [event] = [event for at, event in events.items() if at[:3] == (where["path"], where["nth"], where["step"])]
            assert event.path == held["attention"]
            for seq, of in enumerate(part.head["seqs"]):
                if row >= of["row_len"]:
                    continue
                slot = part.head["slots_of_best"]["before"][seq][row] if "slots_of_best" in part.head else None
                weights = of_named(event.values["weights"], entries(held, row, seq, slot=slot))
                np.testing.assert_array_equal(weights, part.blocks[entry["block"]][seq, row])
                seen += 1
    assert seen > 12


def texts_of(run, seq, step):
    history = run.trace.beams["decode"]
    return [history.hypothesis(seq, slot, step) for slot in range(history.beam_size(step))]


def test_forcing_what_was_cut_keeps_this_very_label_after_this_very_hypothesis(searched):
    run, seen = searched, 0
    [part] = views(run)["beams"]
    held, history = part.head["held"], run.trace.beams["decode"]
    assert part.head["vocab"] == VOCAB.vocab
    for seq, of in enumerate(part.head["seqs"]):
        for step, entry in enumerate(of["steps"]):
            for cut in entry["cuts"][:: 2 + seq]:
                if step and history.steps[step - 1]["ended"][seq, cut["parent"]]:
                    continue  # it goes on with nothing
                before = history.hypothesis(seq, cut["parent"], step - 1) if step else []
                assert VOCAB.vocab[cut["id"]] == cut["token"]
                where = place(held, step)
                forced = lambda at, cut=cut, seq=seq: at.force(cut["id"], hypothesis=cut["parent"], seq=seq)  # noqa: E731
                branch = run.from_step(where.pop("step"), forced, **where)
                assert branch.result is not None and branch.drifted is None
                assert [*before, cut["id"]] in texts_of(branch, seq, step)
                assert [*before, cut["id"]] not in texts_of(run, seq, step)
                others = set(range(history.num_seqs)) - {seq}
                assert all(texts_of(branch, other, step) == texts_of(run, other, step) for other in others)
                seen += 1
    assert seen > 10


@pytest.mark.parametrize("ended", ["stay", "leave"])
def test_a_page_forces_labels_of_raw_step_functions_and_where_what_ends_leaves_the_beam(ended):
    table = np.log(np.random.default_rng(3).dirichlet(np.ones(6), size=6)).astype(np.float32)

    def searching():
        step = lambda labels, state: (torch.from_numpy(table)[labels], state)  # noqa: E731
        return rf.beam_search(step, batch=2, max_seq_len=5, beam_size=3, ended=ended, start_label=1)

    run = rf.run(searching)
    run.wait()
    [part] = views(run)["beams"]
    held, history, seen = part.head["held"], run.trace.beams["search"], 0
    for seq, of in enumerate(part.head["seqs"]):
        for step, entry in enumerate(of["steps"]):
            for cut in entry["cuts"][:3]:
                if step and history.steps[step - 1]["ended"][seq, cut["parent"]]:
                    continue
                before = history.hypothesis(seq, cut["parent"], step - 1) if step else []
                forced = lambda at, cut=cut, seq=seq: at.force(cut["id"], hypothesis=cut["parent"], seq=seq)  # noqa: E731
                branch = run.from_step(step, forced, path=held["path"], nth=held["nth"])
                assert branch.wait(LONG) and branch.state == "done", branch.reason
                found = branch.trace.beams["search"]
                texts = [found.hypothesis(seq, slot, step) for slot in range(found.beam_size(step))]
                assert [*before, cut["id"]] in texts
                seen += 1
    assert seen > 10


def test_a_hypothesis_is_numbered_as_the_step_after_it_numbers_it(searched):
    """Banning the label that a node has, of the hypothesis before it, takes away this node."""
    run = searched
    [part] = views(run)["beams"]
    for seq, of in enumerate(part.head["seqs"]):
        for step, entry in list(enumerate(of["steps"]))[:3]:
            for slot, label in enumerate(entry["ids"]):
                if entry["scores"][slot] is None or (step and of["steps"][step - 1]["ended"][entry["parents"][slot]]):
                    continue
                where, parent = place(part.head["held"], step), entry["parents"][slot]
                path = run.trace.beams["decode"].hypothesis(seq, slot, step)
                banned = lambda at: at.ban(label, hypothesis=parent, seq=seq)  # noqa: E731, B023
                branch = run.from_step(where.pop("step"), banned, **where)
                assert branch.result is not None
                assert path in texts_of(run, seq, step) and path not in texts_of(branch, seq, step)


def test_loops_in_loops_have_each_run_by_its_own_number():
    run = rf.run(nested)
    assert run.result is not None
    parts = views(run)["states"]
    seen = {}
    for part in parts:
        for track in part.head["tracks"]:
            held = track["held"]
            rows = part.head["seqs"][0]["len"]
            for row in range(rows):
                where = place(held, row, after=1)
                try:
                    branch = run.from_step(where["step"], path=where["path"], nth=where["nth"])
                except IndexError:
                    assert row == rows - 1  # after its last step nothing comes
                    continue
                branch.wait()
                state = branch.at.states[held["state"]]
                block = part.blocks[track["block"]][0, row]
                own = [float(state[entries(held, row, 0, unit)]) for unit in range(3)]
                np.testing.assert_array_equal(own, block)
                seen.setdefault(branch.at.path, []).append(own)
                branch.stop()
    assert {path: len(rows) for path, rows in seen.items()} == {"words": 2, "words.letters": 1 + 3 + 2, "letters": 3}


@pytest.mark.parametrize("face", ["for", "with"])
def test_ragged_sequences_of_a_plain_loop(face):
    run = rf.run(sums(face))
    assert run.result is not None
    [part] = views(run)["states"]
    [track] = part.head["tracks"]
    held = track["held"]
    assert held == {"path": "sums", "nth": 0, "seqs": [["batch", 3]], "units": [["feat", 5]], "state": "h"}
    for row in range(6):
        branch = run.from_step(row + 1)
        branch.wait()
        for seq in range(3):
            for unit in range(5):
                assert (
                    branch.at.states["h"][entries(held, row, seq, unit)] == part.blocks[track["block"]][seq, row, unit]
                )
        branch.stop()


def test_what_was_changed_is_said_at_the_row_of_its_step():
    run = rf.run(search(), paused=True)
    run.wait()
    run.step(2)
    run.at.force("b", hypothesis=0, seq=2)
    run.step()
    run.at.states["h"][{"batch": 0}] = 0.0
    run.resume()
    assert run.result is not None
    words = [change.words for change in run.changes]
    for part in (part for parts in views(run).values() for part in parts):
        assert part.head["hands"] == [[2, words[0]], [3, words[1]]]


def test_a_page_finds_the_same_steps_and_entries():
    """The file is read by `widgets/tests/handles.test.ts`; that `place` and `entries` are right is tested above."""
    cells = []
    for function in (search(batches=2), sums("for"), nested):
        run = rf.run(function)
        assert run.result is not None
        parts = views(run)
        for entry in [
            *(part.head["maps"][1] for part in parts["attention"]),
            *(p.head["tracks"][0] for p in parts["states"]),
        ]:
            held, after = entry["held"], 0 if "attention" in entry["held"] else 1
            most = [math.prod(size for _, size in held.get(name, [])) for name in ("seqs", "units")]
            for row, seq, unit, slot in ((0, 0, 0, 0), (1, most[0] - 1, most[1] - 1, 2)):
                unit = unit if "units" in held else None
                cells.append({
                    "held": held, "row": row, "after": after, "seq": seq, "unit": unit, "slot": slot,
                    "place": place(held, row, after=after), "entries": entries(held, row, seq, unit, slot),
                })  # fmt: skip
    assert len(cells) == 16
    assert_stored("edit_handles.json", cells)


def test_without_a_run_nothing_of_this_is_in_a_view():
    with rf.record() as trace:
        search()()
    for part in group.parts_of(trace_page.spec(trace)):
        assert not {"held", "hands", "vocab", "slots_of_best"} & set(part.head)
        entries_ = [*part.head.get("maps", []), *part.head.get("tracks", [])]
        assert not any("held" in entry for entry in entries_)
        steps = [step for seq in part.head["seqs"] for step in seq["steps"]] if part.kind == "beams" else []
        assert not any("ids" in step for step in steps)


def test_what_a_module_offers_is_no_state_that_can_be_set():
    """Gates and whole layers are computed, and carried by nobody."""
    batch, time, feat = rf.Dim(2, name="batch"), rf.Dim(4, name="time"), rf.Dim(3, name="feat")
    lstm = rf.LSTM(feat, rf.Dim(5, name="unit"))
    x = rf.random_normal([batch, time, feat])

    def steps():
        loop = rf.Loop(axis=time, name="steps")
        loop.state.lstm = lstm.default_initial_state(batch_dims=[batch])
        for _ in loop:
            rf.probe("states", h=loop.state.lstm.h * 2.0)
            _, loop.state.lstm = lstm(loop.unstack(x), state=loop.state.lstm, spatial_dim=rf.single_step_dim)
        return lstm(x, state=lstm.default_initial_state(batch_dims=[batch]), spatial_dim=time)

    run = rf.run(steps)
    assert run.result is not None
    tracks = [(part.head["title"], track) for part in views(run)["states"] for track in part.head["tracks"]]
    own = {track["held"]["state"] for _, track in tracks if "held" in track}
    assert len(tracks) > 6 and own == {"lstm.h", "lstm.c"}


def asked(run, **fields):
    """The answer to a command of a page, and the branch that it has made."""
    answers = queue.Queue()
    branch = obey(run, {"do": "edit", **fields}, answers.put)
    return answers.get(timeout=LONG), branch


def test_an_edit_is_made_where_the_run_stands_before_the_step_else_in_a_branch():
    run = rf.run(search(), paused=True)
    run.wait()
    run.step(2)
    ban = {"do": "ban", "label": 1, "seq": 2}
    assert asked(run, path="decode", nth=0, step=2, then=[ban]) == (None, None)
    assert [change.step for change in run.changes] == [2] and run.state == "paused"
    said, branch = asked(run, path="decode", nth=0, step=1, then=[ban])
    assert said is None and branch.result is not None and branch.parent is run  # it runs on, though its parent waits
    assert run.state == "paused" and branch.then == ({**ban},)
    run.resume()
    assert run.result is not None
    said, branch = asked(run, path="decode", nth=0, step=1, then=[ban])
    assert said is None and branch.result is not None  # there is nobody who waits
    assert [change.step for change in branch.changes] == [1]


def test_an_edit_that_cannot_be_made_leaves_no_branch():
    run = rf.run(search(), paused=True)
    run.wait()
    run.step(3)
    force = {"do": "force", "label": 99}
    for step in (1, 3):
        said, branch = asked(run, path="decode", nth=0, step=step, then=[force])
        assert said.startswith("force: no label 99.")
        assert branch is None or branch._gate.until_over(LONG)
    assert run.branches == [] and not run.changes and run.at.step == 3
    assert asked(run, path="decode", nth=1, step=1, then=[force])[0].startswith("from_step: no step 1 of decode.")


def test_what_a_page_sets_is_the_cell_that_it_shows():
    run = rf.run(search(heads=1), paused=True)
    run.wait()
    run.step(3)
    [part] = views(run)["states"]
    [track] = [track for track in part.head["tracks"] if track["label"] == "h"]
    held, slots = track["held"], part.head["slots_of_best"]["after"]
    before = run.at.states["h"].numpy().copy()
    set_ = {"do": "set", "state": held["state"]}
    seq, unit, row = 1, 3, 2
    to = entries(held, row, seq, unit, slots[seq][row])
    zero = {**set_, "entries": to, "value": 0}
    assert asked(run, path=held["path"], nth=0, step=3, then=[zero]) == (None, None)
    now, changed = run.at.states["h"], before.copy()
    changed[tuple(to[dim.name] for dim in now.dims)] = 0.0
    np.testing.assert_array_equal(now.numpy(), changed)
    to = entries(held, row, seq, None, slots[seq][row])
    paste = {**set_, "entries": to, "how": "paste", "from": place(held, 0, after=1)}
    paste["of"] = entries(held, 0, seq, None, slots[seq][0])
    assert asked(run, path=held["path"], nth=0, step=3, then=[paste]) == (None, None)
    shown = part.blocks[track["block"]][seq, 0]
    np.testing.assert_array_equal(run.at.states["h"][to].ravel(), shown)
    nowhere = {**paste, "from": {"path": "decode", "nth": 3, "step": 1}}
    said, _ = asked(run, path=held["path"], nth=0, step=3, then=[nowhere])
    assert said == "State 'h' was not recorded before that step."


def test_tracks_that_are_put_together_with_gates_keep_the_slots_of_their_hypothesis():
    """Without them a page could not say which hypothesis a state is of, and would set that of all."""
    batch, vocab = rf.Dim(2, name="batch"), rf.Dim(6, name="vocab")
    embed, unit = rf.Embedding(vocab, rf.Dim(5, name="width")), rf.Dim(7, name="unit")
    lstm, output = rf.LSTM(embed.out_dim, unit), rf.Linear(unit, vocab)

    def searching():
        loop = rf.Loop(max_seq_len=5, name="search")
        loop.state.label = rf.constant(1, dims=[batch], dtype="int64", sparse_dim=vocab)
        loop.state.lstm = lstm.default_initial_state(batch_dims=[batch])
        for _ in loop:
            out, loop.state.lstm = lstm(embed(loop.state.label), state=loop.state.lstm, spatial_dim=rf.single_step_dim)
            loop.state.label = rf.choice(rf.log_softmax(output(out), axis=vocab), axis=vocab, beam_size=3)
            loop.end(loop.state.label == 0, include_eos=True)

    run = rf.run(searching)
    run.wait()
    [part] = views(run)["states"]
    held = [track["held"] for track in part.head["tracks"] if "held" in track]
    assert len(part.head["tracks"]) > len(held) == 2 and {one["slot"] for one in held} == {"beam"}
    for seq, slots in enumerate(part.head["slots_of_best"]["after"]):
        assert slots == [slot for _, slot in run.trace.beams["search"].best(seq).path]


def test_while_a_run_waits_the_page_has_all_hypotheses_to_choose_from():
    run = rf.run(search(heads=1), paused=True)
    run.wait()
    run.step(3)
    state = run.at.states["h"]
    [states], [attention] = (views(run)[kind] for kind in ("states", "attention"))
    assert states.head["live"]
    [track] = [track for track in states.head["tracks"] if track["label"] == "h"]
    for slot in range(3):
        shown = states.blocks[track["slots"]][1, 2, slot]
        np.testing.assert_array_equal(state[{"batch": 1, "beam": slot}].ravel(), shown)
    assert attention.head["maps"][0]["slots"] in attention.blocks


def test_the_row_that_a_page_draws_is_that_of_the_cell():
    run = rf.run(search(), paused=True)
    run.wait()
    run.step(3)
    [part] = views(run)["attention"]
    entry, seq, row = part.head["maps"][1], 2, 1
    held, slots = entry["held"], part.head["slots_of_best"]["before"]
    to = entries(held, row, seq, slot=slots[seq][row])
    drawn = {"do": "attention", "path": held["attention"], "entries": to, "row": [0.5, 0.0, 0.25, 0.25, 0.0]}
    said, branch = asked(run, **place(held, row), then=[drawn])
    assert said is None and branch.wait(LONG)
    old, new = ([e.values["weights"] for e in one.trace.select(kind="attention")][row] for one in (run, branch))
    wanted = old.numpy().copy()
    wanted[tuple(to.get(dim.name, slice(None)) for dim in old.dims)] = drawn["row"]
    assert [dim.name for dim in new.dims] == [dim.name for dim in old.dims]
    np.testing.assert_allclose(new.numpy(), wanted, atol=1e-6)
