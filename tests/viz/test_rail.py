"""The rail above a map: the sound that its columns are frames of, and the words in it."""

import numpy as np
import pytest
from viz.stored_files import assert_stored

import rfnb as rf
from rfnb.search.label_alignment import LabelAlignment, Span
from rfnb.viz.attention.alignments import spec as spec_of
from rfnb.viz.kinds import drawing_of, text_of
from rfnb.viz.page.budget import Room
from rfnb.viz.page.page_spec import page_spec
from rfnb.viz.spec import to_json

RATE = 8000


def alignment(name: str, labels: str, path: list[int], words: list[Span]) -> LabelAlignment:
    """An alignment of labels whose posteriors are half on the path, the rest on the next row."""
    rows = ["-", *(row for label in labels for row in (label, "-"))]
    posteriors = np.zeros((len(rows), len(path)), np.float32)
    for frame, row in enumerate(path):
        posteriors[row, frame] += 0.5
        posteriors[min(row + 1, len(rows) - 1), frame] += 0.5
    samples = np.linspace(-1, 1, len(path) * 160) * np.where(np.arange(len(path) * 160) % 2, 1, -0.5)
    return LabelAlignment(
        name, labels.replace("|", " "), [], words, rows, np.array(path), len(path), -3.0, 0.02, "CTC",
        lambda: (posteriors, -2.5), samples, RATE,
    )  # fmt: skip


def two() -> list[LabelAlignment]:
    return [
        alignment("sequence 0", "A|B", [0, 1, 1, 2, 3, 5, 6], [Span("A", 1, 3, -1, 0.02), Span("B", 5, 6, -1, 0.02)]),
        alignment("sequence 1", "B", [0, 1, 1, 2], [Span("B", 1, 3, -1, 0.02)]),
    ]


def test_the_spec_is_the_stored_one():
    assert_stored("attention_rail.json", to_json(spec_of(two(), rail="waveform")))


def test_the_text_is_the_stored_one():
    assert_stored("attention_rail.txt", text_of(spec_of(two(), rail="waveform")))


def test_show_takes_one_alignment_or_several():
    assert rf.show(two()).spec.head["seqs"][1]["label"] == "sequence 1: B"
    assert len(rf.show(two()[0], title="One").spec.head["seqs"]) == 1


def tone(frequency: float, seconds: float) -> np.ndarray:
    return np.sin(2 * np.pi * frequency * np.arange(int(seconds * RATE)) / RATE)


def rail_of(samples, frames: int, **options) -> np.ndarray:
    spec = rf.viz.attention(np.full((2, frames), 1 / frames), samples=samples, sampling_rate=RATE, **options).spec
    (cols,) = spec.head["rail"]["cols"]
    return spec.blocks["rail"][0, :, :cols]


def test_a_spectrogram_has_a_tone_at_its_time_and_height():
    rail = rail_of(np.concatenate([tone(200, 0.5), tone(3000, 0.5)]), 10, frame_shift=0.1)
    assert rail.shape == (32, 100)  # a column per 10 ms
    first, second = rail[:, 20].argmax(), rail[:, 80].argmax()
    points = 700 * (10 ** (np.linspace(0, 2595 * np.log10(1 + 4000 / 700), 34) / 2595) - 1)
    centres = points[1:-1][::-1]  # the highest band is first
    assert abs(np.log(centres[first] / 200)) < 0.4 and abs(np.log(centres[second] / 3000)) < 0.1
    assert (rail[:, 20:45].argmax(0) == first).all() and (rail[:, 55:95].argmax(0) == second).all()
    assert rail.max() == 255


def test_there_is_no_sound_after_the_samples():
    rail = rail_of(tone(500, 0.5), 10, frame_shift=0.1)
    assert rail[:, :50].all() and not rail[:, 50:].any()
    wave = rail_of(tone(500, 0.5), 10, frame_shift=0.1, rail="waveform")
    assert wave[:, :50].all() and not wave[:, 50:].any()


