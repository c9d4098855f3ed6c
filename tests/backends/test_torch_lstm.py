"""torch's LSTM caches values derived from masks, and the next call with the same dims finds them."""

import pytest
import torch

from rfnb.backends import torch_lstm


@pytest.fixture(autouse=True)
def nothing_kept(monkeypatch):
    monkeypatch.setattr(torch_lstm, "_masks", {})
    monkeypatch.setattr(torch_lstm, "_kept", [0])


def bytes_kept():
    """Of all arrays that are held, each memory once."""
    storages = {
        part.untyped_storage().data_ptr(): part.untyped_storage().nbytes()
        for _, parts in torch_lstm._masks.values()
        for part in parts
    }
    return sum(storages.values())


def test_masks_of_old_batches_go_when_they_are_too_many_bytes(monkeypatch):
    monkeypatch.setattr(torch_lstm, "_LIMIT", 50_000)
    weight, largest = torch.zeros(4 * 3, 3), 0
    for time in range(40, 80):
        torch_lstm.of_mask(torch.ones(time, 11, dtype=torch.bool), weight)
        largest = max(largest, bytes_kept())
    assert 25_000 < largest <= 50_000


def test_the_same_mask_is_looked_at_once():
    mask, weight = torch.ones(5, 2, dtype=torch.bool), torch.zeros(4 * 3, 3)
    assert torch_lstm.of_mask(mask, weight) is torch_lstm.of_mask(mask, weight)
    assert torch_lstm.of_mask(mask.clone(), weight) is not torch_lstm.of_mask(mask, weight)
