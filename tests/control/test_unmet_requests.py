"""A request that a run cannot meet is refused at once, or reported when the run ends."""

import contextvars
import threading
import warnings

import pytest
import torch
from asserting import raises_message
from control.held_models import FEAT, TIME, letters, sums
from control.held_programs import PROGRAMS, assert_bit_equal
from control.watched_threads import result_of, stands

import rfnb as rf
from rfnb import Dim

RULE = "A run pauses before steps: of a Loop, scan, while_loop or beam_search of rf, and at rf.gate."
GATE = "    for step, batch in enumerate(batches): rf.gate(step)"


def plain():
    return 3


def in_a_thread():
    """All its loops are in a thread that it starts."""
    thread = threading.Thread(target=contextvars.copy_context().run, args=(sums(),))
    thread.start()
    thread.join()


def in_no_step():
    """A loop over nothing."""
    for _ in rf.Loop(axis=Dim(0, name="nothing"), name="empty"):
        pass


def later():
    yield from rf.Loop(axis=TIME)


class Generating:
    """As a model of transformers that the run does not record."""

    def generate(self):
        return [1, 2]


THREAD = "sums (in a thread started by the function)"
UNHELD = {
    "a function without loops": (plain, "plain", "none", RULE, GATE),
    "a model of torch": (lambda: torch.nn.Linear(2, 2)(torch.ones(2)), "<lambda>", "none", RULE, GATE),
    "loops in a thread": (in_a_thread, "in_a_thread", THREAD, RULE, GATE),
    "a loop over nothing": (in_no_step, "in_no_step", "empty (without a step)", RULE, GATE),
    "a generator that somebody else goes through": (
        lambda: later(),
        "<lambda>",
        "none",
        "It returned a generator, which runs only when it is iterated.",
        "    rf.run(lambda: list(fn(...)))",
    ),
    "generate of a model that is not recorded": (
        Generating().generate,
        "generate",
        "none",
        "The steps of generate can be held if the run records the model.",
        '    rf.run(model.generate, ids, record={"model": model}, paused=True)',
    ),
}


@pytest.mark.parametrize("ask", ["wait", "pause", "result"])
@pytest.mark.parametrize("what", UNHELD)
def test_what_was_to_be_held_and_had_no_step_says_how_to_hold_it(what, ask):
    fn, ran, loops, rule, line = UNHELD[what]
    run = rf.run(fn, paused=True, name="it")
    with pytest.warns(UserWarning) as said:
        getattr(run, ask) if ask == "result" else getattr(run, ask)()
    head = "it: the run was to pause, but has no step to pause at."
    assert [str(one.message) for one in said] == [f"{head}\n  ran    {ran}\n  loops  {loops}\n{rule}\n{line}"]
    assert said[0].filename == __file__
    assert repr(run) == "<Run it: done, no step was held>"
    with warnings.catch_warnings():  # once
        warnings.simplefilter("error")
        _ = run.result


def test_it_is_said_where_a_run_that_runs_is_told_to_pause():
    go = threading.Event()
    run = rf.run(go.wait)
    threading.Timer(0, go.set).start()
    with pytest.warns(UserWarning, match="the run was to pause, but has no step"):
        run.pause()


@pytest.mark.parametrize("options", [{}, {"break_when": "nan()"}])
def test_a_run_that_nobody_wants_to_hold_says_nothing(options):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert rf.run(plain, **options).result == 3
        assert rf.run(sums(), paused=True).resume().result


@pytest.mark.parametrize("what", ["step", "resume", "break_when", "at"])
def test_what_is_asked_of_it_afterwards_is_refused_with_a_line_that_works(what):
    run = rf.run(plain, name="it")
    run.wait()
    fix = "It had no step that can be held, so run it again:\n    run = rf.run(fn, paused=True)"
    asked = {"step": run.step, "resume": run.resume, "break_when": lambda: run.break_when(3), "at": lambda: run.at}
    expected = f"{what}: it has ended.\n  state  done\n{fix}"
    if what == "at":
        expected = (
            "it: it is not paused at a step.\n  state  done\nThe values of a run can be read and changed only while it is paused.\n"
            "    run = rf.run(fn, paused=True)"
        )
    with raises_message(RuntimeError, expected):
        asked[what]()