def test_without_a_frame_shift_samples_are_spread_and_that_is_said():
    spec = rf.viz.attention(np.full((2, 7), 1 / 7), samples=tone(500, 0.5), sampling_rate=RATE).spec
    assert spec.head["rail"]["label"] == "log-mel spectrogram, 0 to 4 kHz, 80 dB, spread over the frames"
    assert spec.blocks["rail"].all()


def test_a_waveform_goes_from_the_lowest_to_the_highest_sample():
    rail = rail_of(np.repeat([0.5, -1.0, 0.25], 80), 3, frame_shift=0.01, rail="waveform")
    assert [np.flatnonzero(column == 255).tolist() for column in rail.T] == [[8], [31], [12]]
    both = rail_of(np.tile([0.5, -1.0], 40), 1, frame_shift=0.01, rail="waveform")
    assert np.flatnonzero(both[:, 0] == 255).tolist() == list(range(8, 32))


def test_silence_and_short_sounds_are_drawn():
    assert (rail_of(np.zeros(4000), 5, frame_shift=0.1) == 1).all()
    assert rail_of(np.ones(3), 5, frame_shift=0.1).shape == (32, 50)
    assert not rail_of(np.zeros(0), 5, frame_shift=0.1).any()


def test_a_long_sound_has_no_more_columns_than_a_screen():
    rail = rail_of(np.random.default_rng(0).normal(size=60 * RATE), 3000, frame_shift=0.02)
    assert rail.shape[1] == 1600 and rail.all()


def test_a_click_between_two_columns_of_a_long_sound_is_seen():
    samples = np.zeros(64 * RATE)
    samples[30 * RATE + 137] = 1
    rail = rail_of(samples, 3200, frame_shift=0.02)
    assert rail.max() == 255 and (rail.max(0) == 255).sum() <= 3


def test_the_drawing_has_sound_and_words_and_says_so():
    made = drawing_of(spec_of(two()))
    texts = [shape.text for shape in made.shapes if hasattr(shape, "text")]
    assert texts.count("A") >= 4 and "Above the columns: log-mel spectrogram, 0 to 4 kHz, 80 dB" in made.notes
    assert "Each frame is one label or blank (the rows between labels): a column sums to 1." in made.notes


def test_a_page_keeps_the_rail_of_a_large_map():
    random = np.random.default_rng(0)
    weights = random.dirichlet(np.ones(1500), size=(4, 2, 300)).astype(np.float32)
    view = rf.viz.attention(
        weights, dims=["head", "batch", "target", "source"], samples=random.normal(size=(2, 240_000)),
        sampling_rate=RATE, frame_shift=0.02,
    )  # fmt: skip
    page = page_spec(view.spec, Room(250_000, 112_000))
    assert np.array_equal(page.blocks["rail"], view.spec.blocks["rail"]) and page.head["rail"] == view.spec.head["rail"]


def message(**options) -> str:
    with pytest.raises(ValueError) as error:
        rf.viz.attention(np.full((2, 3, 5), 0.2), dims=["batch", "target", "source"], **options)
    return str(error.value)


