"""The measurement itself: equal work has ratio 1, twice the work about 2, different values are refused."""

import pytest
import torch
from ratio import Ratio, measure

x = torch.randn(64, 64)


def test_equal_work_has_ratio_one():
    assert measure("same", lambda: x @ x, lambda: x @ x).median == pytest.approx(1, abs=0.15)


def test_twice_the_work_has_ratio_two():
    def twice():
        x @ x
        return x @ x

    assert measure("twice", twice, lambda: x @ x).median == pytest.approx(2, abs=0.4)


def test_different_values_are_refused():
    with pytest.raises(AssertionError, match="off: rfnb and raw torch differ"):
        measure("off", lambda: x + 1, lambda: x)


def test_a_result_without_tensor_is_refused():
    with pytest.raises(AssertionError, match="none: 0 and 1 tensors are not the same computation"):
        measure("none", lambda: None, lambda: x)


def test_a_ratio_over_the_limit_fails():
    with pytest.raises(AssertionError, match="slow: 1.31x raw torch, the limit is 1.3x"):
        Ratio("slow", 1.31, 1.2, 1.4, 1.31e-6, 1e-6, limit=1.3).check()


def test_the_fixture_fills_the_table(overhead):
    assert overhead("raw torch against itself", lambda: x + 1, lambda: x + 1) < 1.3
