"""Checks of 04_encoder_decoder: teacher forcing, a step of the decoder, the masked loss, a training loop, the last real position."""

from functools import partial

import torch

import rfnb as rf
from rfnb.models.number_words import NumberModel, batch_of, word_dim
from rfnb.teaching import call, check_gradient, check_same, exercise, is_same, kind_of, wrong

# Not by length: an answer that needs the longest first would stop in the notebook.
_WORDS = torch.tensor([[21, 2, 0, 9, 9, 9], [4, 28, 2, 27, 17, 0], [6, 0, 9, 9, 9, 9]])
_LENGTHS = torch.tensor([3, 6, 2])


@exercise(
    "The inputs of the decoder: the word before each word",
    hints=[
        "At step 0 there is no word before: that is what the begin label is for.",
        "At step 1 the decoder is given word 0. So everything moves by one step, and the last word is given to no step.",
        "torch.cat([one, other], dim=1) puts them side by side, and torch.full_like makes a column of one label out of another column.",
    ],
)
def decoder_inputs(answer):
    for begin in (5, 0):
        words = _WORDS.clone()
        got = call(answer, words, begin)
        given = [("words[0]", _WORDS[0].tolist()), ("begin", begin)]
        if not isinstance(got, torch.Tensor):
            wrong(
                "The result is no torch tensor.",
                [*given, ("got", kind_of(got))],
                "The decoder looks labels up in a table of torch: make them with torch.cat, torch.full_like, slices.",
            )
        if got.dtype != _WORDS.dtype:
            wrong(
                "The labels have another dtype than the words.",
                [*given, ("got", got.dtype), ("expected", _WORDS.dtype)],
                "They are entries of a table, so they stay whole numbers: torch.full_like keeps the dtype.",
            )
        if got.shape == _WORDS.shape:
            row = got[0].tolist()
            given.append(("got[0]", row))
            if row == _WORDS[0].tolist():
                wrong(
                    "The inputs are the words themselves: the decoder is given the very word that it is to write.",
                    given,
                    "It would learn to copy its input, and have nothing to copy later.",
                )
            if row[:-1] == _WORDS[0, 1:].tolist():
                wrong("The words are moved the wrong way: step 0 is given word 1.", given, "Step 1 is given word 0.")
            if row[1:] == _WORDS[0, :-1].tolist() and row[0] != begin:
                wrong("The words are moved, but the first input is not the begin label.", given)
            if row[0] == begin and row[1:] == _WORDS[0, 1:].tolist():
                wrong("The first word is overwritten, and nothing is moved.", given, "Step 1 is given word 0.")
        elif got.shape == (len(_WORDS), _WORDS.shape[1] + 1):
            wrong(
                "There is one step too many: the last word is the input of no step.",
                [("words", tuple(_WORDS.shape)), ("got", tuple(got.shape))],
            )
        check_same(
            got,
            torch.cat([torch.full_like(_WORDS[:, :1], begin), _WORDS[:, :-1]], 1),
            what="The result",
            given=given[:2],
        )
        if not torch.equal(words, _WORDS):
            wrong(
                "The inputs are right, but the words themselves were changed, too.",
                [("words[0]", _WORDS[0].tolist()), ("after the call", words[0].tolist())],
                "The loss compares with them afterwards. Make a new tensor, or begin with words.clone().",
            )
    got, wanted = call(answer, _WORDS[:2, :4].clone(), 7), [[7, *row] for row in _WORDS[:2, :3].tolist()]
    check_same(got, torch.tensor(wanted), what="The result for two sequences of four words")


