"""The three laws, for every public op: order, padding, backend. Inputs are random and the same in every run."""

import pytest
from asserting import public
from hypothesis import HealthCheck, given, settings
from laws import LAWS, Run
from table import CASES, EXEMPT, read_entries
from world import EXAMPLES, hard_worlds, worlds

import rfnb as rf

read_entries()
_settings = settings(
    max_examples=EXAMPLES, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)


@pytest.mark.parametrize("name", CASES)
def test_laws(name):
    def check(world):
        run = Run(CASES[name], world)
        for law in LAWS:
            LAWS[law](run, world)

    for world in hard_worlds():
        check(world)
    _settings(given(world=worlds)(check))()


def names_without_case(public):
    """Those of the public names that neither the table nor the list of exempt names has."""
    return sorted(set(public) - {name.split()[0] for name in CASES} - set(EXEMPT))


def public_names():
    return [name for name in public() if not name.startswith("_") and not isinstance(getattr(rf, name), type(rf))]


def test_every_public_op_is_in_the_table():
    assert names_without_case(public_names()) == []


def test_a_new_public_op_without_case_is_seen():
    assert names_without_case([*public_names(), "new_op"]) == ["new_op"]


def test_the_list_of_exempt_names_has_only_public_names_with_a_reason():
    assert [name for name in EXEMPT if not hasattr(rf, name) or not EXEMPT[name]] == []
    assert [name for name in CASES if not hasattr(rf, name.split()[0])] == []
