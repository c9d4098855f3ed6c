"""Modules of rfnb that torch does not find: a warning where a torch module is watched, recorded or taken into a model."""

import warnings

import pytest
import torch

import rfnb as rf

in_dim, out_dim = rf.Dim(3, name="in"), rf.Dim(5, name="out")


@pytest.fixture(autouse=True)
def _torch():
    rf.select_backend_torch()


class Net(torch.nn.Module):
    """A torch module with something as its attribute `part`."""

    def __init__(self, part):
        super().__init__()
        self.first = torch.nn.Linear(3, 3)
        self.part = part

    def forward(self, x):
        return self.first(x)


def watched(model):
    rf.watch(model, torch.optim.SGD(model.parameters(), 0.1)).close()


def recorded(model):
    with rf.record(model=model):
        model(torch.zeros(2, 3))


def taken(model):
    rf.from_torch(model)


@pytest.mark.parametrize("use", [watched, recorded, taken])
def test_a_module_of_rfnb_that_torch_does_not_find_is_warned_of(use):
    with pytest.warns(UserWarning) as found:
        use(torch.nn.Sequential(Net(rf.Linear(in_dim, out_dim))))
    assert [str(each.message).splitlines() for each in found] == [
        [
            "0.part: torch does not find this part of rfnb.",
            "  module  Linear, 2 parameters",
            "Parameters are found in modules of torch, so no optimizer, state_dict or device reaches these:",
            "    self.part = rf.as_torch(module)",
        ]
    ]


@pytest.mark.parametrize(
    ("make", "row", "fix"),
    [
        (
            lambda: [rf.Linear(in_dim, out_dim)],
            "  module  Linear, 2 parameters",
            "    self.part = torch.nn.ModuleList([rf.as_torch(module) for ...])",
        ),
        (
            lambda: rf.Parameter([in_dim]),
            "  parameter  [in=3]",
            "    self.part = parameter.raw_tensor    # a torch.nn.Parameter",
        ),
        (
            lambda: {"bias": rf.Parameter([in_dim])},
            "  parameter  [in=3]",
            "    self.part = torch.nn.ParameterList([parameter.raw_tensor for ...])",
        ),
    ],
)
def test_so_are_parameters_and_what_lists_and_dicts_hold(make, row, fix):
    with pytest.warns(UserWarning) as found:
        watched(Net(make()))
    lines = str(found[0].message).splitlines()
    assert lines[1] == row and lines[-1] == fix


def test_what_torch_has_or_what_has_no_parameters_is_not_warned_of():
    class Both(Net):
        def __init__(self):
            super().__init__(rf.Linear(in_dim, out_dim))
            self.registered = rf.as_torch(self.part)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for model in (Both(), Net(rf.as_torch(rf.Linear(in_dim, out_dim))), Net(rf.Functional(rf.relu)), Net([])):
            watched(model)
            recorded(model)
