"""rf.watch refuses what it cannot watch, with a message that names what it can."""

import warnings

import pytest
import torch
from interop.watch.watched_models import Tagger, batches, loss_of, made, train

import rfnb as rf


def refused(call, error=ValueError):
    with pytest.raises(error) as found:
        call()
    return str(found.value).splitlines()


def sgd(model):
    return torch.optim.SGD(model.parameters(), 0.1)


def test_a_model_without_parameters():
    assert refused(lambda: rf.watch(torch.nn.ReLU(), sgd(made(Tagger)))) == [
        "watch: the model has no parameters.",
        "  model  torch.nn.modules.activation.ReLU",
        "A watch observes how parameters are trained. To observe a model without any, record it:",
        "    with rf.record(model=model) as trace: model(x)",
    ]


def test_what_is_no_model():
    assert refused(lambda: rf.watch([1], sgd(made(Tagger))), TypeError) == [
        "watch: the model is not a module.",
        "  model  builtins.list",
        "rf.watch accepts modules of torch and of rfnb.",
        "    rf.watch(model, optimizer)",
    ]


def test_an_optimizer_of_another_model():
    assert refused(lambda: rf.watch(made(Tagger), sgd(torch.nn.Linear(3, 3)))) == [
        "watch: the optimizer has no parameter of the model.",
        "  optimizer       SGD",
        "  its parameters  2",
        "  the model's     9",
        "It was made for another model, or before the parameters of this one were replaced.",
        "    optimizer = torch.optim.AdamW(model.parameters())",
        "    rf.watch(model, optimizer)",
    ]


def test_what_is_no_optimizer():
    assert refused(lambda: rf.watch(made(Tagger), "adam"), TypeError) == [
        "watch: the optimizer is not a torch optimizer.",
        "  optimizer  builtins.str",
        "Its steps are observed by the hooks of torch optimizers.",
        "    rf.watch(model, torch.optim.AdamW(model.parameters()))",
    ]
    assert refused(lambda: rf.watch(made(Tagger), []))[0] == "watch: there is no optimizer."


def test_a_model_that_is_watched_already():
    model = made(Tagger)
    with rf.watch(model, sgd(model)):
        assert refused(lambda: rf.watch(model, sgd(model))) == [
            "watch: this model is watched already.",
            "  model  Tagger",
            "  by     <Watch: Tagger, 0 updates, 0 examples, running>",
            "A training can be watched only once at a time. Close that watch first, or use it:",
            "    watch.close()",
        ]
    rf.watch(model, sgd(model)).close()  # after the first


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_scripted_model():
    scripted = torch.jit.script(torch.nn.Linear(3, 3))
    assert refused(lambda: rf.watch(scripted, sgd(scripted)), TypeError) == [
        "watch: a scripted model cannot be observed.",
        f"  model  torch.jit._script.{type(scripted).__name__}",
        "Its modules are not called by Python. Watch the original model:",
        "    rf.watch(model, optimizer)    # and torch.jit.script(model) after the training",
    ]


def test_a_lazy_model():
    lazy = torch.nn.LazyLinear(3)
    assert refused(lambda: rf.watch(lazy, sgd(torch.nn.Linear(3, 3))))[0] == (
        "watch: the model has parameters without a shape."
    )


@pytest.mark.parametrize(
    "options, first",
    [
        ({"every": 0}, "watch: every is no schedule."),
        ({"every": "step"}, "watch: every is no schedule."),
        ({"on_nan": "raise"}, "watch: on_nan is none of the choices."),
        ({"activations": -1}, "watch: activations is no number of updates."),
        ({"updates": 1.5}, "watch: updates is no number of updates."),
    ],
)
def test_options_that_are_none(options, first):
    model = made(Tagger)
    assert refused(lambda: rf.watch(model, sgd(model), **options))[0] == first


def test_a_number_that_is_none():
    model = made(Tagger)
    with rf.watch(model, sgd(model)) as watch:
        assert refused(lambda: watch.log(accuracy=torch.zeros(2, 3)), TypeError) == [
            "watch.log: accuracy is no number.",
            "  accuracy  Tensor (2, 3)",
            "A curve has one number for each update.",
            "    watch.log(accuracy=accuracy.mean())",
        ]


def test_parameters_that_are_replaced_while_watched_are_said_once():
    model = made(Tagger)
    optimizer = sgd(model)
    with rf.watch(model, optimizer, activations=1), warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        train(model, optimizer, batches(1))
        model.out = torch.nn.Linear(8, 11)
        train(model, optimizer, batches(3))
    assert [str(each.message).splitlines() for each in said] == [
        [
            "watch: the model has parameters that it did not have when the watch began.",
            "  new  out.weight, out.bias",
            "They are not watched, and the optimizer may not have them: it was made for those before.",
            "    watch.close()",
            "    watch = rf.watch(model, torch.optim.AdamW(model.parameters()))",
        ]
    ]


def test_an_example_that_fails_is_said_once_and_the_training_goes_on():
    model = made(Tagger)
    optimizer = sgd(model)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        with rf.watch(model, optimizer, example=(torch.zeros(3),), every=1) as watch:
            train(model, optimizer, batches(2))
    (message,) = [str(each.message) for each in said]
    assert message.startswith("watch: the example could not be run; the training continues.")
    assert watch.counts["updates"] == 2 and watch.examples == [] and model.training


def test_an_example_by_epochs_that_never_end_is_said():
    model = made(Tagger)
    with rf.watch(model, sgd(model), example=(batches(1)[0],)) as watch:
        loss_of(model, batches(1)[0]).backward()
        watch._steps[0].optimizer.step()
    assert "the example was run before the training only: call watch.epoch() at the end of an epoch" in watch.summary()
