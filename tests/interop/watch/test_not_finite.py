"""A NaN or an infinity ends the training before the optimizer uses it, with the module that caused it."""

import warnings

import pytest
import torch
from interop.watch.watched_models import Encoder, batches, loss_of, made, state_of, train

import rfnb as rf


class Root(torch.nn.Module):
    """The square root: of 0 its gradient is infinite, below 0 it is NaN."""

    def forward(self, x):
        return x.sqrt()


class Net(torch.nn.Module):
    """Modules of which one can be made to fail, behind a dropout that fails only for some random numbers."""

    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(5, 7)
        self.dropout = torch.nn.Dropout(0.5)
        self.middle = torch.nn.Sequential(torch.nn.Linear(7, 7), Root())
        self.last = torch.nn.Linear(7, 3)
        self.shift = 10.0

    def forward(self, x):
        x = self.dropout(self.first(x)).square() + self.shift
        return self.last(self.middle(x))


def net():
    model = made(Net)
    with torch.no_grad():
        model.middle[0].weight.copy_(torch.eye(7))
        model.middle[0].bias.zero_()
    return model


def stopped(model, prepare, **options):
    """The message of the error, the watch, and the state before the failing step; two good updates come first."""
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    x = torch.linspace(-1, 1, 20).reshape(4, 5)
    watch = rf.watch(model, optimizer, **options)
    for number in range(3):
        optimizer.zero_grad()
        given = prepare(model, x) if number == 2 else x
        before = state_of(model)
        if number < 2:
            model(given).square().mean().backward()
            optimizer.step()
    model(given).square().mean().backward()
    with pytest.raises(FloatingPointError) as error:
        optimizer.step()
    for name, value in state_of(model).items():
        assert torch.equal(value, before[name]) or torch.isnan(before[name]).any(), name
    assert watch.closed
    return str(error.value), watch


def test_the_module_that_made_it_in_the_forward_pass_is_named():
    def prepare(model, x):
        model.shift = -0.05  # only what was dropped becomes negative
        return x

    message, watch = stopped(net(), prepare)
    first, module, given, out, *rest = message.splitlines()
    assert first == 'watch: the output of "middle.1" is NaN or infinite.'
    assert module == "  module       middle.1 (Root)"
    assert given == "  input        finite, float32 (4, 7)"
    assert out.startswith("  output       NaN in ") and out.endswith(" of 28, float32 (4, 7)")
    assert rest == [
        "  fine before  middle.0",
        "  update       3",
        "  batch        3",
        "  optimizer    has not used it: parameters are as before",
        "It is the first module, in the order of the forward pass, whose output is not finite; its input is.",
        "    rf.show(watch.failed)    # this batch, recorded",
    ]
    assert watch.failed is not None and watch.failed.closed
    assert watch.says[-1] == (3, 'the output of "middle.1" is NaN or infinite.')
    assert 'update 3: the output of "middle.1" is NaN or infinite.' in watch.summary()


class Log(torch.nn.Module):
    def forward(self, x):
        return x.log()


def test_minus_infinity_that_came_in_is_said():
    model = torch.nn.Sequential(torch.nn.Linear(5, 4), torch.nn.ReLU(), Log(), torch.nn.Linear(4, 3))
    torch.nn.init.constant_(model[0].bias, -9.0)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with pytest.raises(FloatingPointError) as error, rf.watch(model, optimizer):
        model(torch.ones(2, 5)).sum().backward()
        optimizer.step()
    rule = str(error.value).splitlines()[-2]
    assert rule == (
        "It is the first module whose output is NaN or inf. Its input has -inf, from a mask or from log(0): if it is no mask, look "
        'for its origin after "1".'
    )


def test_it_is_found_with_the_same_random_numbers():
    """With others the dropout would drop others, and as many again would be NaN elsewhere."""
    model = net()
    torch.manual_seed(6)
    seen = []
    model.middle[1].register_forward_hook(lambda module, args, out: seen.append(int(torch.isnan(out).sum())))

    def prepare(model, x):
        model.shift = -0.05
        return x

    message, _ = stopped(model, prepare)
    assert seen[-1] == seen[-2] > 0 and f"NaN in {seen[-1]} of 28" in message


def test_what_comes_in_between_modules_is_said_to_be_made_there():
    def prepare(model, x):
        model.shift = float("nan")
        return x

    message, _ = stopped(net(), prepare)
    assert message.splitlines()[0] == 'watch: the output of "middle.0" is NaN or infinite.'
    assert 'Its input is already not finite: that was made between "dropout" and this module.' in message


