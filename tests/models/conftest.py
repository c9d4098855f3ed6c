"""The tiny model and its training examples."""

import pytest
import torch
from models.tiny import WORDS, make_model

from rfnb.data.batching import examples_of


@pytest.fixture(scope="session", autouse=True)
def one_thread():
    """Two threads on these tiny arrays wait for each other; on a busy machine that is 20 times slower than one."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def model():
    return make_model()


@pytest.fixture(scope="session")
def examples():
    return examples_of(WORDS)
