"""Pages beside the lessons in which the shipped model runs, with the main view of the lesson first.

They share two files: the runtime, and the program with its weights. Opened from disk, a page may load a script that lies beside it, and
nothing else; so both are scripts.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from rfnb.viz.page.output import STATIC
from rfnb.viz.save import write_page

FOLDER = "running"


class RunningPage(NamedTuple):
    """A page of a lesson.

    Attributes:
        word, beam_size: What it begins with.
        first: The kinds of its views that are open, in their order.
        asks: What a reader may try.
    """

    word: str
    beam_size: int
    first: tuple[str, ...]
    asks: str


PAGES = {
    "03_loops": RunningPage(
        "knight", 1, ("states",), "Type a word. Each letter is a step of the encoder, each phoneme one of the decoder; a state that is"
        " dragged changes all that follow.",
    ),
    "05_attention": RunningPage(
        "thoughtfully", 1, ("attention",), "Type a word. Which letters does each phoneme look at? Drag a weight, and the others give way.",
    ),
    "06_explanation": RunningPage(
        "phonetics", 1, ("attention", "beams"), "Drag the weights of a step away from its letter: does the phoneme change? Type what you"
        " expected, and see what the margin is due to.",
    ),
    "07_search": RunningPage(
        "parachute", 4, ("beams",), "Type a word, change the beam size, look at the future of a candidate that was cut, ban a label."
    ),
    "08_errors": RunningPage(
        "initiatives", 1, ("beams", "attention"), "Type what was expected, IH N IH SH AH T IH V Z: was it the search or the model, and"
        " which beam would have found it?",
    ),
}  # fmt: skip
WITHOUT = {
    "09_ctc": "its model hears sound, and a page that runs a model reads a text",
    "10_transducers": "its model hears sound, and a page that runs a model reads a text",
    "11_transformer": "its model is trained in the notebook, where rf.explore(...).save(path, runs=True) writes the page of it",
    "14_linear_attention": "its layers read vectors, and a page that runs a model reads a text",
}


def write_pages(folder: Path) -> None:
    """Write all pages, with the files that they share, into a folder.

    Args:
        folder: It is made if it is not there.
    """
    from rfnb.models import g2p, load_g2p, pronounce
    from rfnb.models.g2p_search import search
    from rfnb.trace.record import record
    from rfnb.viz.runnable.page import body_of, in_text, page_of
    from rfnb.viz.show import view_of

    model = load_g2p()
    folder.mkdir(parents=True, exist_ok=True)
    numbers = {"beam_size": (5, (1, 12, 1))}
    made, about, _ = page_of(
        lambda word, beam_size: search(model, [word], beam_size=beam_size), ("word", "parachute"), numbers, {}
    )
    program, total = in_text(made)
    code = (STATIC / "rfnb-page.js").read_text(encoding="utf-8")
    (folder / "g2p.js").write_text(f'globalThis.rfnbPrograms={{"g2p":"{program}"}};\n', encoding="utf-8")
    (folder / "rfnb-page.js").write_text(f"globalThis.rfnbPage=()=>{{{code}\n}};rfnbPage();\n", encoding="utf-8")
    about["said"] = about["said"].replace("the first text", "“parachute”")
    card = Path(g2p.__file__).with_suffix(".md").read_text(encoding="utf-8")
    for name, (word, beam_size, first, asks) in PAGES.items():
        with record(model=model, kinds=first) as trace:
            pronounce(model, word, beam_size=beam_size)
        fields = [{**each, "value": {"word": word, "beam_size": beam_size}[each["name"]]} for each in about["fields"]]
        asked = f'<p>{asks} <a href="../notebooks/{name}.html">Back to the lesson</a></p>\n'
        shared = '<div class="rfnb-program" hidden data-of="g2p"></div>'
        body = body_of(
            view_of(trace, title=word), shared, {**about, "sum": total, "fields": fields, "first": first}, card
        )
        write_page(folder / f"{name}.html", title_of(name), asked + body, script=("g2p.js", "rfnb-page.js"), runs=True)


def title_of(name: str) -> str:
    """The title of the page of a lesson: "Lesson 7, search: the model in the page"."""
    number, words = name.split("_", 1)
    return f"Lesson {int(number)}, {words.replace('_', ' ')}: the model in the page"


def told_of(name: str) -> str:
    """The sentence of a lesson about the page that runs its model: a link, or the reason why there is none; "" for other lessons."""
    if name in PAGES:
        return f' Its model also <a href="../{FOLDER}/{name}.html">runs in a page</a>: type another word there, with nothing installed.'
    return f" No page runs its model: {WITHOUT[name]}." if name in WITHOUT else ""
