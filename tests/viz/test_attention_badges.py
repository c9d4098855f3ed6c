"""Badges of heads describe weights that were built for them; masks, words and places in the grid."""

from __future__ import annotations

import numpy as np
import pytest

from rfnb.core.dim import Dim, ragged_dim
from rfnb.core.errors import DimError, ShapeError
from rfnb.core.tensor import Tensor
from rfnb.viz.attention.badges import LOOKS
from rfnb.viz.attention.spec import spec as attention_spec
from rfnb.viz.spec import Spec

_SIZE = 8


def softmax(energies: np.ndarray, mask: np.ndarray | None = None) -> np.ndarray:
    """Float32 weights; exactly 0 where the mask is false."""
    energies = energies if mask is None else np.where(mask, energies, -np.inf)
    weights = np.exp(energies - energies.max(-1, keepdims=True))
    return (weights / weights.sum(-1, keepdims=True)).astype(np.float32)


def noise(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape)


def badges_of(spec: Spec, index: int = 0, seq: int = 0) -> dict[str, float]:
    return dict(zip(spec.head["badges"], spec.blocks["badges"][index, seq].tolist()))


def looks_of(spec: Spec, index: int = 0, seq: int = 0) -> str:
    return LOOKS[spec.head["maps"][index]["looks"][seq]]


def slowly(weights: np.ndarray, seen: np.ndarray | None = None) -> dict[str, float]:
    """The badges of one map, cell by cell in Python."""
    rows, cols = weights.shape
    seen = np.ones((rows, cols), bool) if seen is None else seen
    entropies, firsts, lasts, near, spread = [], [], [], 0.0, 0.0
    for row in range(rows):
        own = [col for col in range(cols) if seen[row, col]]
        if len(own) < 2:
            continue
        total = sum(float(weights[row, col]) for col in own)
        shares = {col: float(weights[row, col]) / total for col in own}
        entropies.append(-sum(p * np.log(p) for p in shares.values() if p) / np.log(len(own)))
        firsts += [shares[0]] if 0 in shares else []
        lasts += [shares[cols - 1]] if cols - 1 in shares else []
        at = row * (cols - 1) / (rows - 1)
        near += sum(p * abs(col - at) for col, p in shares.items())
        spread += sum(abs(col - at) for col in own) / len(own)
    mean = lambda values: float(np.mean(values)) if values else np.nan  # noqa: E731
    lasts = lasts if seen.all() or len(lasts) > 1 else []
    return {"entropy": mean(entropies), "diagonal": 1 - near / spread, "first": mean(firsts), "last": mean(lasts)}


@pytest.mark.parametrize("rows, cols", [(5, 7), (7, 7), (9, 4)])
def test_the_badges_are_those_of_a_computation_cell_by_cell(rows, cols):
    weights = softmax(noise(rows, rows, cols))
    found = badges_of(attention_spec(weights))
    assert {name: found[name] for name in slowly(weights)} == pytest.approx(slowly(weights), rel=1e-5)


def test_the_badges_of_a_causal_head_are_of_what_it_may_see():
    mask = np.tril(np.ones((7, 7), bool))
    weights = softmax(noise(1, 7, 7), mask)
    spec = attention_spec(weights)
    found = badges_of(spec)
    assert spec.head["maps"][0]["causal"] == "seen"
    assert {name: found[name] for name in slowly(weights, mask)} == pytest.approx(
        slowly(weights, mask), rel=1e-5, nan_ok=True
    )
    assert np.isnan(found["last"]), "only the last row may see it"


def test_a_head_that_looks_at_the_first_token():
    energies = np.zeros((_SIZE, _SIZE))
    energies[:, 0] = 4
    spec = attention_spec(softmax(energies))
    assert looks_of(spec) == "at the first" and badges_of(spec)["first"] > 0.85


def test_a_head_that_looks_at_the_last_real_token_of_each_sequence():
    energies = np.full((2, 1, _SIZE, _SIZE), -50.0)
    energies[0, ..., -1], energies[1, ..., 4] = 0, 0
    spec = attention_spec(softmax(energies), source_lengths=[8, 5], dims=["batch", "head", "target", "source"])
    assert [looks_of(spec, 0, seq) for seq in (0, 1)] == ["at the last"] * 2
    assert badges_of(spec, 0, 1)["last"] == pytest.approx(1)


def test_a_head_along_the_diagonal_also_between_sides_of_different_lengths():
    energies = -2 * np.abs(np.arange(16)[None, :] / 15 - np.arange(6)[:, None] / 5) * 15
    assert looks_of(attention_spec(softmax(energies))) == "along the diagonal"
    assert badges_of(attention_spec(np.eye(_SIZE, dtype=np.float32)))["diagonal"] == 1