@exercise(
    "One step of the decoder",
    hints=[
        "Three modules, one after the other: model.words, model.decoder, model.output.",
        "model.decoder(x, state=state, spatial_dim=rf.single_step_dim) gives two things: what it puts out, and its new state.",
        "What it puts out goes through model.output; its new state is returned as it is.",
    ],
)
def decoder_step(answer):
    model = NumberModel(units=12)
    part = batch_of([4217, 42, 6])
    encoded = model.encode(part.digits, spatial_dim=part.digits_dim)
    state, label = encoded.start, rf.zeros([part.batch], dtype="int64", sparse_dim=word_dim)
    for step in range(3):
        expected, after = model(label, encoded, state=state, spatial_dim=rf.single_step_dim)
        got = call(answer, model, label, state)
        if not isinstance(got, (tuple, list)) or len(got) != 2:
            many = len(got) if isinstance(got, (tuple, list)) else "one"
            wrong(
                f"It returns {many} thing{'' if many == 'one' else 's'}.",
                [("got", kind_of(got))],
                "A step returns two: the logits, and the new state.",
            )
        logits, new = got
        if not isinstance(new, rf.State):
            wrong(
                "The second result is no state.",
                [("got", kind_of(new))],
                "Return (logits, state), the state as model.decoder gives it.",
            )
        if not isinstance(logits, rf.Tensor):
            wrong(
                "The logits are no Tensor of rf.",
                [("got", kind_of(logits))],
                "The search chooses along the dim of words: give what model.output returns.",
            )
        if word_dim not in logits.dims:
            wrong(
                "The result has no dim of words: these are no logits yet.",
                [("got", list(logits.dims))],
                "model.output makes them.",
            )
        if bool((new.h.raw_tensor == state.h.raw_tensor).all()):
            wrong(
                f"Step {step}: the state that comes back is the one that went in.",
                rule="The decoder would be at its first step for ever. model.decoder returns the new state too.",
            )
        for made, what in ((logits, "probabilities"), (rf.exp(logits), "log probabilities")):
            if _sums_to_one(made):
                wrong(f"These are {what}.", rule="The loss and the search take logits, as model.output gives them.")
        check_same(logits, expected, what=f"Step {step}: the tensor of logits")
        check_same(new.h, after.h, what=f"The state h after step {step}")
        check_same(new.c, after.c, what=f"The state c after step {step}")
        check_gradient(logits, {"the embedding": model.words.weight})
        state, label = after, rf.cast(rf.reduce_argmax(expected, axis=word_dim), "int64") + 1 - 1


def _sums_to_one(logits):
    sums = rf.reduce_sum(logits, axis=word_dim).raw_tensor
    return bool(torch.allclose(sums, torch.ones_like(sums), atol=1e-4))


def _reference_loss(logits, words, lengths):
    rows = [
        torch.nn.functional.cross_entropy(logits[i, :n], words[i, :n], reduction="sum") for i, n in enumerate(lengths)
    ]
    return sum(rows) / lengths.sum()


@exercise(
    "The mean cross-entropy over the real words",
    hints=[
        "Which cells are real? torch.arange(time) < lengths[:, None] is True for them: (batch, time).",
        "A mask may be an index: logits[real] is (real words, word), words[real] is (real words,).",
        "torch.nn.functional.cross_entropy of these two is the mean over real words.",
    ],
    points=2,
)
def masked_loss(answer):
    logits = torch.randn(3, 6, 30, generator=torch.Generator().manual_seed(1)) * 2
    true = _reference_loss(logits, _WORDS, _LENGTHS)
    each = torch.nn.functional.cross_entropy(logits.transpose(1, 2), _WORDS, reduction="none")
    real = torch.arange(6) < _LENGTHS[:, None]
    leaf = logits.clone().requires_grad_()
    got = call(
        answer, leaf * 1, _WORDS.clone(), _LENGTHS.clone()
    )  # no leaf, as those of a model: they may be overwritten
    value = torch.as_tensor(got).detach()
    if value.numel() != 1:
        wrong(
            "The result is not one number.",
            [("shape", tuple(value.shape))],
            "It is a mean over all real words of the batch.",
        )
    value = float(value)
    given = [("got", f"{value:.4f}"), ("expected", f"{true:.4f}")]
    for mistake, what, rule in (
        (each.mean(), "This is the mean over all cells: padding is counted.", "Sequence 2 has 2 words, not 6."),
        ((each * real).mean(), "Padding is set to 0, and still counted in the mean.", "Divide by the number of real words, lengths.sum()."),
        ((each * real).sum(), "This is the sum over the real words.", "The mean is asked for: divide by the number of real words."),
        (((each * real).sum(1) / _LENGTHS).mean(), "This is a mean of means: a word of a short number counts for more.",
            "All real words count alike: one sum, divided by lengths.sum()."),
        ((each * real).sum() / len(_LENGTHS), "This is the loss per sequence.", "Divide by the number of real words."),
        (-true, "The sign is wrong.", "Cross-entropy is minus the log probability."),
        (true / torch.log(torch.tensor(2.0)), "These are bits.", "Nats: the natural logarithm."),
    ):  # fmt: skip
        if abs(value - float(mistake)) < 1e-4 * max(1, abs(value)):
            wrong(what, given, rule)
    check_same(value, float(true), what="The loss")
    for garbage in (1e4, float("nan")):
        dirty, other = logits.clone(), _WORDS.clone()
        dirty[~real], other[~real] = garbage, 3
        found = float(call(answer, dirty, other, _LENGTHS.clone()))
        if not abs(found - float(true)) < 1e-3:
            wrong(
                "The result changes with what is in the padding.",
                [("padding of logits", garbage), ("got", f"{found:.4f}"), ("expected", f"{true:.4f}")],
                "0 times NaN is NaN: leave the padding out, instead of multiplying it by 0.",
            )
    check_gradient(got, {"the logits": leaf}) if isinstance(got, torch.Tensor) else wrong(
        "The result is no tensor.", [("got", kind_of(got))], "backward() needs one: no .item(), no float()."
    )
    got = call(answer, logits[:2, :, :9].clone(), _WORDS[:2] % 9, _LENGTHS[:2].clone())
    few = torch.arange(_WORDS.shape[1]) < _LENGTHS[:2, None]
    wanted = torch.nn.functional.cross_entropy(logits[:2, :, :9][few], (_WORDS[:2] % 9)[few])
    check_same(float(got), float(wanted), what="The loss of two sequences over nine labels")


