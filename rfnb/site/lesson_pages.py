"""Pages beside the lessons in which their model runs, with the main view of the lesson first.

They share the runtime, and the program of a model with its weights. Opened from disk, a page may load a script that lies beside it, and
nothing else; so both are scripts.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from rfnb.viz.page.output import STATIC
from rfnb.viz.save import write_page

FOLDER = "running"


class RunningPage(NamedTuple):
    """A page of a lesson.

    Attributes:
        word: What it begins with.
        numbers: Further fields and their first values.
        first: The kinds of its views that are open, in their order.
        asks: What a reader may try.
        model: The program that it shares with the other pages of this model.
    """

    word: str
    numbers: Mapping[str, float]
    first: tuple[str, ...]
    asks: str
    model: str = "g2p"


PAGES = {
    "03_loops": RunningPage(
        "knight", {"beam_size": 1}, ("states",),
        "Type a word. Each letter is a step of the encoder, each phoneme one of the decoder; a state that is dragged changes "
        "all that follow.",
    ),
    "05_attention": RunningPage(
        "thoughtfully", {"beam_size": 1}, ("attention",),
        "Type a word. Which letters does each phoneme look at? Drag a weight, and the others give way.",
    ),
    "06_explanation": RunningPage(
        "phonetics", {"beam_size": 1}, ("attention", "beams"),
        "Drag the weights of a step away from its letter: does the phoneme change? Type what you expected, and see what the "
        "margin is due to.",
    ),
    "07_search": RunningPage(
        "parachute", {"beam_size": 4}, ("beams",),
        "Type a word, change the beam size, look at the future of a candidate that was cut, ban a label.",
    ),
    "08_errors": RunningPage(
        "initiatives", {"beam_size": 1}, ("beams", "attention"),
        "Type what was expected, IH N IH SH AH T IH V Z: was it the search or the model, and which beam would have found it?",
    ),
    "09_ctc": RunningPage(
        "17024", {}, ("states",),
        "Type a number; its sound is made of the tones of its keys, 13 frames for each. Above is the trellis of the forward algorithm, "
        "below it are the labels that the model finds in each frame: how much of a tone does its label take, and what is in between? "
        "Type 55: what does the model put between the two?",
        "ctc",
    ),
    "10_transducers": RunningPage(
        "CEG", {"blank": 1.5}, ("attention", "states"),
        "Type a tune of the notes C, E, G and B; it begins and ends with a silent frame, and each note sounds for two. The map says "
        "in which frame each note is written, over all walks that write the tune. Raise the score of the blank: do labels get "
        "earlier or later? Type CC: in which frames are the two written, and why so early?",
        "walks",
    ),
    "11_transformer": RunningPage(
        "hedgehog", {"beam_size": 1}, ("attention", "beams"),
        "Type a word of the letters a to p; the model writes it backwards. Which head of layer 0 looks one letter back? What "
        "does layer 1 look at while it writes? (Its columns are the letters, >, then what it has written.) Drag its weights. Try nine "
        "letters and more: it was trained with three to eight.",
        "backwards",
    ),
    "14_linear_attention": RunningPage(
        "banana", {"keep": 1.0, "write": 1.0}, ("states",),
        "Each letter writes its value under its key. Type aa: which memory is changed by the second a? Take keep below 1: what "
        "becomes of the first letter? Set a cell, and see where the change goes.",
        "memory",
    ),
}  # fmt: skip


def _programs() -> dict[
    str, tuple[Callable[..., Any], str, dict[str, tuple[float, tuple[float, float, float]]], dict[str, Any]]
]:
    """The function of each model, with a first text, the numbers with their ranges, and the options of its recording."""
    from rfnb.models import lessons, load_g2p
    from rfnb.models.g2p_search import search

    model = load_g2p()
    return {
        "g2p": (
            lambda word, beam_size: search(model, [word], beam_size=beam_size), "parachute", {"beam_size": (5, (1, 12, 1))},
            {"model": model},
        ),
        "ctc": (lambda number: lessons.hear(number), "17024", {}, {"path": "trellis"}),
        "walks": (
            lambda tune, blank: lessons.align_tune(tune, blank=blank), "CEG", {"blank": (1.5, (-2.0, 6.0, 0.25))}, {},
        ),
        "backwards": (
            lambda word, beam_size: lessons.write_backwards(word, beam_size=beam_size), "hedgehog", {"beam_size": (1, (1, 8, 1))},
            {"model": lessons.writer()},
        ),
        "memory": (
            lambda letters, keep, write: lessons.remember(letters, keep=keep, write=write), "banana",
            {"keep": (1.0, (0.0, 1.0, 0.05)), "write": (1.0, (0.0, 1.0, 0.05))}, {},
        ),
    }  # fmt: skip


def write_pages(folder: Path) -> None:
    """Write all pages, with the files that they share, into a folder.

    Args:
        folder: It is made if it is not there.
    """
    from rfnb.models import g2p
    from rfnb.trace.record import record
    from rfnb.viz.runnable.page import body_of, in_text, page_of
    from rfnb.viz.show import view_of

    folder.mkdir(parents=True, exist_ok=True)
    code = (STATIC / "rfnb-page.js").read_text(encoding="utf-8")
    (folder / "rfnb-page.js").write_text(f"globalThis.rfnbPage=()=>{{{code}\n}};rfnbPage();\n", encoding="utf-8")
    card = Path(g2p.__file__).with_suffix(".md").read_text(encoding="utf-8")
    for model, (fn, text, numbers, options) in _programs().items():
        typed = next(iter(inspect.signature(fn).parameters))
        fn(text, **{name: value for name, (value, _) in numbers.items()})  # what is cached is made before it is noted
        made, about, _ = page_of(fn, (typed, text), numbers, {}, record=options)
        program, total = in_text(made)
        (folder / f"{model}.js").write_text(f'globalThis.rfnbPrograms={{"{model}":"{program}"}};\n', encoding="utf-8")
        about["said"] = about["said"].replace("the first text", f"“{text}”")
        for name, page in PAGES.items():
            if page.model != model:
                continue
            values = {typed: page.word, **page.numbers}
            with record(**options, kinds=(*page.first, "tokens")) as trace:
                fn(**values)
            fields = [{**each, "value": values[each["name"]]} for each in about["fields"]]
            asked = f'<p>{page.asks} <a href="../notebooks/{name}.html">Back to the lesson</a></p>\n'
            shared = f'<div class="rfnb-program" hidden data-of="{model}"></div>'
            told = {**about, "sum": total, "fields": fields, "first": page.first}
            body = body_of(view_of(trace, title=page.word), shared, told, card if model == "g2p" else "")
            write_page(
                folder / f"{name}.html", title_of(name), asked + body, script=(f"{model}.js", "rfnb-page.js"), runs=True
            )


def title_of(name: str) -> str:
    """The title of the page of a lesson: "Lesson 7, search: the model in the page"."""
    number, words = name.split("_", 1)
    return f"Lesson {int(number)}, {words.replace('_', ' ').replace('ctc', 'CTC')}: the model in the page"


def told_of(name: str) -> str:
    """The sentence of a lesson with a link to the page that runs its model; "" for other lessons."""
    if name in PAGES:
        return f' Its model also <a href="../{FOLDER}/{name}.html">runs in a page</a>: type another word there, with nothing installed.'
    return ""