def test_a_uniform_head_has_entropy_1_and_is_no_nearer_to_the_diagonal():
    found = badges_of(spec := attention_spec(np.full((6, 5), 0.2, np.float32)))
    assert found["entropy"] == pytest.approx(1) and found["diagonal"] == pytest.approx(0, abs=1e-6)
    assert looks_of(spec) == "evenly"


def test_a_uniform_causal_head_has_entropy_1_as_well():
    mask = np.tril(np.ones((6, 6), bool))
    assert badges_of(attention_spec(softmax(np.zeros((6, 6)), mask)))["entropy"] == pytest.approx(1)


def test_weight_on_padding_is_a_badge_and_a_fault():
    weights = softmax(noise(2, 2, 1, 6, 6))
    spec = attention_spec(weights, source_lengths=[6, 4], dims=["batch", "head", "target", "source"])
    assert badges_of(spec, 0, 0)["padding"] == 0
    assert badges_of(spec, 0, 1)["padding"] == pytest.approx(weights[1, 0, :, 4:].sum(-1).max(), rel=1e-6)
    assert "weight on padding" in spec.head["maps"][0]["notes"]["1"]


def test_a_head_like_that_of_the_layer_before_has_no_change():
    one, other = softmax(noise(3, 2, 6, 6)), softmax(noise(4, 2, 6, 6))
    other[1] = one[1]
    spec = attention_spec({"layer 0": one, "layer 1": other})
    at = {tuple(entry["at"]): index for index, entry in enumerate(spec.head["maps"])}
    assert np.isnan(badges_of(spec, at[0, 1])["change"])
    assert badges_of(spec, at[1, 1])["change"] == 0
    expected = np.abs(one[0].astype(float) - other[0]).sum(-1).mean() / 2
    assert badges_of(spec, at[1, 0])["change"] == pytest.approx(expected, rel=1e-6)


def test_rows_that_are_not_computed_do_not_count():
    weights = softmax(noise(5, 6, 6))
    partly = weights.copy()
    partly[4:] = np.nan
    found, expected = badges_of(attention_spec(partly)), slowly(weights)
    assert found["first"] == pytest.approx(weights[:4, 0].mean(), rel=1e-6) and expected["first"] != found["first"]


def test_values_that_are_no_weights_have_no_badges():
    spec = attention_spec(noise(6, 5, 5))
    assert "badges" not in spec.head and "badges" not in spec.blocks