class Training:
    """A training of two or three weights whose losses are known, and what is asked of it.

    Args:
        validation: What `validate` says after each epoch.
        counts: How many batches each epoch has.
    """

    def __init__(self, validation, counts, patience):
        values = [torch.tensor([1.0, -2.0]), torch.tensor(0.5), torch.ones(2, 2)]
        self.weights = [value.requires_grad_() for value in values[: 2 + patience % 2]]
        self.validation, self.patience = validation, patience
        self.all = [[0.25 * (epoch + 1) + 0.5 * at for at in range(count)] for epoch, count in enumerate(counts)]
        self.optimizer = torch.optim.SGD(self.weights, lr=0.05)
        self.taken = self.asked = 0

    def epochs(self):
        """The batches of each epoch; a number each."""
        for batches in self.all:
            self.taken += 1
            yield list(batches)

    def loss_of(self, batch):
        """A loss that pulls the weights to a batch."""
        first, second, *more = self.weights
        return ((first - batch) ** 2).sum() + (second * first.sum() - batch) ** 2 + sum((one**2).sum() for one in more)

    def validate(self):
        """The next number, which only depends on how often it was asked."""
        self.asked += 1
        if self.asked > len(self.validation):
            wrong("The validation loss is asked for more often than there are epochs.", [("epochs", self.taken)])
        return self.validation[self.asked - 1]

    def run(self, loop):
        """What a loop gives, and the weights afterwards."""
        given = [*self.weights]
        curves = loop(given, self.epochs(), self.loss_of, self.validate, self.optimizer, self.patience)
        return curves, [weight.detach().clone() for weight in self.weights]


def looped(
    weights,
    epochs,
    loss_of,
    validate,
    optimizer,
    patience,
    *,
    zero=True,
    back="best",
    total=False,
    least="lower",
    early=0,
    mean=True,
):
    """The loop that is asked for; the options are mistakes."""
    train, valid, kept, waited, best = [], [], None, 0, float("inf")
    for batches in epochs:
        losses = []
        for batch in batches:
            if zero:
                optimizer.zero_grad()
            loss = loss_of(batch)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        train.append(sum(losses) / len(losses) if mean else losses[-1])
        valid.append(validate())
        before = valid[-2] if len(valid) > 1 else float("inf")
        if valid[-1] < (before if least == "before" else best) or (least == "as low" and valid[-1] == best):
            kept, best = [weight.detach().clone() for weight in weights], min(best, valid[-1])
            waited = waited if total else 0
        else:
            waited += 1
        if patience and waited >= patience + early:
            break
    if back == "best":
        with torch.no_grad():
            for weight, own in zip(weights, kept):
                weight.copy_(own)
    return train, valid


LOOP_MISTAKES = {
    "It does not begin each update without the gradients of the one before.": (
        {"zero": False},
        "optimizer.zero_grad()",
    ),
    "It stops one epoch too early.": ({"early": -1}, "`patience` epochs in a row were no better than the best one."),
    "It stops one epoch too late.": ({"early": 1}, "`patience` epochs in a row were no better than the best one."),
    "It counts all epochs that were no better, and not those in a row.": (
        {"total": True},
        "A better epoch begins the count anew.",
    ),
    "It compares each epoch with the one before it.": (
        {"least": "before"},
        "It is compared with the best of all so far.",
    ),
    "An epoch as good as the best one counts as better.": ({"least": "as low"}, "Better is lower."),
    "It gives the loss of the last batch of each epoch.": (
        {"mean": False},
        "The mean over the batches of the epoch is asked for.",
    ),
}
_TRAININGS = [
    ([5.0, 4.0, 4.5, 3.0, 3.2, 3.0, 3.5, 3.4, 3.6, 3.7, 1.0], [2, 1, 3, 2, 1, 2, 2, 2, 1, 2, 2], 2),
    ([5.0, 6.0, 4.0, 4.5, 4.2, 4.1, 3.0], [1, 2, 2, 1, 3, 1, 1], 3),
    ([3.0, 2.0, 1.0], [2, 2, 2], 1),
    ([2.0, 2.5, 1.5, 1.8, 1.7, 1.6, 1.0], [2, 1, 2, 1, 2, 1, 2], 4),
    ([2.0, 3.0], [1, 3], 1),
]