@pytest.mark.parametrize("face", ["for", "with"])
def test_a_loop_that_was_made_before_the_run_is_held_in_it(face):
    loop = rf.Loop(axis=TIME, name="made before")
    loop.state.h = rf.zeros([FEAT])

    def go():
        if face == "with":
            with loop:
                loop.state.h = loop.state.h + 1.0
        else:
            for _ in loop:
                loop.state.h = loop.state.h + 1.0
        return loop.state.h

    run = rf.run(go, paused=True)
    stands(run)
    run.step(2)
    run.at.states["h"][...] = 10.0
    assert result_of(run).numpy().max() == 15.0 and len(run.steps) == 7


def test_a_breakpoint_at_a_step_that_never_comes_is_said_in_the_end():
    run = rf.run(sums(), paused=True, name="it")
    stands(run)
    run.break_when(3)
    run.break_when(2, path="sms")
    run.break_when(9).enabled = False
    run.break_when(7)
    run.resume()
    stands(run)
    assert run.reason == "breakpoint step 3"
    run.resume()
    with pytest.warns(UserWarning) as said:
        _ = run.result
    assert [str(one.message) for one in said] == [
        'it: some requests were not carried out.\nBreakpoint 2: step 2 of "sms" was never reached.\nBreakpoint 4: step 7 was never reached.'
    ]
    with raises_message(
        ValueError,
        "break_when: not a step number.\n  condition  -1\nSteps are counted from 0.\n    run.break_when(0)",
    ):
        rf.run(sums(), break_when=-1)


@pytest.mark.parametrize(
    "text, why",
    [
        ('label("AH")', "nothing was chosen"),
        ("entropy() < 0.1", "no attention was computed"),
        ('entropy("a") > 1 or label(3)', "nothing was chosen and no attention was computed"),
    ],
)
def test_a_breakpoint_about_what_nobody_does_is_said_in_the_end(text, why):
    run = rf.run(
        lambda: rf.scan(spatial_dim=Dim(3), initial=rf.zeros([]), body=lambda _, s: (s, s))[1],
        break_when=text,
        name="it",
    )
    with pytest.warns(UserWarning, match="some requests were not carried out") as said:
        _ = run.result
    assert str(said[0].message).endswith(f"Breakpoint 1: {text}: {why} since it was set.")


@pytest.mark.parametrize("text", ['label("x", rank=2)', "ended(seq=9)", "nan()", 'entropy() > 99 or label("x")'])
def test_a_breakpoint_that_was_asked_and_did_not_hold_says_nothing(text):
    run = rf.run(letters, break_when=text)
    stands(run)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result_of(run)


def test_a_branch_that_never_comes_to_its_change_says_so():
    most = [6]

    def shrinks():
        for _ in rf.Loop(axis=Dim(most[0], name="most"), name="shrinks"):
            pass
        return most[0]

    run = rf.run(shrinks)
    assert run.result == 6
    most[0] = 2
    branch = run.from_step(4, lambda at: None, name="late")
    with pytest.warns(UserWarning, match="late: some requests were not carried out") as said:
        assert branch.result == 2
    assert 'It never reached its branch point: it ended after 2 steps, before step 4 of "shrinks"' in str(
        said[0].message
    )


def test_nothing_is_no_label():
    run = rf.run(letters, paused=True)
    stands(run)
    with raises_message(
        ValueError, 'ban: invalid labels.\n  label  []\nGive one or several labels of this step.\n    run.at.ban("AH")'
    ):
        run.ban([])


# -- attention of models of torch ------------------------------------------------------------------------------------------

OF_TORCH = (
    "A run edits weights that rf computes (in its layers, in rf.dot_attention, in your own rf.generic_attention) and those of a torch "
    "model that it records:\n"
    '    rf.run(fn, record={"model": model}, paused=True)'
)