def test_samples_that_do_not_fit_are_refused():
    assert message(samples=np.zeros((2, 80))) == (
        "attention: samples without sampling_rate.\n"
        "  samples        ndarray\n"
        "  sampling_rate  None\n"
        "The position of a frame in the sound depends on the sampling rate.\n"
        "    rf.viz.attention(weights, samples=samples, sampling_rate=16000)"
    )
    assert message(samples=np.zeros((3, 80)), sampling_rate=RATE) == (
        "attention: the number of sounds differs from the number of sequences.\n"
        "  sequences  2\n"
        "  samples    (80,), (80,), (80,)\n"
        "The samples are (batch, samples), or a list of (samples,); of one sequence (samples,)."
    )
    assert message(samples=np.zeros((2, 80)), sampling_rate=RATE, frame_shift=-0.01) == (
        "attention: frame_shift is not a number of seconds.\n"
        "  frame_shift  -0.01\n"
        "frame_shift is the distance between two frames, in seconds.\n"
        "    frame_shift=0.02"
    )
    bad = np.zeros((2, 80))
    bad[1, 7] = np.nan
    assert message(samples=bad, sampling_rate=RATE) == (
        "attention: the samples have NaN or infinity.\n"
        "  sequence  1\n"
        "  samples   (80,)\n"
        "  first     7\n"
        "Samples are numbers, usually from -1 to 1."
    )
    assert message(samples=np.zeros((2, 80)), sampling_rate=RATE, rail="mel") == (
        "attention: unknown value of rail.\n"
        "  rail   'mel'\n"
        "  known  'spectrogram', 'waveform'\n"
        "Above the columns is a spectrogram or a waveform.\n"
        '    rf.viz.attention(weights, samples=samples, sampling_rate=16000, rail="waveform")'
    )


def test_maps_of_other_targets_have_the_same_sound():
    weights = {"encoder": np.full((2, 1, 5, 5), 0.2), "cross": np.full((2, 1, 3, 5), 0.2)}
    samples = np.stack([tone(500, 0.5), tone(1500, 0.5)])
    spec = rf.viz.attention(weights, samples=samples, sampling_rate=RATE, frame_shift=0.1).spec
    seqs, rail = spec.head["seqs"], spec.blocks["rail"]
    assert [seq["row_len"] for seq in seqs] == [5, 5, 3, 3] and len(rail) == 4
    assert np.array_equal(rail[:2], rail[2:]) and not np.array_equal(rail[0], rail[1])


def test_maps_whose_sources_are_no_frames_have_no_sound():
    weights = {"decoder": np.full((3, 3), 1 / 3), "cross": np.full((3, 5), 0.2)}
    with pytest.raises(ValueError) as error:
        rf.viz.attention(weights, samples=tone(500, 0.5), sampling_rate=RATE)
    assert str(error.value) == (
        "attention: the sources of some maps are not frames of the sound.\n"
        "  sources  3 and 5, of sequence 0\n"
        "The sound is drawn above all maps, so their sources must be its frames. Draw the other maps separately.\n"
        '    rf.viz.attention(weights["cross"], samples=samples, sampling_rate=16000)'
    )


def test_the_best_path_can_be_left_out():
    """An exercise may ask for it."""
    lattice = rf.transducer_lattice(np.zeros((1, 6, 4, 4)), "CEG", vocab="-CEG")[0]
    view, whole = rf.show(lattice, path=False), rf.show(lattice)
    assert "best path" in str(whole.spec.head) and "best path" not in str(view.spec.head)
    assert view.text() == whole.text() and whole.spec.blocks.keys() - view.spec.blocks.keys() == {"map1"}
    assert all(np.array_equal(block, whole.spec.blocks[name]) for name, block in view.spec.blocks.items())


def test_rows_of_blanks_are_a_third_as_high_as_those_of_labels_in_a_picture():
    from rfnb.viz.attention.drawing import drawing, low_blanks
    from rfnb.viz.attention.panels import panels_of

    spec = spec_of(two()[0], path=False)
    (panel,) = panels_of(spec)
    low = low_blanks(panel)
    assert low.seq["rows"] == ["", "", "A", "", "", "", "|", "", "", "", "B", "", ""]
    assert (low.values[1:4] == panel.values[1]).all() and (low.values[[0, 4, 8, 12]] == panel.values[::2]).all()
    made = drawing(spec, 400)
    cells = next(shape for shape in made.shapes if getattr(shape, "of", None) == (13, 7))
    at = {shape.text: shape.y for shape in made.shapes if getattr(shape, "text", None) in ("A", "|", "B")}
    assert cells.height == 13 * 5 and at["|"] - at["A"] == at["B"] - at["|"] == 20
