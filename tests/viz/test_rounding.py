"""Rounded numbers: "none" and "all" mean just that."""

from __future__ import annotations

import re

import numpy as np
import pytest

from rfnb.viz.rounding import brief, percent, share, significant

VALUES = [
    *(1 - 10.0 ** -np.arange(1, 7)),
    *(10.0 ** -np.arange(1, 9.0)),
    0.5,
    1e-30,
    0.004,
    0.9996,
    1.0004,
    1.004,
    3,
    99.6,
]


@pytest.mark.parametrize("value", [*VALUES, *(-value for value in VALUES)])
def test_only_0_is_shown_as_0_and_only_1_as_1(value):
    for text in (share(value), share(value, 3), significant(value, 3), brief(value, 6), brief(value, 4)):
        if not re.match("-?[<>]", text):
            assert float(text) != 0 and float(text) * value > 0, text
            assert abs(float(text) - value) <= 0.51 * abs(value)
    for text in (share(value), share(value, 3), significant(value, 3)):
        if abs(abs(value) - 1) > 1e-6 and not re.match("-?[<>]", text):
            assert abs(float(text)) != 1, text
    if 0 < value < 1 - 1e-6:
        assert percent(value) not in ("0 %", "100 %")


def test_rounded_numbers_as_they_are_written():
    assert [share(value) for value in (0, 1, 0.25, 0.9996, 0.004, -0.004, 0.9999999, 1.004)] == [
        "0.00", "1.00", "0.25", ">.99", "<.01", "-<.01", "1.00", "1.004",
    ]  # fmt: skip
    assert [percent(value) for value in (0, 1, 0.25, 0.9996, 0.004)] == ["0 %", "100 %", "25 %", ">99 %", "<1 %"]
    assert [significant(value, 3) for value in (0.9996, 1, 0.25)] == ["0.9996", "1", "0.25"]
    assert [brief(value, 5) for value in (0.04, -0.04, 1e-30, 123456, 12.25, 0)] == [
        "0.04", "-0.04", "1e-30", "1e5", "12.25", "0",
    ]  # fmt: skip
