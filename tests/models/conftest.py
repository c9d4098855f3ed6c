"""The tiny model and its training examples."""

import pytest
from models.tiny import WORDS, make_model

from rfnb.data.batching import examples_of


@pytest.fixture(scope="module", autouse=True)
def small_arrays(one_thread):
    """For all files here."""


@pytest.fixture
def model():
    return make_model()


@pytest.fixture(scope="session")
def examples():
    return examples_of(WORDS)
