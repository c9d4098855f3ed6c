"""Fixtures of the tests of recurrent units."""

import pytest
from asserting import ragged
from recurrent_units import batch

import rfnb as rf


@pytest.fixture
def time():
    return ragged([5, 2, 0], batch)


@pytest.fixture
def training():
    with rf.get_run_ctx().train_flag_ctx(True):
        yield