@exercise(
    "A training loop that knows when to stop",
    hints=[
        "One update: no gradients, the loss, its gradients, a step. One epoch: all its batches, and then the validation loss.",
        "A weight is changed in place, so what is kept of the best epoch is a copy of its values: weight.detach().clone().",
        "In the end the values go back into the same tensors, by copy_, and no gradient is asked for that.",
    ],
    points=3,
)
def trained(answer):
    for validation, counts, patience in _TRAININGS:
        given = [("validation losses", validation), ("patience", patience)]
        mine = Training(validation, counts, patience)
        wanted, weights = mine.run(looped)
        theirs = Training(validation, counts, patience)
        got, other = theirs.run(partial(call, answer))
        if not (isinstance(got, (tuple, list)) and len(got) == 2 and all(isinstance(one, list) for one in got)):
            wrong("It returns two lists: the training losses, and the validation losses.", [("got", kind_of(got))])
        tensors = [value for curve in got for value in curve if isinstance(value, torch.Tensor)]
        if tensors:
            wrong(
                "A curve holds tensors.",
                [*given, ("got", kind_of(tensors[0]))],
                "loss.item() is a float; a tensor keeps all that it was computed from.",
            )
        at = [("epochs", f"{len(got[1])}, and {mine.asked} are wanted")]
        for name, (mistake, rule) in LOOP_MISTAKES.items() if not is_same(got, wanted) else ():
            if patience + mistake.get("early", 0) < 1:
                continue
            made = Training(validation, counts, patience).run(partial(looped, **mistake))[0]
            if is_same(got, made):
                wrong(name, [*given, *at], rule)
        if theirs.asked > mine.asked and theirs.asked == len(validation):
            wrong(
                "It never stops before the epochs end.",
                [*given, *at],
                "After `patience` epochs in a row without a better one: break.",
            )
        if theirs.taken > mine.taken:
            wrong(
                "It begins an epoch after the last one.",
                [*given, ("epochs begun", theirs.taken), ("wanted", mine.taken)],
            )
        check_same(got[0], wanted[0], what="The list of training losses", given=given)
        check_same(got[1], wanted[1], what="The list of validation losses", given=given)
        if not is_same(other, weights):
            last = Training(validation, counts, patience).run(partial(looped, back="last"))[1]
            if is_same(other, last):
                wrong(
                    "In the end the weights are those of the last epoch, not of the best one.",
                    [*given, ("weights", other), ("best epoch", wanted[1].index(min(wanted[1])))],
                    "Copies of the best values (a list of the weights themselves changes with them) go back by weight.copy_.",
                )
            check_same(other, weights, what="The list of weights in the end", given=given)


@exercise(
    "The output at the last real position",
    hints=[
        "The last real position of a sequence of length n is n - 1.",
        "Two indices at once: outputs[rows, positions] takes one cell for each row.",
        "The rows are all of them, in order: torch.arange(len(outputs)).",
    ],
)
def last_output(answer):
    for sizes in ([2, 4, 1], [1, 6]):
        lengths = torch.tensor(sizes)
        outputs = torch.randn(len(sizes), max(sizes), 5, generator=torch.Generator().manual_seed(1))
        expected = torch.stack([outputs[i, n - 1] for i, n in enumerate(sizes)])
        rows, shown = torch.arange(len(sizes)), [("lengths", sizes)]
        got = call(answer, outputs.clone(), lengths.clone())
        real = torch.arange(max(sizes)) < lengths[:, None]
        for mistake, what, rule in (
            (outputs[:, -1], "This is the output at the last position of the array: for short sequences that is padding.",
            f"Sequence 0 has length {sizes[0]}; its last position is {sizes[0] - 1}."),
            (outputs[rows, lengths.clamp(max=max(sizes) - 1)], "This is one position too far.", "The last of n is n - 1."),
            (outputs[:, 0], "This is the first output of each sequence.", "The last real one is asked for."),
            ((outputs * real[..., None]).sum(1) / lengths[:, None], "This is the mean over the real positions.",
            "The last real one is asked for."),
            (outputs[:, lengths - 1], "It takes the positions of all sequences from each of them.",
            "outputs[:, lengths - 1] pairs every row with every length; give the rows as an index too."),
        ):  # fmt: skip
            if is_same(got, mistake):
                wrong(what, shown, rule)
        check_same(got, expected, what="The result", given=shown)