class TestMasks:
    def test_a_mask_hides_positions_from_badges_and_colours(self):
        weights, mask = softmax(noise(7, 5, 6)), np.ones((5, 6), bool)
        mask[:, 2] = False
        weights[:, 2] = 0
        weights /= weights.sum(-1, keepdims=True)
        spec = attention_spec(weights, mask=mask)
        found, expected = badges_of(spec), slowly(weights, mask)
        assert {name: found[name] for name in expected} == pytest.approx(expected, rel=1e-5)
        assert (spec.blocks[spec.head["maps"][0]["mask"]][0] == ~mask).all()

    def test_weight_on_what_is_masked_is_a_fault(self):
        mask = np.tril(np.ones((4, 4), bool))
        weights = np.full((4, 4), 0.25, np.float32)
        for given in (mask, "causal"):
            note = attention_spec(weights, mask=given).head["maps"][0]["notes"]["0"]
            assert note == "weight on masked positions in 3 of 4 rows, up to 0.75 in row 0"

    def test_all_heads_share_the_block_of_one_mask(self):
        spec = attention_spec(softmax(noise(8, 3, 4, 4)), mask=np.eye(4, dtype=bool) | True)
        assert [entry["mask"] for entry in spec.head["maps"]] == ["mask0"] * 3

    def test_a_mask_per_head(self):
        mask = np.ones((2, 4, 4), bool)
        mask[1, :, 0] = False
        spec = attention_spec(softmax(noise(9, 2, 4, 4)), mask=mask)
        assert [entry["mask"] for entry in spec.head["maps"]] == ["mask0", "mask1"]
        assert spec.blocks["mask1"][0, :, 0].all() and not spec.blocks["mask0"].any()

    def test_a_mask_with_dims_is_found_by_them_in_any_order(self):
        batch, target = Dim(2, name="batch"), Dim(3, name="target")
        source = ragged_dim([5, 4], over=batch, name="source")
        weights = Tensor("w", [target, batch, source], raw_tensor=softmax(noise(1, 3, 2, 5)))
        seen = np.random.default_rng(0).random((5, 3, 2)) > 0.4
        mask = Tensor("m", [source, target, batch], raw_tensor=seen, dtype="bool")
        spec = attention_spec(weights, mask=mask, source_dim=source, target_dim=target)
        assert (spec.blocks["mask0"] == ~seen.transpose(2, 1, 0)).all()

    def test_a_map_with_nothing_ahead_is_taken_as_causal_only_where_that_is_sure(self):
        mask = np.tril(np.ones((5, 5), bool))
        assert attention_spec(softmax(noise(1, 5, 5), mask)).head["maps"][0]["causal"] == "seen"
        ahead = softmax(noise(1, 5, 5), mask)
        ahead[1, 4] = 1e-30
        for other in (ahead, np.eye(5, dtype=np.float32), softmax(noise(1, 2, 2), np.tril(np.ones((2, 2), bool)))):
            assert "causal" not in attention_spec(other).head["maps"][0]
        longer = np.tril(np.ones((3, 5), bool), 2)  # the last rows of a longer sequence
        assert attention_spec(softmax(noise(2, 3, 5), longer)).head["maps"][0]["causal"] == "seen"

    def test_a_mask_that_does_not_fit_is_refused(self):
        with pytest.raises(ShapeError) as caught:
            attention_spec(softmax(noise(1, 3, 5)), mask=np.ones((5, 3), bool))
        assert str(caught.value) == (
            "attention: the mask does not fit the weights.\n"
            "  weights  [target=3, source=5]\n"
            "  mask     (5, 3)\n"
            "A mask without names broadcasts against the weights, from the last axis on.\n"
            "    rf.viz.attention(weights, mask=numpy.tril(numpy.ones((targets, sources), bool)))"
        )

    def test_a_mask_over_another_dim_is_refused(self):
        target, source, other = Dim(3, name="target"), Dim(5, name="source"), Dim(2, name="other")
        weights = Tensor("w", [target, source], raw_tensor=softmax(noise(1, 3, 5)))
        mask = Tensor("m", [other], raw_tensor=np.ones(2, bool), dtype="bool")
        with pytest.raises(DimError) as caught:
            attention_spec(weights, mask=mask)
        assert str(caught.value) == (
            "attention: the mask has other=2, which the weights lack.\n"
            "  weights  [target=3, source=5]\n"
            "  mask     [other=2]\n"
            "A mask marks the visible positions of the weights; its dims are some of theirs.\n"
            "    rf.viz.attention(weights, mask=mask)"
        )

    def test_another_word_than_causal_is_refused(self):
        with pytest.raises(ValueError) as caught:
            attention_spec(softmax(noise(1, 3, 3)), mask="future")
        assert str(caught.value) == (
            "attention: unknown value of mask.\n"
            "  mask   'future'\n"
            "  known  'causal'\n"
            "A mask is a boolean Tensor or array, True at visible positions, or a known word.\n"
            '    rf.viz.attention(weights, mask="causal")'
        )


class TestWords:
    @pytest.mark.parametrize(
        "marker, pieces, words",
        [
            ("##", ["[CLS]", "un", "##der", "##stand", "it"], ["[CLS]", "understand", "it"]),
            ("▁", ["<s>", "▁under", "stand", "▁it", "</s>"], ["<s>", "understand", "it", "</s>"]),
            ("Ġ", ["under", "stand", "Ġit", "Ġall"], ["understand", "it", "all"]),
            ("@@", ["under@@", "stand", "it", "n@@", "ow"], ["understand", "it", "now"]),
        ],
    )
    def test_pieces_become_words_by_their_marker(self, marker, pieces, words):
        weights = softmax(noise(1, 2, 3, len(pieces), len(pieces)))
        for merge in (marker, True):
            spec = attention_spec(weights, tokens=[pieces] * 2, merge=merge)
            assert spec.head["seqs"][0]["rows"] == spec.head["seqs"][0]["cols"] == words

    def test_weights_are_summed_over_the_pieces_of_a_source_and_averaged_over_those_of_a_target(self):
        groups = {0: [0, 0, 0, 1, 2, 2], 1: [0, 1, 1]}  # of a sequence of 6 pieces and one of 3
        weights = softmax(noise(2, 2, 3, 6, 6))
        weights[1, ..., 3:] = 0
        pieces = [list("abcdef"), list("xyz")]
        spec = attention_spec(weights, tokens=pieces, merge=lambda own: groups[0 if len(own) == 6 else 1])
        for head in range(3):
            for seq, numbers in groups.items():
                sums = np.zeros((max(numbers) + 1, max(numbers) + 1))
                for row, target in enumerate(numbers):
                    for col, source in enumerate(numbers):
                        sums[target, source] += float(weights[seq, head, row, col]) / numbers.count(target)
                found = spec.blocks[f"map{head}"][seq, : len(sums), : len(sums)]
                np.testing.assert_allclose(found, sums, rtol=1e-6)

    def test_weight_on_padding_is_still_seen(self):
        weights = softmax(noise(3, 2, 1, 4, 4))
        spec = attention_spec(weights, tokens=[["a", "##b", "c", "d"], ["a", "##b"]], merge="##")
        assert "weight on padding" in spec.head["maps"][0]["notes"]["1"]

    def test_a_word_is_masked_if_all_of_its_pieces_are(self):
        mask = np.tril(np.ones((4, 4), bool))
        spec = attention_spec(softmax(noise(4, 4, 4), mask), tokens=["a", "##b", "c", "##d"], merge="##", mask="causal")
        assert spec.blocks["mask0"][0].tolist() == [[0, 1], [0, 0]]

    def test_a_marker_that_is_not_known_is_refused(self):
        with pytest.raises(ValueError) as caught:
            attention_spec(softmax(noise(1, 2, 2)), tokens=["a", "b"], merge="+")
        assert str(caught.value) == (
            "attention: merge is not a known marker of word pieces.\n"
            "  merge  '+'\n"
            "  known  ##, ▁, Ġ, @@\n"
            "A marker tells which pieces form one word. For other tokenizers, pass a function from pieces to word numbers.\n"
            '    rf.viz.attention(weights, source=pieces, merge="▁")'
        )

    def test_a_function_that_does_not_number_each_piece_is_refused(self):
        with pytest.raises(ValueError) as caught:
            attention_spec(softmax(noise(1, 2, 2)), tokens=["a", "b"], merge=lambda pieces: [1, 0])
        assert str(caught.value) == (
            "attention: merge does not give the word of each piece.\n"
            "  pieces   2\n"
            "  numbers  [1, 0]\n"
            "The function gives one number per piece, which never falls; equal numbers are one word.\n"
            "    rf.viz.attention(weights, source=pieces, merge=lambda pieces: [0, 0, 1])"
        )