def test_batches_of_an_update_that_were_not_done_once_more_are_not_said_to_be_fine():
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    x = torch.linspace(-1, 1, 20).reshape(4, 5)
    with pytest.raises(FloatingPointError) as error, rf.watch(model, optimizer, activations=False):
        for number in range(18):
            model(torch.full_like(x, torch.nan) if number == 17 else x).sum().backward()
        optimizer.step()
    lines = str(error.value).splitlines()
    assert lines[1] == "  outputs    of all modules finite in the first 16 of 18 batches of this update"
    assert lines[-2] == "It was made in the loss, in the backward pass, or by a module in one of the further batches."


def test_a_bad_batch_is_named():
    message, _ = stopped(net(), lambda model, x: torch.where(x > 0.9, torch.nan, x))
    assert message.splitlines()[0] == 'watch: the output of "first" is NaN or infinite.'
    assert "  input      NaN in 1 of 20, float32 (4, 5)" in message.splitlines()
    assert "Its input is not finite: check the batch." in message


def test_a_bad_parameter_is_named():
    def prepare(model, x):
        with torch.no_grad():
            model.middle[0].weight[0, 0] = torch.inf
        return x

    message, _ = stopped(net(), prepare)
    assert message.splitlines() == [
        'watch: the parameter "middle.0.weight" is NaN or infinite.',
        "  parameters  middle.0.weight",
        "  update      3",
        "  batch       3",
        "The parameter had this value before this batch: from the previous update, or from loading.",
        "    model.load_state_dict(torch.load(path))    # of before, and a smaller learning rate",
    ]


def test_the_first_bad_gradient_of_the_backward_pass_is_named():
    """The output is finite; the gradient of the root of 0 is not, and what is before it has no finite one either."""

    def prepare(model, x):
        model.shift = 0.0  # what was dropped is 0
        with torch.no_grad():
            model.middle[0].weight.copy_(torch.eye(7))
            model.middle[0].bias.zero_()
        return x

    message, _ = stopped(net(), prepare)
    lines = message.splitlines()
    assert lines[0] == 'watch: the gradient of "middle.0.bias" is NaN or infinite.'
    assert lines[1] == "  outputs    of all modules finite"
    assert lines[2].startswith("  gradients  NaN or infinite in ") and lines[2].endswith(" of 6 parameters")
    assert lines[-2:] == [
        "It is the first gradient, in the order of the backward pass, that is not finite: the cause is there, or between it and the loss.",
        "    with torch.autograd.detect_anomaly(): ...    # names the op, and is slow",
    ]


def test_a_loss_that_is_logged_is_looked_at():
    model = made(Encoder)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with pytest.raises(FloatingPointError) as error, rf.watch(model, optimizer) as watch:
        loss = loss_of(model, batches(1)[0])
        loss.backward()
        watch.log(loss=loss + torch.inf)
        optimizer.step()
    assert str(error.value).splitlines() == [
        'watch: the loss "loss" is NaN or infinite.',
        "  outputs    of all modules finite",
        "  update     1",
        "  batch      1",
        "  optimizer  has not used it: parameters are as before",
        "It was made after the last module: in the loss, or from the targets.",
        "    with torch.autograd.detect_anomaly(): ...    # names the op, and is slow",
    ]


def test_masks_of_minus_infinity_are_not_blamed():
    class Masked(torch.nn.Module):
        def forward(self, x):
            return x.masked_fill(torch.tensor([True, False, False]), -torch.inf)

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.mask, self.softmax = torch.nn.Linear(3, 3), Masked(), torch.nn.Softmax(-1)
            self.root, self.by = Root(), 1.0

        def forward(self, x):
            return self.root(self.softmax(self.mask(self.first(x))) * self.by + 1e-3)

    model = made(Model)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with pytest.raises(FloatingPointError) as error, rf.watch(model, optimizer):
        model.by = -1.0
        model(torch.ones(2, 3)).sum().backward()
        optimizer.step()
    assert str(error.value).splitlines()[0] == 'watch: the output of "root" is NaN or infinite.'


def test_the_batch_of_several_accumulated_ones_is_named():
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    x = torch.linspace(-1, 1, 20).reshape(4, 5)
    with pytest.raises(FloatingPointError) as error, rf.watch(model, optimizer):
        for shift in (10.0, -50.0, 10.0):
            model.shift = shift
            model(x).sum().backward()
            model.shift = -50.0 if shift == 10.0 else 10.0
        model.shift = -50.0
        optimizer.step()
    assert "  batch        1" in str(error.value).splitlines()


