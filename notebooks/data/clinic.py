"""The models of 12_clinic, healthy and broken. Whoever reads this file before the notebook knows all diagnoses.

Each function or class has the same weights as its healthy twin, and one thing that is wrong with it. `PATIENTS` has what the
notebook examines, `HEALTHY` how it should be, and `VARIANTS` further forms of each disease, on which a check is tried. The code of a
patient is a function `patient_...`, which `code_of` shows when the patient has been found, for the student to mend.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import torch

import rfnb as rf
from rfnb.teaching.course import source_of
from rfnb.teaching.sources import source_with_needs

FEATURES, SIZE, LABELS = 3, 4, 6


def made(shape, seed):
    """Random numbers of a seed, without touching the generator of torch."""
    return torch.tensor(np.random.default_rng(seed).standard_normal(shape), dtype=torch.float32)


def batch(lengths=(6, 4, 3), seed=0):
    """Features (batch, time, feature) and lengths; what lies behind the lengths is padding, and not 0."""
    return made((len(lengths), max(lengths), FEATURES), seed), torch.tensor(lengths)


# 1: encoders, (batch, time, feature) -> (batch, time, size)


def recurrent(steps, seed=1):
    """A recurrent layer over the first axis: (time, ..., feature) -> (time, ..., size)."""
    to, back = made((FEATURES, SIZE), seed), 0.5 * made((SIZE, SIZE), 2)
    state, out = torch.zeros(*steps.shape[1:-1], SIZE), []
    for step in steps:
        state = torch.tanh(step @ to + state @ back)
        out.append(state)
    return torch.stack(out)


def encoder(x, lengths):
    return recurrent(x.transpose(0, 1)).transpose(0, 1)


def patient_encoder(x, lengths, to, back):
    state, out = torch.zeros(x.shape[1], len(back)), []
    for frame in x:
        state = torch.tanh(frame @ to + state @ back)
        out.append(state)
    return torch.stack(out)


def encoder_over_batch(x, lengths):
    return patient_encoder(x, lengths, made((FEATURES, SIZE), 1), 0.5 * made((SIZE, SIZE), 2))


def encoder_of_reshaped(x, lengths):
    count, frames, size = x.shape
    return recurrent(x.reshape(frames, count, size)).reshape(count, frames, SIZE)


def encoder_with_batch_mean(x, lengths):
    return encoder(x - x.mean(0), lengths)


def encoder_both_ways(x, lengths, real=None):
    """Also from the right: from the end of each sequence on, or, with the lengths of somebody else, from where these end."""
    turned = torch.stack(
        [torch.cat([row[:n].flip(0), row[n:]]) for row, n in zip(x, lengths if real is None else real)]
    )
    back = encoder(turned, lengths)
    ends = zip(back, lengths if real is None else real)
    return encoder(x, lengths) + torch.stack([torch.cat([row[:n].flip(0), row[n:]]) for row, n in ends])


def encoder_from_the_right(x, lengths):
    return encoder_both_ways(x, lengths, torch.full_like(lengths, x.shape[1]))


def encoder_of_others(x, lengths):
    """Healthy, with other weights, and rounded otherwise in a larger batch; what it gives for padding is NaN."""
    out = recurrent(x.transpose(0, 1), seed=8).transpose(0, 1) * (7 + len(x)) / (7 + len(x))
    return out.masked_fill(_padding(x, lengths)[..., None], torch.nan)


def _padding(x, lengths):
    return torch.arange(x.shape[1], device=x.device) >= lengths[:, None]


def encoder_with_change(change):
    """As the encoder, and with more than one sequence `change` puts other numbers into its result."""

    def changed(x, lengths):
        out = encoder(x, lengths).clone()
        if len(x) > 1:
            change(out, lengths)
        return out

    return changed


def _late(out, lengths):
    for row, length in zip(out[1:], lengths[1:]):
        row[1:length] += 0.3


def _a_little(out, lengths):
    out += 0.02


def _swapped(out, lengths):  # sums over frames, and over all, stay
    for row, length in zip(out, lengths):
        row[:length] = row[:length].flip(0) if length > 1 else row[:length].flip(1)


def _first_frames(out, lengths):
    out[:, 0] += 0.3


def _of_sequence(seq):
    def change(out, lengths):
        out[seq] += 0.3

    return change


# 2: self-attention over frames, (batch, time, feature) -> (batch, time, feature)


def attended(x, lengths, rule=None, centred=False):
    """Each frame is a mean of the frames for which `rule(place, length)` holds; without a rule of the real ones, as dims know them."""
    named = rf.named(x, "batch time feature", lengths=lengths)
    over, time, feature = named.dims
    if centred:
        named = named - rf.reduce_mean(named, axis=time, use_mask=False)
    keys, source = rf.replace_dim(named, in_dim=time)
    energy = rf.matmul(named, keys, reduce=feature)
    if rule is not None:
        places = rf.range_over_dim(source, device=named.device)
        seen = rule(places, rf.convert_to_tensor(torch.as_tensor(lengths), dims=[over]))
        energy = rf.where(seen, energy, -1e30, allow_broadcast_all_sources=True)
    weights = rf.softmax(energy, axis=source, use_mask=rule is None)
    rf.probe("attention", weights=weights, source=source, target=time)
    mixed = rf.matmul(weights, keys, reduce=source, use_mask=rule is None)
    return mixed.copy_compatible_to_dims_raw([over, time, feature])


def attention(x, lengths):
    return attended(x, lengths)


def patient_attention(x, lengths):
    frames = rf.named(x, "batch time feature", lengths=lengths)
    batch, time, feature = frames.dims
    keys, source = rf.replace_dim(frames, in_dim=time)
    energy = rf.matmul(frames, keys, reduce=feature)
    padding = rf.compare_bc(
        rf.range_over_dim(source, device=frames.device), "<", rf.convert_to_tensor(lengths, dims=[batch])
    )
    energy = rf.where(padding, -1e30, energy, allow_broadcast_all_sources=True)
    weights = rf.softmax(energy, axis=source, use_mask=False)
    rf.probe("attention", weights=weights, source=source, target=time)
    mixed = rf.matmul(weights, keys, reduce=source, use_mask=False)
    return mixed.copy_compatible_to_dims_raw([batch, time, feature])


def attention_one_more(x, lengths):
    return attended(x, lengths, lambda place, length: rf.compare_bc(place, "<=", length))


def attention_centred(x, lengths):
    return attended(x, lengths, centred=True)


def attention_but(of, change):
    """Healthy attention, but of the sequences that `of` picks the diseased one; or of their frames that `change` picks."""

    def mixed(x, lengths):
        out, ill = attended(x, lengths), attention_one_more(x, lengths)
        for seq in of(lengths.tolist()):
            frames = change(int(lengths[seq]))
            out[seq, frames] = ill[seq, frames]
        return out

    return mixed


def _padded(lengths):
    return [seq for seq, length in enumerate(lengths) if length < max(lengths)]


def attention_of_a_little(x, lengths):
    """Healthy, and all frames of a sequence move a little, each by the same, with what is in its padding."""
    padding = x.masked_fill(~_padding(x, lengths)[..., None], 0.0).sum((1, 2))
    return attended(x, lengths) + 0.02 * padding.cos()[:, None, None]


def attention_of_others(x, lengths):
    """Healthy, with other weights: twice as loud, and all of a batch minus the mean of its real frames."""
    real = ~_padding(x, lengths)
    return 2 * attended(x, lengths) - x[real].mean(0)


# 3: language models, a whole text at once, or letter by letter with a cache


class Language:
    """One layer of attention over letters and their positions."""

    letters, positions, out = made((LABELS, SIZE), 3), made((40, SIZE), 4), made((SIZE, LABELS), 5)

    def whole(self, tokens):
        """Logits (time, labels) after each token of a text (time,)."""
        x = self.letters[tokens] + self.positions[: len(tokens)]
        energy = (x @ x.T).masked_fill(torch.ones(len(x), len(x)).triu(1) > 0, -torch.inf)
        return (energy.softmax(-1) @ x) @ self.out

    def start(self):
        """The cache before the first token."""
        return torch.zeros(0, SIZE)

    def position(self, cache):
        return len(cache)

    def kept(self, cache):
        return cache

    def step(self, token, cache):
        """Logits (labels,) after one more token, and the next cache."""
        x = self.letters[token] + self.positions[self.position(cache)]
        cache = self.kept(torch.cat([cache, x[None]]))
        return ((cache @ x).softmax(0) @ cache) @ self.out, cache


def patient_step(model, token, cache):
    x = model.letters[token] + model.positions[len(cache) + 1]
    cache = torch.cat([cache, x[None]])
    return ((cache @ x).softmax(0) @ cache) @ model.out, cache


class LanguageOneLate(Language):
    def step(self, token, cache):
        return patient_step(self, token, cache)


class LanguageStuck(Language):
    def position(self, cache):
        return min(len(cache), 3)


class LanguageForgets(Language):
    def kept(self, cache):
        return cache[-4:]


class LanguageStuckLate(Language):
    def position(self, cache):
        return min(len(cache), 4)


class LanguageOfOthers(Language):
    """Healthy, with other weights, and rounded otherwise in steps."""

    letters, out = made((LABELS, SIZE), 13), made((SIZE, LABELS), 15)

    def step(self, token, cache):
        logits, cache = super().step(token, cache)
        return logits * 11 / 11, cache


class LanguageBlindOnce(Language):
    """The second letter does not see itself; all others do."""

    def step(self, token, cache):
        logits, longer = super().step(token, cache)
        return (cache[0] @ self.out if len(cache) == 1 else logits), longer


class LanguageLouder(Language):
    """In steps all labels are a little louder, each by the same: their probabilities stay."""

    def step(self, token, cache):
        logits, cache = super().step(token, cache)
        return logits + 0.02, cache


# 4: recognisers of one sequence, made anew by calling the class: (time, feature) -> (time, size)


class Recogniser:
    """A recurrent layer whose state begins with zeros in each call."""

    to, back = made((FEATURES, SIZE), 6), 0.8 * made((SIZE, SIZE), 7)

    def __init__(self):
        self.state = torch.zeros(SIZE)

    def begin(self, x):
        return torch.zeros(SIZE)

    def again(self, state, at):
        """The state that step `at` goes on from."""
        return state

    def __call__(self, x):
        state, out = self.begin(x), []
        for at, frame in enumerate(x):
            state = torch.tanh(frame @ self.to + self.again(state, at) @ self.back)
            out.append(state)
        self.state = state
        return torch.stack(out)


def patient_call(model, x):
    out = []
    for frame in x:
        model.state = torch.tanh(frame @ model.to + model.state @ model.back)
        out.append(model.state)
    return torch.stack(out)


class RecogniserGoesOn(Recogniser):
    def __call__(self, x):
        return patient_call(self, x)


class RecogniserRemembers(Recogniser):
    """The first frame is right; the state of the last call comes back behind it."""

    def again(self, state, at):
        return state + self.state if at == 1 else state


class RecogniserGoesOnALittle(Recogniser):
    def begin(self, x):
        return 0.1 * self.state


class RecogniserOfShapes(Recogniser):
    """Keeps results by the shape of the input."""

    def __init__(self):
        super().__init__()
        self.kept = {}

    def __call__(self, x):
        if x.shape not in self.kept:
            self.kept[x.shape] = super().__call__(x)
        return self.kept[x.shape]


class RecogniserAdapts(Recogniser):
    """Takes away a mean of all that it has ever heard."""

    def __init__(self):
        super().__init__()
        self.mean, self.count = torch.zeros(FEATURES), 0

    def __call__(self, x):
        self.count += 1
        self.mean = self.mean + (x.mean(0) - self.mean) / (self.count + 1)
        return super().__call__(x - self.mean)


class RecogniserOfOthers(Recogniser):
    """Healthy, with other weights: it hears twice as loud."""

    def __call__(self, x):
        return super().__call__(2 * x)


# 5: beam searches, (model, beam size, steps) -> [(labels, log probability)], the best first


class Speller:
    """A model of label sequences with a state; label 0 ends one."""

    def __init__(self, seed):
        rng = np.random.default_rng(seed)
        self.to, self.back, self.out = (
            rng.standard_normal(shape) * 1.5 for shape in ((LABELS, 4), (4, 4), (4, LABELS))
        )

    def start(self):
        """The state before the first label (size,)."""
        return np.full(4, 0.1)

    def log_probs(self, state):
        """Of the next label, (..., labels)."""
        energy = state @ self.out
        return energy - np.log(np.exp(energy).sum(-1, keepdims=True))

    def advance(self, state, label):
        """The state after a label."""
        return np.tanh(state @ self.back + self.to[label])

    def score(self, labels):
        """The log probability of a whole sequence of labels."""
        state, total = self.start(), 0.0
        for label in labels:
            total += self.log_probs(state)[label]
            state = self.advance(state, label)
        return float(total)


def beam(model, beam_size, steps, *, labels_follow=True, scores_follow=True):
    states, scores = np.repeat(model.start()[None], beam_size, 0), np.array([0.0] + [-np.inf] * (beam_size - 1))
    texts = [()] * beam_size
    for _ in range(steps):
        ended = np.array([bool(text) and text[-1] == 0 for text in texts])
        more = model.log_probs(states)
        more[ended] = [0.0] + [-np.inf] * (LABELS - 1)  # what has ended goes on at no cost
        best = (scores[:, None] + more).ravel().argsort(kind="stable")[::-1][:beam_size]
        parents, labels = best // LABELS, best % LABELS
        came = parents if scores_follow or not np.isfinite(scores).all() else np.arange(beam_size)
        scores = scores[came] + more.ravel()[best]
        states = states[parents]
        came = parents if labels_follow else range(beam_size)
        texts = [
            texts[place] if ended[parent] else (*texts[place], int(label))
            for place, parent, label in zip(came, parents, labels)
        ]
        states = np.where(ended[parents][:, None], states, model.advance(states, labels))
    return [(text, float(score)) for text, score in zip(texts, scores)]


def patient_search(model, beam_size, steps):
    states = np.repeat(model.start()[None], beam_size, 0)
    scores, texts = np.array([0.0] + [-np.inf] * (beam_size - 1)), [()] * beam_size
    for _ in range(steps):
        ended = np.array([text[-1:] == (0,) for text in texts])
        more = model.log_probs(states)
        more[ended] = [0.0] + [-np.inf] * (more.shape[1] - 1)  # what has ended goes on at no cost
        every = (scores[:, None] + more).ravel()
        best = every.argsort(kind="stable")[::-1][:beam_size]
        parents, labels = best // more.shape[1], best % more.shape[1]
        scores = every[best]
        texts = [texts[old] if ended[old] else (*texts[old], int(new)) for old, new in zip(parents, labels)]
        states = model.advance(states, labels)
    return [(text, float(score)) for text, score in zip(texts, scores)]


def beam_without_labels(model, beam_size, steps):
    return beam(model, beam_size, steps, labels_follow=False)


def beam_without_scores(model, beam_size, steps):
    return beam(model, beam_size, steps, scores_follow=False)


def beam_that_pays(model, beam_size, steps):
    """What is written after the first label costs a little more than the model says: scores are too small, and never too large."""
    return [(text, score - 0.1 * (len(text) > 3)) for text, score in beam(model, beam_size, steps)]


def beam_that_pays_a_little(model, beam_size, steps):
    return [(text, score - 0.02) for text, score in beam(model, beam_size, steps)]


def beam_with_a_bonus(model, beam_size, steps):
    (text, score), *others = beam(model, beam_size, steps)
    return [(text, score + 0.1), *others]


def beam_right_at_first(model, beam_size, steps):
    """The first two labels of each hypothesis are right, with the right score; what is written later costs nothing."""
    found = beam(model, beam_size, steps)
    return sorted([(text, model.score(text[:2])) for text, _ in found], key=lambda one: -one[1])


def beam_of_three(model, beam_size, steps):
    """Healthy, narrower than asked for, and rounded otherwise."""
    return [(text, score * 11 / 11) for text, score in beam(model, beam_size - 1, steps)]


# 6: a model of transformers, and what asks it: (model, input_ids, attention_mask) -> logits (batch, time, labels)


def reader(vocab=20, seed=1):
    """A GPT-2 with random weights, made from a configuration: nothing is loaded. None where transformers is not installed."""
    if importlib.util.find_spec("transformers") is None:
        return None
    from transformers import GPT2Config, GPT2LMHeadModel

    sizes = {"vocab_size": vocab, "n_positions": 32, "n_embd": 16, "n_layer": 2, "n_head": 2}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = GPT2LMHeadModel(GPT2Config(**sizes, bos_token_id=0, eos_token_id=0)).eval().requires_grad_(False)
        for table in (model.transformer.wpe, model.transformer.wte):  # random ones are near 0, and hardly matter
            torch.nn.init.normal_(table.weight)
    return model


def texts(lengths=(6, 4, 3), seed=0, side="left", vocab=20):
    """Label numbers (batch, time), padded with 0 on a side, and the mask: 1 is real."""
    size, rng = max(lengths), np.random.default_rng(seed)
    rows = [(rng.integers(1, vocab, length), size - length) for length in lengths]
    at = (lambda gap: (gap, 0)) if side == "left" else (lambda gap: (0, gap))
    ids, mask = ([np.pad(part(row), at(gap)) for row, gap in rows] for part in (np.asarray, np.ones_like))
    return torch.tensor(np.stack(ids)), torch.tensor(np.stack(mask))


class ScoringModel(torch.nn.Module):
    """A model and the function that scores with it, as one module."""

    def __init__(self, model, scores):
        super().__init__()
        self.model, self._scores = model, scores

    def forward(self, input_ids, attention_mask):
        return self._scores(self.model, input_ids, attention_mask)


def scores(model, input_ids, attention_mask):
    positions = (attention_mask.cumsum(1) - 1).clamp(min=0)
    return model(input_ids, attention_mask=attention_mask, position_ids=positions).logits


def patient_scores(model, input_ids, attention_mask):
    positions = torch.arange(input_ids.shape[1]).expand_as(input_ids)
    return model(input_ids, attention_mask=attention_mask, position_ids=positions).logits


def scores_without_mask(model, input_ids, attention_mask):
    positions = (attention_mask.cumsum(1) - 1).clamp(min=0)
    return model(input_ids, position_ids=positions).logits


def scores_from_the_end(model, input_ids, attention_mask):
    """Real labels are counted as if the longest text set the count."""
    positions = (attention_mask.cumsum(1) - 1 + (attention_mask == 0).sum(1, keepdim=True)).clamp(min=0)
    return model(input_ids, attention_mask=attention_mask, position_ids=positions).logits


DIAGNOSES = {
    1: "the loop goes over the batch, not over time",
    2: "the padding mask is upside down",
    3: "positions are counted wrong in steps",
    4: "a state of the last call is still there",
    5: "states do not follow their hypotheses",
    6: "padding on the left is counted as text",
}

HEALTHY = {1: encoder, 2: attention, 3: Language(), 4: Recogniser, 5: beam, 6: scores}
PATIENTS = {
    1: encoder_over_batch, 2: patient_attention, 3: LanguageOneLate(), 4: RecogniserGoesOn, 5: patient_search, 6: patient_scores,
}  # fmt: skip
_CODE = {1: "encoder", 2: "attention", 3: "step", 4: "call", 5: "search", 6: "scores"}


def code_of(number):
    """The code of a patient with its imports, under the name that it has when it is mended."""
    name = _CODE[number]
    return source_with_needs(source_of(Path(__file__)), f"patient_{name}").replace(f"patient_{name}", f"mended_{name}")


VARIANTS = {
    1: {"a reshape where a transpose was meant": encoder_of_reshaped, "minus the mean over the batch": encoder_with_batch_mean,
        "it reads from the right, and begins in the padding": encoder_from_the_right,
        "wrong from the second frame on": encoder_with_change(_late), "wrong in first frames alone": encoder_with_change(_first_frames),
        "the right numbers in the wrong places": encoder_with_change(_swapped),
        "wrong in the first sequence alone": encoder_with_change(_of_sequence(0)),
        "wrong in all sequences but the last": encoder_with_change(_of_sequence(slice(-1))),
        "wrong in the last sequence alone": encoder_with_change(_of_sequence(-1)),
        "wrong by 0.02 everywhere": encoder_with_change(_a_little)},
    2: {"one frame of padding is seen": attention_one_more, "the mean is over padding, too": attention_centred,
        "padding is seen in the first sequence that has any, and not in others": attention_but(lambda n: _padded(n)[:1], slice),
        "padding is seen in the last sequence that has any, and not in others": attention_but(lambda n: _padded(n)[-1:], slice),
        "padding is seen by first frames alone": attention_but(_padded, lambda length: slice(1)),
        "padding is seen by the last real frames alone": attention_but(_padded, lambda length: slice(length - 1, length)),
        "padding changes all frames by less than 0.05": attention_of_a_little},
    3: {"the position stays at 3": LanguageStuck(), "the cache keeps four letters": LanguageForgets(),
        "the second letter does not see itself": LanguageBlindOnce(), "the position stays at 4": LanguageStuckLate(),
        "in steps all logits are too large by 0.02": LanguageLouder()},
    4: {"results are kept by the shape of the input": RecogniserOfShapes, "a mean over all calls": RecogniserAdapts,
        "a fiftieth of the last state is left": RecogniserGoesOnALittle,
        "the last state comes back behind the first frame": RecogniserRemembers},
    5: {"labels do not follow their parents": beam_without_labels, "scores do not follow their parents": beam_without_scores,
        "scores are too small": beam_that_pays,
        "scores are too small by 0.02": beam_that_pays_a_little, "the score of the best alone is too large": beam_with_a_bonus,
        "the third label and all later ones cost nothing": beam_right_at_first},
    6: {"the mask is not passed on": scores_without_mask, "positions count the padding, wherever it is": scores_from_the_end},
}  # fmt: skip
# Healthy ones with other weights, so that a check cannot be a look at what the healthy one gives.
OTHERS = {
    1: {"another healthy encoder": encoder_of_others, "a healthy encoder in both directions": encoder_both_ways},
    2: {"another healthy attention": attention_of_others}, 3: {"another healthy language model": LanguageOfOthers()},
    4: {"another healthy recogniser": RecogniserOfOthers}, 5: {"a narrower healthy search": beam_of_three},
}  # fmt: skip


class Veiled:
    """A model of which nothing but its results is to be seen: no name, no class."""

    def __init__(self, model):
        self.__call, self.__model = (lambda *given: model(*given)), (lambda: model)

    def __call__(self, *given):
        if len(given) == 2 and torch.is_tensor(given[1]) and len(given[0]) != len(given[1]):
            raise ValueError(f"{len(given[0])} sequences, and {len(given[1])} lengths: each has one")
        made = self.__call(*given)
        return Veiled(made) if isinstance(made, Recogniser) else made

    def whole(self, tokens):
        return self.__model().whole(tokens)

    def start(self):
        return self.__model().start()

    def step(self, token, cache):
        return self.__model().step(token, cache)