class TestPlaces:
    def test_layers_and_heads_are_places_in_a_grid(self):
        spec = attention_spec(softmax(noise(1, 2, 3, 4, 5)), dims=["layer", "head", "target", "source"])
        assert (spec.head["layers"], spec.head["heads"]) == (["layer 0", "layer 1"], ["head 0", "head 1", "head 2"])
        assert [entry["at"] for entry in spec.head["maps"]] == [[layer, head] for layer in (0, 1) for head in (0, 1, 2)]
        heads_first = attention_spec(softmax(noise(1, 3, 2, 4, 5)), dims=["head", "layer", "target", "source"])
        assert heads_first.head["layers"] == spec.head["layers"] and heads_first.head["heads"] == spec.head["heads"]

    def test_labels_of_a_dict_are_layers(self):
        spec = attention_spec({"one": softmax(noise(1, 2, 4, 5)), "cross": softmax(noise(2, 3, 4, 6))})
        assert spec.head["layers"] == ["one", "cross"] and len(spec.head["heads"]) == 3
        assert [entry["at"] for entry in spec.head["maps"]] == [[0, 0], [0, 1], [1, 0], [1, 1], [1, 2]]

    def test_a_slider_goes_through_epochs(self):
        one, two = softmax(noise(1, 2, 4, 5)), softmax(noise(2, 2, 4, 5))
        flat = attention_spec({"1": one, "2": two}, slider="epoch")
        assert flat.head["slider"] == {"name": "epoch", "labels": ["1", "2"]}
        assert [(entry["step"], *entry["at"]) for entry in flat.head["maps"]] == [
            (0, 0, 0),
            (0, 0, 1),
            (1, 0, 0),
            (1, 0, 1),
        ]
        listed = attention_spec([one, two], slider="checkpoint")
        assert listed.head["slider"] == {"name": "checkpoint", "labels": ["0", "1"]}
        assert np.array_equal(listed.blocks["map2"], flat.blocks["map2"])
        nested = attention_spec({"1": {"layer 0": one}, "2": {"layer 0": two}})
        assert nested.head["slider"]["labels"] == ["1", "2"] and nested.head["layers"] == ["layer 0"]

    def test_self_attention_has_the_same_tokens_on_both_sides(self):
        spec = attention_spec(softmax(noise(1, 3, 3)), tokens=list("abc"))
        assert spec.head["seqs"][0]["rows"] == spec.head["seqs"][0]["cols"] == list("abc")
        assert spec.head["maps"][0]["self"] is True

    def test_self_attention_is_known_by_its_dims(self):
        time = Dim(3, name="time")
        twin = time.copy(match_priority=1)
        spec = attention_spec(Tensor("w", [time, twin], raw_tensor=softmax(noise(1, 3, 3))), source=list("abc"))
        assert spec.head["maps"][0]["self"] is True and spec.head["seqs"][0]["rows"] == list("abc")

    def test_the_range_leaves_out_padding_and_what_is_masked(self):
        weights = np.array([[0.25, 0.75, 0.0], [0.5, 0.5, 0.0]], np.float32)
        assert attention_spec(weights).head["range"] == [0, 0.75]
        assert attention_spec(weights, mask=[True, False, True]).head["range"] == [0, 0.5]
