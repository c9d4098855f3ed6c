"""The layers of a model: what their paths have in common, and which number of a path says the layer."""

from __future__ import annotations

import pytest

from rfnb.viz.attention.trace_part import layers_of, pattern_of


@pytest.mark.parametrize(
    ("paths", "common", "labels"),
    [
        (["layers.0.att", "layers.1.att"], "layers.*.att", ["layer 0", "layer 1"]),
        (["1.layers.0.att", "1.layers.1.att"], "1.layers.*.att", ["layer 0", "layer 1"]),  # nn.Sequential
        (["transformer.h.0.attn", "transformer.h.11.attn"], "transformer.h.*.attn", ["layer 0", "layer 11"]),
        (["0.1.att", "0.2.att"], "0.*.att", ["layer 1", "layer 2"]),
        (
            ["blocks.0.layers.0", "blocks.0.layers.1", "blocks.1.layers.0"],
            "blocks.*.layers.*",
            ["block 0, layer 0", "block 0, layer 1", "block 1, layer 0"],
        ),
        (["layers.3.att"], "layers.*.att", ["layer 3"]),
    ],
)
def test_numbers_that_differ_are_the_layers(paths, common, labels):
    assert layers_of(paths) == (common, labels)
    assert len({pattern_of(path) for path in paths}) == 1


def test_a_path_without_numbers_is_no_layer():
    assert pattern_of("decoder.att") is None