def test_warn_says_it_once_and_goes_on_and_ignore_says_nothing():
    def train_on(choice):
        model = net()
        model.shift = -50.0
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        with rf.watch(model, optimizer, on_nan=choice) as watch, warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            for _ in range(3):
                optimizer.zero_grad()
                model(torch.ones(2, 5)).sum().backward()
                optimizer.step()
        return watch, [str(each.message).splitlines()[0] for each in said]

    watch, said = train_on("warn")
    assert said == ['watch: the output of "middle.1" is NaN or infinite.'] and watch.counts["updates"] == 3
    watch, said = train_on("ignore")
    assert said == [] and watch.counts["updates"] == 3


def test_a_closure_is_stopped_before_the_optimizer_uses_its_gradients():
    model = net()
    model.shift = -50.0
    optimizer = torch.optim.Adam(model.parameters(), 0.1)
    before = state_of(model)

    def closure():
        loss = model(torch.ones(2, 5)).sum()
        loss.backward()
        return loss

    with pytest.raises(FloatingPointError, match="middle.1"), rf.watch(model, optimizer):
        optimizer.step(closure)
    assert all(torch.equal(value, before[name]) for name, value in state_of(model).items())


def test_a_step_late_it_is_said_that_the_optimizer_has_used_it(monkeypatch):
    """As on a GPU, where the numbers come when the update is made."""
    from rfnb.interop.watch.scalar_reads import ScalarReads

    held = []
    put = ScalarReads.put

    def later(self, tensors, use):
        held.append((self, [tensor.clone() for tensor in tensors], use))

    def fetch(self):
        mine, held[:] = held[:], []
        for late, tensors, use in mine:
            put(late, tensors, use)

    monkeypatch.setattr(ScalarReads, "put", later)
    monkeypatch.setattr(ScalarReads, "fetch", fetch)
    monkeypatch.setattr(ScalarReads, "finish", fetch)
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with pytest.raises(FloatingPointError) as error, rf.watch(model, optimizer, activations=1):
        for shift in (10.0, -50.0, 10.0):
            model.shift = shift
            optimizer.zero_grad()
            model(torch.ones(2, 5)).sum().backward()
            optimizer.step()
    lines = str(error.value).splitlines()
    assert lines[0] == 'watch: the output of "middle.1" is NaN or infinite.'
    assert "  optimizer   has used it: parameters are no longer finite" in lines
    assert "  update      2" in lines


def test_examples_and_curves_are_kept_after_the_stop():
    model = made(Encoder)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with pytest.raises(FloatingPointError), rf.watch(model, optimizer, example=(batches(1)[0],), every=1) as watch:
        train(model, optimizer, batches(2))
        with torch.no_grad():
            model.layers.layers[1].linear1.bias.fill_(torch.nan)
        train(model, optimizer, batches(1))
    assert [one.label for one in watch.examples] == ["0", "1", "2"]
    assert len(watch.curves["loss given to backward"].values) == 2


class Rooted(rf.Module):
    """A Module whose own method is called, so that its batch cannot be done once more."""

    def __init__(self, in_dim, dim):
        self.first, self.second, self.last = rf.Linear(in_dim, dim), rf.Linear(dim, dim), rf.Linear(dim, in_dim)
        self.shift = 5.0

    def encode(self, x):
        return self.last(rf.sqrt(self.second(rf.relu(self.first(x))) + self.shift))


@pytest.mark.parametrize(
    "activations, first, rule",
    [
        (
            1,
            'watch: the output of "last" is NaN or infinite.',
            "It is the first module, in the order of the calls, whose output is not finite.",
        ),
        (
            False,
            "watch: the loss is NaN or infinite.",
            "It was made in the forward pass, whose modules were not looked at in this update.",
        ),
    ],
)
def test_a_module_of_rfnb_is_named_if_its_modules_were_looked_at(activations, first, rule):
    rf.set_random_seed(1)
    in_dim, dim, batch = rf.Dim(5, name="in"), rf.Dim(7, name="hidden"), rf.Dim(3, name="batch")
    model = Rooted(in_dim, dim)
    optimizer = torch.optim.Adam([parameter.raw_tensor for parameter in model.parameters()], 1e-3)
    x = rf.random_normal([batch, in_dim])
    with pytest.raises(FloatingPointError) as error, rf.watch(model, optimizer, activations=activations):
        for shift in (5.0, 5.0, -500.0):
            model.shift = shift
            optimizer.zero_grad()
            rf.reduce_mean(rf.square(model.encode(x)), axis=[batch, in_dim]).raw_tensor.backward()
            optimizer.step()
    lines = str(error.value).splitlines()
    assert (lines[0], lines[-2]) == (first, rule)
    assert lines[-1] == '    with rf.debug(padding="nan"): ...    # and rf.watch(model, optimizer, activations=1)'
    assert "  update     3" in [line[:14] for line in lines]
