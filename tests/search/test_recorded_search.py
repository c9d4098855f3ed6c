"""Searches in recorded loops: whatever differs from one search to the next, they find bit for bit what a loop of Python finds."""

from itertools import product

import numpy as np
import pytest
from recorded_searches import BASE, CHANGES, search

import rfnb as rf
from rfnb.rec.search_steps import SearchSteps


@pytest.fixture
def at_once(monkeypatch):
    """The numbers of steps that were made in one call."""
    made, run_on = [], SearchSteps.run_on

    def noted(self, *args):
        made.append(run_on(self, *args))
        return made[-1]

    monkeypatch.setattr(SearchSteps, "run_on", noted)
    return made


def check(**settings):
    expected, found = search("for", **settings), search("with", **settings)
    assert expected.keys() == found.keys()
    for name, value in expected.items():
        np.testing.assert_array_equal(value, found[name], err_msg=f"{name} with {settings}", strict=True)


def test_a_usual_search_makes_its_steps_at_once(at_once):
    check(**BASE | {"lengths": [4]})
    assert sum(at_once) == BASE["steps"] - 2


def test_a_search_without_a_way_on_says_so_in_its_step():
    settings, texts = BASE | {"kind": "impossible", "extra": ("no_end",), "lengths": [4]}, []
    for face in ("for", "with"):
        with pytest.raises(ValueError, match="no hypothesis is left") as error:
            search(face, **settings)
        texts.append([line for line in str(error.value).splitlines() if "scores" not in line])  # over the same dims
    assert texts[0] == texts[1]


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in CHANGES.items() for value in values])
def test_what_differs_from_the_search_before_is_looked_at(name, value):
    check(**BASE)
    changed = BASE | {name: value}
    check(**changed)
    check(**changed | {"seed": 3, "lengths": [2, 4]})
    check(**BASE)


@pytest.mark.parametrize(("soon", "beam", "lengths"), [*product([0.0, 1.0, 5.0], [4, 6], [[3], [5, 3]])])
def test_steps_are_made_at_once_also_when_some_hypotheses_have_ended(at_once, soon, beam, lengths):
    check(**BASE | {"ends_soon": soon, "beam": beam, "lengths": lengths, "steps": 25})
    assert sum(at_once) > 0


@pytest.mark.parametrize("kind", CHANGES["kind"])
@pytest.mark.parametrize("face", ["for", "with"])
def test_somebody_who_listens_changes_nothing(face, kind):
    """Also where a step chooses twice, the second time from scores that were made before the first."""
    settings = BASE | {"kind": kind}
    expected = search(face, **settings)
    with rf.record():
        found = search(face, **settings)
    for name, value in expected.items():
        np.testing.assert_array_equal(value, found[name], err_msg=name, strict=True)