class Attends(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.att = torch.nn.MultiheadAttention(4, 2, batch_first=True)

    def forward(self, x):
        return self.att(x, x, x)[0]


@pytest.mark.parametrize("is_named", [True, False])
@pytest.mark.parametrize("face", ["gate", "for", "scan"])
def test_attention_of_a_model_of_torch_is_changed_for_the_next_step(face, is_named):
    model, two = Attends().eval(), Dim(3, name="steps")

    def go():
        with torch.no_grad():
            if face == "gate":
                for step in range(3):
                    rf.gate(step)
                    model(torch.ones(1, 5, 4))
            elif face == "for":
                for _ in rf.Loop(axis=two):
                    model(torch.ones(1, 5, 4))
            else:
                rf.scan(
                    spatial_dim=two, initial=rf.zeros([]), body=lambda _, s: (model(torch.ones(1, 5, 4)), (None, s))[1]
                )

    path = "net.att" if is_named else "att"
    run = rf.run(go, record={"model": {"net": model} if is_named else model}, paused=True)
    stands(run)
    for _ in range(3):
        run.at.attention["att"][{"head": 1}] = [0, 0, 0, 1, 0]
        run.step()
    assert run.state == "done" and len(run.changes) == 3 and list(run.trace.attention) == [path]
    made = [event.values["weights"].raw_tensor for event in run.trace.select("attention")]
    assert (
        all(raw[0, 1].tolist() == [[0, 0, 0, 1, 0]] * 5 and not (raw[0, 0] == 1).any() for raw in made)
        and len(made) == 3
    )


def test_where_nothing_of_rf_attends_a_change_of_attention_is_refused_from_the_second_step_on():
    run = rf.run(sums(), paused=True)
    stands(run)
    run.at.attention["att"].uniform()  # it may still come
    run.step()
    assert run.reason.startswith('attention "att": no attention was computed there in this step.')
    with raises_message(
        ValueError, f'attention "att": rf computes no attention here.\n  changed  none so far\n{OF_TORCH}'
    ):
        run.at.attention["att"].uniform()


# -- whatever cannot be, in every program ------------------------------------------------------------------------------------

CANNOT_BE = {
    "a label that there is not": ("force", lambda at: at.force("zzz", only=True)),
    "a label to ban that there is not": ("ban", lambda at: at.ban(10**6)),
    "a hypothesis that there is not": ("force", lambda at: at.force(1, hypothesis=99, only=True)),
    "a sequence that there is not": ("ban", lambda at: at.ban(1, seq=99)),
    "labels that go on after its end": ("force", lambda at: at.force(*[1] * 99, only=True)),
    "attention of nothing": ("attention", lambda at: at.attention["nowhere"].uniform()),
    "attention of nothing from here on": ("attention", lambda at: at.attention["nowhere"].during(None).focus(0)),
    "a state that there is not": ("no state", lambda at: at.states["nowhere"].scale(2.0)),
    "the end of a sequence that there is not": ("end", lambda at: at.end(99)),
    "a sequence that goes on and is none": ("go_on", lambda at: at.go_on(99)),
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("place", ["first", "second", "last"])
def test_what_cannot_be_is_refused_or_said_in_every_program(name, place):
    rf.set_random_seed(5)
    count = len((whole := rf.run(PROGRAMS[name])).wait() and whole.steps)
    expected = whole.result
    for said_of, ask in CANNOT_BE.values():
        rf.set_random_seed(5)
        run = rf.run(PROGRAMS[name], paused=True)
        stands(run)
        tick = {"first": 0, "second": 1, "last": count - 1}[place]
        if tick:
            run.step(tick)
        changes = run.changes
        try:
            ask(run.at)
        except (ValueError, IndexError, KeyError) as error:
            assert said_of in str(error) and run.changes == changes
            run.stop()
            continue
        reasons = []
        while run.resume().wait() and run.state == "paused":
            reasons.append(run.reason)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            result = run.result
        reasons += [str(each.message) for each in said]
        assert any(said_of in reason for reason in reasons), (ask, reasons)
        if said_of != "force":  # the labels that there are were forced
            assert_bit_equal(result, expected)


def test_a_pass_of_a_model_is_told_to_be_held_at_its_modules():
    model = torch.nn.Linear(2, 3)
    run = rf.run(lambda: model(torch.ones(2)), record={"model": model}, paused=True, name="it")
    with pytest.warns(UserWarning, match=r'modules=\["layers.0", "layers.1"\], paused=True'):
        run.wait()
