"""A tiny model and a tiny dictionary, so that tests train in a second."""

import torch

from rfnb.models.g2p import G2P, G2PConfig
from rfnb.models.g2p_training import Recipe

TINY = G2PConfig(embedding=8, encoder=7, encoder_layers=2, decoder=11, dropout=0.2)
WORDS = {
    "cat": (("K", "AE", "T"),),
    "read": (("R", "EH", "D"), ("R", "IY", "D")),
    "see": (("S", "IY"),),
    "bat": (("B", "AE", "T"),),
    "tab": (("T", "AE", "B"),),
    "beta": (("B", "EY", "T", "AH"),),
    "a": (("AH",), ("EY",)),
    "tease": (("T", "IY", "Z"),),
}
RECIPE = Recipe(epochs=5, batch_size=2, learning_rate=1e-2, warm_up=0.2, seed=3)


def make_model(seed=1, config=TINY):
    torch.manual_seed(seed)
    return G2P(config)
