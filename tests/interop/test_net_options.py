"""Options that are missing, or no options: each says what is needed, never a KeyError of its own."""

from __future__ import annotations

import pytest

import rfnb as rf
import rfnb.interop.net.network  # registers the classes
from rfnb.interop.net.layer import registry

EXTERN = {"data": {"dim": 4}, "classes": {"dim": 4, "sparse": True}}
GIVEN = [{}, {"from": "data"}, {"from": ["data", "data"]}, {"from": "data", "n_out": 3}]


def _refusal(net):
    with pytest.raises((ValueError, TypeError, RuntimeError)) as caught:
        rf.net_from_dict(net, EXTERN)
    return caught.value


@pytest.mark.parametrize("in_loop", [False, True])
@pytest.mark.parametrize("kind", sorted(registry))
def test_a_layer_with_few_options_is_built_or_says_what_it_needs(kind, in_loop):
    for given in GIVEN:
        layer = {"class": kind, **given}
        net = {"output": {"class": "rec", "from": "data", "unit": {"output": layer}}} if in_loop else {"output": layer}
        try:
            rf.net_from_dict(net, EXTERN)
        except (ValueError, TypeError, RuntimeError) as error:
            first, *rows = str(error).splitlines()
            assert rows and first.endswith((".", "?", ":")), error


@pytest.mark.parametrize("kind", [kind for kind in sorted(registry) if getattr(registry[kind], "required", ())])
def test_each_option_that_a_class_needs_is_named_when_it_is_missing(kind):
    required = registry[kind].required
    for missing in required:
        given = {option: "data" for option in required if option != missing}
        error = _refusal(
            {"output": {"class": kind, **({"from": [("data", "F")]} if kind == "concat" else {}), **given}}
        )
        assert str(error).startswith(f'Layer "output" of class "{kind}": {missing} is missing.\n  needed  {missing}\n')


def test_several_missing_options_are_listed_with_the_next_line():
    assert str(_refusal({"output": {"class": "split_dims", "from": "data"}})) == (
        'Layer "output" of class "split_dims": options are missing.\n'
        "  needed  axis, dims\n"
        "  given   class, from\n"
        "Layers of this class require it.\n"
        '    "output": {..., "axis": ...}'
    )


@pytest.mark.parametrize("given", [5, [5], None, {"a": "data"}])
def test_from_is_a_name_or_names(given):
    assert str(_refusal({"output": {"class": "copy", "from": given}})) == (
        'Layer "output" of class "copy": "from" is not a layer.\n'
        f"  from  {given!r}\n"
        '"from" is the name of a layer, or a list of names.\n'
        '    "output": {..., "from": "data"}'
    )


@pytest.mark.parametrize("given", ["data", ["data", "data"], [["data", "F", 1]]])
def test_a_concat_takes_pairs(given):
    assert str(_refusal({"output": {"class": "concat", "from": given}})) == (
        'Layer "output" of class "concat": "from" is not a list of pairs.\n'
        f"  from  {given!r}\n"
        "A pair (layer, axis) describes each source.\n"
        '    "output": {..., "from": [("a", "F"), ("b", "F")]}'
    )


@pytest.mark.parametrize(("kind", "option"), [("subnetwork", "subnetwork"), ("masked_computation", "unit")])
def test_layers_inside_are_described_by_a_dict(kind, option):
    assert str(_refusal({"output": {"class": kind, "from": "data", option: "lstm"}})) == (
        f'Layer "output" of class "{kind}": {option} is not a dict of layers.\n'
        f"  {option}  'lstm'\n"
        "Layers are given as a dict by name.\n"
        f'    "{option}": {{...}}'
    )
