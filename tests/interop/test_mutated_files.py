"""Files of each kind with one thing changed in what they say: each is refused when it is read, by our error, or does what it did.

RFNB_MUTATIONS=3000 RFNB_SEED=7 changes more of them, and in other ways.
"""

import hashlib
import io
import json
import math
import os
import random
import tempfile
from pathlib import Path

import pytest
import torch
from interop.mutations import ODD, damaged, header_of, mutated_often, with_header
from seed import SEED
from yesterday.opened import trainer_of_state, unpacked

import rfnb as rf
from rfnb.core.errors import parts_of
from rfnb.core.tree import values_in
from rfnb.models.g2p_checkpoint import load_g2p
from rfnb.viz.show import view_of
from rfnb.viz.spec import from_json, unpack

FOLDER = Path(__file__).parents[1] / "yesterday" / "0.1.0"
MANY = int(os.environ.get("RFNB_MUTATIONS", "40"))  # of each kind; by hand: thousands


def looks(trace, path):
    """All that can be looked at of a recording, one call each."""
    yield lambda: print(trace, trace.summary(), trace.tree, trace.training)
    for look in (trace.attention, trace.states, trace.modules, trace.beams):
        for at in list(look):
            yield lambda look=look, at=at: look.runs(at)
    for at in list(trace.beams):
        yield lambda at=at: [history.text() for history in trace.beams.runs(at)]
    for event in trace.events:
        for leaf in values_in(dict(event.values)):
            if isinstance(leaf, rf.Tensor) and leaf.raw_tensor is not None:
                yield lambda leaf=leaf: (leaf.numpy(), repr(leaf))
    for draw in (view_of, rf.viz.flow):
        yield lambda draw=draw: (view := draw(trace)).text() + view.html()
    yield lambda: rf.diff(trace, trace)
    for value in (trace.tree, trace.training):
        if value is not None:
            yield lambda value=value: (view := view_of(value)).text() + view.html()
    branches = [] if trace.tree is None else list(trace.tree.values())
    for branch in branches:
        yield lambda branch=branch: (
            repr(branch),
            branch.own_changes,
            dict(branch.outcome.values),
            branch.outcome == branch.outcome,
        )
        yield lambda branch=branch: str(rf.compare_runs(branches[0], branch))
        yield lambda branch=branch: branch.trace.summary() + view_of(branch.trace).text()
    for example in [] if trace.training is None else trace.training.examples:
        yield lambda example=example: view_of(example.trace).text()
    yield lambda: (trace.training or trace).save(path)
    yield lambda: rf.load_trace(path)


def use_recording(trace):
    """Read all of it, and write it again; oddities of the recording are reported in rfnb's own words."""
    with tempfile.TemporaryDirectory() as folder:
        for look in looks(trace, Path(folder) / "again.rfnb"):
            try:
                look()
            except Exception as error:
                if parts_of(error) is None:
                    raise


def metadata_of(key):
    def write(data, rng):
        header, arrays = header_of(data)
        about = header["__metadata__"]
        changed, words = mutated_often(json.loads(about[key]), rng)
        return with_header({**header, "__metadata__": {**about, key: json.dumps(changed)}}, arrays), words

    return write


def as_json(data, rng):
    changed, words = mutated_often(json.loads(data), rng)
    return json.dumps(changed).encode(), words


def specs(path):
    for data in json.loads(path.read_text()).values() if isinstance(json.loads(path.read_text()), dict) else ():
        from_json(data)


def frame(path):
    unpack(path.read_bytes())


def changed_state(data, rng):
    """A training state of which one thing is another one, with its right checksum."""
    top, _, rest = data.partition(b"\n")
    state, places = torch.load(io.BytesIO(rest[32:]), weights_only=True), []

    def look(value):
        for key in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
            places.append((value, key))
            look(value[key])

    look(state)
    container, key = rng.choice(places)
    if rng.randrange(3) == 0:
        del container[key]
    else:
        container[key] = rng.choice(
            [*ODD, torch.zeros(2), torch.zeros(0), torch.eye(3).to_sparse(), math.nan, math.inf, container]
        )
    buffer = io.BytesIO()
    torch.save(state, buffer)
    data = buffer.getvalue()
    return top + b"\n" + hashlib.sha256(data).digest() + data, f"{key!r}"


def use_state(path):
    """Load it; a refused file changes nothing, and training continues from an accepted one."""
    trainer = trainer_of_state()
    before = [value.clone() for value in trainer.parameters]
    try:
        trainer.load(path)
    except ValueError:
        assert (
            all(torch.equal(value, was) for value, was in zip(trainer.parameters, before, strict=True))
            and not trainer.steps_done
        )
        raise
    trainer.step(0.5) if trainer.steps_done < trainer.total_steps else None


def use_random(path):
    before = rf.get_random_state()
    try:
        state = {name: bytes.fromhex(text) if isinstance(text, str) else text for name, text in read_text(path).items()}
        rf.set_random_state(state)
        rf.get_static_step_based_seed(), rf.random_normal([rf.Dim(3, name="x")])
    except ValueError:
        assert rf.get_random_state() == before
        raise
    finally:
        rf.set_random_state(before)


def read_text(path):
    return json.loads(path.read_text())


def changed_random(data, rng):
    state = json.loads(data)
    name = rng.choice(list(state))
    inside, how = bytes.fromhex(state[name]), rng.randrange(3)
    if how == 0:
        state[name] = rng.choice([None, 3, [1], {}])
    elif how == 1 and name == "static":
        changed, words = mutated_often(json.loads(inside), rng)
        return json.dumps({**state, name: json.dumps(changed).encode().hex()}).encode(), words
    else:
        state[name] = damaged(inside, rng)[0].hex()
    return json.dumps(state).encode(), name


def nothing(_):
    """Nothing is left to look at: all was read."""


KINDS = {
    "run.rfnb": (metadata_of("rfnb"), rf.load_trace, use_recording, "load_trace: "),
    "tree.rfnb": (metadata_of("rfnb"), rf.load_trace, use_recording, "load_trace: "),
    "training.rfnb": (metadata_of("rfnb"), rf.load_trace, use_recording, "load_trace: "),
    "g2p.safetensors": (metadata_of("config"), load_g2p, nothing, ""),
    "specs.json": (as_json, specs, nothing, "from_json: "),
    "frames.json": (damaged, frame, nothing, "unpack: "),
    "state.pt": (changed_state, use_state, nothing, ""),
    "random.json": (changed_random, use_random, nothing, "set_random_state: "),
    "layers.npz": (damaged, rf.load_params, nothing, "load_params: "),
    "layers.pt": (damaged, rf.load_torch_checkpoint, nothing, "load_torch_checkpoint: "),
}  # fmt: skip


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.filterwarnings("ignore")
def test_a_file_that_says_something_else_is_refused_when_it_is_read_or_does_what_it_did(name, tmp_path):
    change, read, use, what = KINDS[name]
    data, rng = unpacked(FOLDER, name).read_bytes(), random.Random(SEED)
    if name == "frames.json":
        data = bytes.fromhex(json.loads(data)["states"])
    refused = 0
    for _ in range(MANY):
        changed, words = change(data, rng)
        path = tmp_path / name
        path.write_bytes(changed)
        try:
            value = read(path)
        except ValueError as error:
            refused += 1
            assert (parts_of(error) is not None or type(error) is rf.CheckpointError) and str(error).startswith(what), (
                words
            )
            continue
        use(value)
    assert refused or name == "specs.json"  # of which little is needed
