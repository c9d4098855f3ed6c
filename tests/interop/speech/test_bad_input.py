"""Invalid outputs of speech models are refused, with numbers and the next line to type."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

import rfnb as rf

LABELS = "-|ABC"


def scores(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1))


def message(kind, call) -> str:
    with pytest.raises(kind) as error:
        call()
    assert error.type is kind or kind is ValueError
    return str(error.value)


def output(*args, vocab=LABELS, **options):
    return rf.ctc_output(*(args or (scores(2, 7, 5),)), vocab=vocab, **options)


def test_probabilities():
    assert message(ValueError, lambda: output(scores(2, 7, 5).softmax(-1))) == (
        "ctc_output: these are probabilities.\n"
        "  logits  (2, 7, 5)\n"
        "  sums    1 in each frame, nothing below 0\n"
        "Logits are any numbers, or log probabilities; of probabilities take the logarithm:\n"
        "    rf.ctc_output(probs.log(), ...)"
    )


def test_lengths_beside_those_of_a_tensor():
    named = rf.named(scores(2, 7, 5), "batch time vocab", lengths=[7, 5])
    named.feature_dim = named.dims[2]
    assert message(ValueError, lambda: output(named, [7, 3])) == (
        "ctc_output: a Tensor has its lengths.\n"
        "  logits   batch=2, time<=7, vocab=5\n"
        "  lengths  list\n"
        "They are those of its time dim. To use other lengths, pass the raw array:\n"
        "    rf.ctc_output(logits.raw_tensor, lengths, ...)"
    )
    assert output(named).greedy()[1].frames == 5


def test_nan_in_a_real_frame():
    bad = scores(2, 7, 5)
    bad[1, 3, 2] = float("nan")
    assert message(ValueError, lambda: output(bad, [7, 5])) == (
        "ctc_output: the logits have NaN or infinity.\n"
        "  logits  (2, 7, 5)\n"
        "  first   sequence 1, frame 3\n"
        "  frames  1 of 12\n"
        "NaN and infinity cannot be ranked. Padding may hold anything, so give the lengths:\n"
        "    rf.ctc_output(logits, lengths, ...)"
    )


def test_integers():
    assert message(TypeError, lambda: output(torch.zeros(2, 7, 5, dtype=torch.int64))) == (
        "ctc_output: the logits are not floats.\n"
        "  logits  (2, 7, 5) torch.int64\n"
        "The function needs the outputs of the model per frame, before an argmax."
    )


def test_an_axis_too_many():
    assert message(rf.ShapeError, lambda: output(scores(1, 2, 7, 5))) == (
        "ctc_output: the logits do not have the axes of a batch of sequences.\n"
        "  logits  (1, 2, 7, 5)\n"
        "  layout  batch time vocab\n"
        "They are over batch, time, vocab; of one sequence without the batch."
    )


def test_a_layout_of_other_words():
    assert message(ValueError, lambda: output(scores(2, 7, 5), layout="batch frames vocab")) == (
        "ctc_output: unknown layout.\n"
        "  layout  'batch frames vocab'\n"
        "A layout names the three axes in their order: batch, time and vocab.\n"
        '    rf.ctc_output(..., layout="batch time vocab")'
    )


def test_lengths_that_are_longer_than_the_time():
    assert message(ValueError, lambda: output(scores(2, 7, 5), [7, 9])) == (
        "ctc_output: a length is longer than the logits.\n"
        "  logits   (2, 7, 5), batch time vocab\n"
        "  lengths  [7, 9]\n"
        "  longest  sequence 1: 9 of 7 frames\n"
        "A length counts frames of the output, not samples or frames of the input before it is subsampled."
    )


def test_lengths_of_the_other_axis():
    assert message(rf.ShapeError, lambda: output(scores(7, 2, 5), [7, 5])) == (
        "ctc_output: the number of lengths differs from the number of sequences.\n"
        "  logits   (7, 2, 5), batch time vocab\n"
        "  lengths  [7, 5]\n"
        "A batch of 7 has 7 lengths, in frames. Is the batch another axis?\n"
        '    rf.ctc_output(..., layout="time batch vocab")'
    )


def test_lengths_that_are_shares():
    assert message(ValueError, lambda: output(scores(2, 7, 5), torch.tensor([1.0, 0.7]))) == (
        "ctc_output: the lengths are shares, not frames.\n"
        "  logits   (2, 7, 5), batch time vocab\n"
        f"  lengths  {[1.0, float(np.float32(0.7))]}\n"
        "A length counts frames, at most 7 here.\n"
        "    lengths=(lengths * 7).round().long()"
    )


def test_lengths_below_zero():
    assert message(ValueError, lambda: output(scores(2, 7, 5), [7, -1])) == (
        "ctc_output: the lengths are not numbers of frames.\n"
        "  logits   (2, 7, 5), batch time vocab\n"
        "  lengths  [7, -1]\n"
        "A length counts frames, from 0 on."
    )


def test_a_blank_outside_of_the_classes():
    assert message(IndexError, lambda: output(blank=5)) == (
        "ctc_output: the blank is not one of the classes.\n"
        "  blank    5\n"
        "  classes  5: 0 to 4\n"
        "The blank is one of the classes of the logits; -1 is the last one.\n"
        "    rf.ctc_output(..., blank=0)"
    )


def test_a_blank_that_is_no_label():
    assert message(ValueError, lambda: output(blank="<blank>")) == (
        "ctc_output: the blank is not in the vocabulary.\n"
        "  blank       '<blank>'\n"
        "  vocabulary  5 labels, -, |, A, B, C, ...\n"
        "Give it as one of the labels, or as an index; -1 is the last class.\n"
        "    rf.ctc_output(..., blank=-1)"
    )


def test_a_blank_that_nothing_says():
    assert message(ValueError, lambda: output(vocab="ABCDE")) == (
        "ctc_output: the blank class is unknown.\n"
        "  vocabulary  A, B, C, D, E\n"
        "  classes     5\n"
        "It cannot be inferred: no pad token of a tokenizer, no config, no label that is one by its name.\n"
        "    rf.ctc_output(..., blank=0)    # an index, -1 for the last class, or the label as text"
    )
    assert "several labels that could be it" in message(
        ValueError, lambda: output(vocab=["<pad>", "<blank>", "a", "b", "c"])
    )


def test_a_tokenizer_and_a_config_that_say_different_blanks():
    tokenizer = SimpleNamespace(
        get_vocab=lambda: {"<pad>": 0, "a": 1, "b": 2, "c": 3, "d": 4}, pad_token_id=0, word_delimiter_token=None
    )
    assert message(ValueError, lambda: output(vocab=tokenizer, config=SimpleNamespace(pad_token_id=4))) == (
        "ctc_output: the blank class is unknown.\n"
        "  pad token of the tokenizer  0\n"
        "  config.pad_token_id         4\n"
        "CTC models of transformers use the pad token, but tokenizer and config have different ones.\n"
        "    rf.ctc_output(..., blank=4)"
    )


def test_a_vocabulary_of_another_size():
    assert message(ValueError, lambda: output(vocab="-|ABCDEFG")) == (
        "ctc_output: the vocabulary does not fit the logits.\n"
        "  vocab   9 labels\n"
        "  logits  5 classes\n"
        "The vocabulary needs one label per class, or per class except the blank. Check the axis of the classes:\n"
        '    rf.ctc_output(..., layout="batch vocab time")'
    )


def test_vocabularies_that_are_none():
    assert message(ValueError, lambda: output(vocab=[0, 1, 2, 3, 4])) == (
        "ctc_output: a label of the vocabulary is not a string.\n"
        "  vocab  list\n"
        "  label  0\n"
        "A vocabulary is a list of labels in the order of the classes, a dict from label to index, or a tokenizer.\n"
        '    rf.ctc_output(..., vocab=["<blank>", "a", "b"])'
    )
    assert message(ValueError, lambda: output(vocab={"-": 0, "a": 1, "b": 1})) == (
        "ctc_output: the indices of the vocabulary are not valid classes.\n"
        "  labels             3\n"
        "  different indices  2\n"
        "  lowest             0\n"
        "Each label has an index of its own, from 0 on."
    )


def test_a_reference_with_more_labels_than_frames():
    assert message(ValueError, lambda: output(scores(2, 7, 5), [7, 4]).align(["ABC", "AABB"])) == (
        "align: reference 1 has no alignment to its frames.\n"
        "  frames     4\n"
        "  needed     6: 4 labels and 2 blanks between equal ones\n"
        "  reference  'AABB'\n"
        "Each label takes a frame or more, and a blank is between equal ones. Are the lengths those of the output?\n"
        "    rf.ctc_output(logits, lengths, ...)"
    )


def test_a_reference_that_has_probability_zero():
    closed = scores(1, 7, 5)
    closed[:, :, 4] = -np.inf
    assert message(ValueError, lambda: output(closed).align("ABC")) == (
        "align: reference 0 has no alignment with a probability above 0.\n"
        "  frames  7\n"
        "  labels  3\n"
        "  logits  minus infinity for a label in each alignment\n"
        "Every label needs a frame in which its logit is a number."
    )


def test_a_reference_with_the_blank_in_it():
    assert message(ValueError, lambda: output().align(torch.tensor([[2, 3, 4], [4, 2, 0]]))) == (
        "align: the reference contains the blank.\n"
        "  reference 1  0 “-” at place 2 of 3\n"
        "  blank        0 “-”, by its name\n"
        "A reference has labels alone; an alignment puts blanks between them. If it is padding, pass the lengths:\n"
        "    reference_lengths=[...]"
    )


def test_a_reference_in_another_case():
    assert message(ValueError, lambda: output().align(["abc", "A"])) == (
        "align: the reference has a label that is not in the vocabulary.\n"
        "  reference 0  'abc'\n"
        "  label        'a'\n"
        "  vocabulary   - | A B C\n"
        "Every label of a reference is one of the vocabulary. This one is in it in another case:\n"
        "    'abc'.upper()"
    )


def test_a_reference_with_a_class_that_is_not_there():
    assert message(IndexError, lambda: output().align([[2, 7], [3]])) == (
        "align: a label of the reference is not one of the classes.\n"
        "  reference 0  7 at place 1\n"
        "  classes      5: 0 to 4\n"
        "A reference has indices into the classes. Padding has an index below 0, or comes with lengths:\n"
        "    reference_lengths=[...]"
    )


def test_a_reference_too_few():
    assert message(ValueError, lambda: output().align(["A"])) == (
        "align: the number of references differs from the number of sequences.\n"
        "  sequences          2\n"
        "  references         1\n"
        "  reference_lengths  None\n"
        "A batch has a reference per sequence: texts, lists of labels or indices, or an array with a row for each."
    )


def test_a_text_where_labels_are_parts_of_words():
    ctc = output(vocab=["<blank>", "▁a", "b", "▁c", "d"])
    assert message(ValueError, lambda: ctc.align(["ab c", "ab"])) == (
        "align: the labels of this text are unknown.\n"
        "  reference 0  'ab c'\n"
        "  labels       <blank>, ▁a, b, ▁c, d, ...\n"
        "The labels are parts of words, and a list of labels does not determine the parts. Pass the labels, or the tokenizer:\n"
        "    rf.ctc_output(..., vocab=tokenizer)"
    )


def test_samples_without_their_rate():
    assert message(ValueError, lambda: output(samples=np.zeros((2, 700)))) == (
        "ctc_output: samples without sampling_rate.\n"
        "  samples        ndarray\n"
        "  sampling_rate  None\n"
        "The position of a frame in the sound depends on the sampling rate.\n"
        "    rf.ctc_output(..., samples=samples, sampling_rate=16000)"
    )


def test_samples_of_another_batch():
    assert message(ValueError, lambda: output(samples=np.zeros(700), sampling_rate=8000)) == (
        "ctc_output: the number of sounds differs from the number of sequences.\n"
        "  sequences  2\n"
        "  samples    (700,)\n"
        "The samples are (batch, samples), or a list of (samples,); of one sequence (samples,)."
    )


def test_samples_of_different_lengths_without_lengths():
    sound = [np.zeros(700), np.zeros(400)]
    assert message(ValueError, lambda: output(samples=sound, sampling_rate=8000)) == (
        "ctc_output: the number of frames of each sequence is unknown.\n"
        "  samples  700, 400\n"
        "  lengths  None\n"
        "The samples have different lengths, so the last frames are padding; a config with conv_kernel and conv_stride is missing.\n"
        "    rf.ctc_output(logits, lengths, ...)"
    )


def test_a_frame_shift_that_is_no_time():
    assert message(ValueError, lambda: output(frame_shift=0)) == (
        "ctc_output: frame_shift is not a number of seconds.\n"
        "  frame_shift  0\n"
        "frame_shift is the distance between two frames, in seconds.\n"
        "    frame_shift=0.02"
    )
