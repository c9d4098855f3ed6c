"""Every kind of view with one thing wrong, in Python: text, HTML and picture say so in a sentence, and the frame of a page is made.

RFNB_MUTATIONS=3000 RFNB_SEED=7 tries more that is wrong, and other things.
"""

from __future__ import annotations

import copy
import io
import os
import random
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image
from seed import SEED
from viz.bad_specs import bad, good, worse
from viz.odd_views import weights

import rfnb as rf
from rfnb.viz import View
from rfnb.viz.drawing.img import lighter
from rfnb.viz.drawing.png import png
from rfnb.viz.drawing.svg import svg
from rfnb.viz.drawing.theme import theme
from rfnb.viz.kinds import drawing_of
from rfnb.viz.spec import Spec, pack, unpack

_SOME = 8  # of a kind
MANY = int(os.environ.get("RFNB_MUTATIONS", "0"))  # by hand: thousands
_SENTENCE = "cannot be drawn"


def drawn(spec: Spec) -> str:
    """All forms of a view; what they say."""
    view = View(spec)
    said = view.text() + view.html()
    assert said.strip() and "<x>" not in view.html()
    picture = drawing_of(spec)
    ElementTree.fromstring(svg(picture, theme("light")))
    Image.open(io.BytesIO(png(lighter(picture), theme("dark")))).load()
    assert unpack(view._page()[1]).kind == spec.kind
    return said + picture.alt


@pytest.mark.parametrize("spec", good(), ids=lambda spec: f"{spec.kind} {len(spec.blocks)}")
def test_what_is_wrong_in_a_spec_is_a_sentence_and_never_an_exception(spec):
    assert _SENTENCE not in drawn(spec)
    every, head = list(bad(spec)), copy.deepcopy(spec.head)
    for name, one in random.Random(len(every) + SEED).sample(every, min(_SOME, len(every))):
        try:
            drawn(one)
        except Exception as error:
            raise AssertionError(f"{spec.kind}: {name}") from error
    assert spec.head == head  # which what is wrong shares with it


@pytest.mark.parametrize("spec", good(), ids=lambda spec: f"{spec.kind} {len(spec.blocks)}")
def test_several_things_wrong_at_once_are_a_sentence_too(spec):
    dice = random.Random(SEED)
    for _ in range(max(_SOME, MANY // 10)):
        name, one = worse(spec, dice)
        try:
            drawn(one)
        except Exception as error:
            raise AssertionError(f"{spec.kind}: {name}") from error


def test_a_frame_with_some_bytes_changed_is_refused_or_drawn():
    for number, spec in enumerate(good()):
        frame, dice = pack(spec), random.Random(number)
        for _ in range(40):
            broken = bytearray(frame)
            for at in dice.sample(range(len(frame)), 3):
                broken[at] = dice.randrange(256)
            try:
                found = unpack(bytes(broken[: dice.choice([len(frame), len(frame) // 2])]))
            except ValueError:
                continue
            if found.kind in {one.kind for one in good()}:
                drawn(found)


ARGUMENTS = {
    "attention: labels": lambda: rf.viz.attention(weights(3, 4), source=["a"]),
    "attention: rank 0": lambda: rf.viz.attention(np.float32(1)),
    "attention: rank 6": lambda: rf.viz.attention(np.ones((1,) * 6)),
    "attention: nothing": lambda: rf.viz.attention(None),
    "attention: objects": lambda: rf.viz.attention(np.array([[object()]])),
    "attention: lists": lambda: rf.viz.attention([[1, 2], [3]]),
    "attention: lengths": lambda: rf.viz.attention(weights(3, 4), source_lengths=[9]),
    "attention: mask": lambda: rf.viz.attention(weights(3, 4), mask=np.ones((2, 2), bool)),
    "states: labels": lambda: rf.viz.states({"h": weights(3, 4)}, steps=["a"]),
    "states: rank 0": lambda: rf.viz.states({"h": np.float32(1)}),
    "states: rank 5": lambda: rf.viz.states({"h": np.ones((1,) * 5)}),
    "states: lists": lambda: rf.viz.states({"h": [[1, 2], [3]]}),
    "states: steps": lambda: rf.viz.states({"h": weights(3, 4), "c": weights(5, 4)}),
    "beams: nothing": lambda: rf.viz.beams(None),
    "beams: sizes": lambda: rf.viz.beams(tokens=[[1, 2]], parents=[[0]], scores=[[1.0, 2.0]]),
    "beams: parents": lambda: rf.viz.beams(tokens=[[1], [1]], parents=[[0], [7]], scores=[[1.0], [2.0]]),
    "distribution: labels": lambda: rf.viz.distribution(weights(3, 4), labels=["a"]),
    "distribution: nothing": lambda: rf.viz.distribution(None),
    "dims: names": lambda: rf.viz.dims(weights(3, 4), names=["a"]),
    "dims: nothing": lambda: rf.viz.dims(None),
    "curves: lengths": lambda: rf.viz.curves({"y": ([1, 2], [1])}),
    "curves: text": lambda: rf.viz.curves({"y": "abc"}),
    "curves: rank 2": lambda: rf.viz.curves({"y": weights(3, 4)}),
    "plan: nothing": lambda: rf.viz.plan(None),
}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_wrong_arguments_are_refused_with_what_to_type_instead(name):
    with pytest.raises((ValueError, TypeError)) as refused:
        ARGUMENTS[name]()
    lines = str(refused.value).splitlines()
    assert lines[0].split(":")[0].split(",")[0] in (name.split(":")[0], "viz")
    assert any(line.startswith("  ") for line in lines[1:-2]) and lines[-1].startswith("    ")
