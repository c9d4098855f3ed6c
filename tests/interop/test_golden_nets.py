"""Networks in the dict notation give the numbers of golden data, in both forms of loops, moved out or not."""

from __future__ import annotations

import pytest
from golden_nets import GoldenNet, names

FORMS = [("for", None), ("with", True), ("with", False), ("with", None)]


@pytest.mark.parametrize(("loop", "move_out"), FORMS)
@pytest.mark.parametrize("name", names())
def test_network_gives_the_golden_numbers(name, loop, move_out):
    golden = GoldenNet(name)
    net = golden.net(loop=loop, optimize_move_layers_out=move_out)
    golden.check(golden.run(net))


@pytest.mark.parametrize("name", names())
def test_network_has_the_golden_parameters(name):
    golden = GoldenNet(name)
    net = golden.net()
    needed = set(net.needed_parameters())
    assert needed <= set(golden.params) <= set(net.parameters_by_path())
    assert needed == set(golden.params) or name == "choice_train"  # where lin stands for nothing that comes out


@pytest.mark.parametrize("loop", ["for", "with"])
@pytest.mark.parametrize("name", [name for name in names() if name.startswith("editdist_table")])
def test_rows_of_edit_distances_go_on_flat_after_the_target(name, loop):
    golden = GoldenNet(name)
    rows = golden.run(golden.net(loop=loop))["output"]
    (batch,) = (dim for dim in rows.dims if dim.kind == "batch")
    (time,) = (dim for dim in rows.dims if dim.name == "time")
    (row_dim,) = (dim for dim in rows.dims if dim not in (batch, time))
    got, expected = rows.copy_transpose([batch, time, row_dim]).numpy(), golden.arrays["out/output"]
    for seq, length in enumerate(golden.arrays["in_len/data"]):
        assert (got[seq, :length] == expected[seq, :length, : row_dim.extent]).all()


def test_a_wrong_parameter_is_seen():
    golden = GoldenNet("rec_linear_relu_prev")
    net = golden.net()
    net.set_parameters({path: value + 0.01 for path, value in golden.params.items()})
    with pytest.raises(AssertionError):
        golden.check(golden.run(net))
