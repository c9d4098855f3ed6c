"""`rfnb g2p`: pronunciations of words, from the model that comes with rfnb."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rfnb.cli.command_error import CommandError

if TYPE_CHECKING:
    from rfnb.models.g2p import G2P

NAME = "g2p"
HELP = "pronounce words"
ABOUT = """
Pronounce English words with the model that comes with rfnb: letters in, phonemes out.

Each line has a word, a score and phonemes, best first. The score is a natural-log probability, summed over the phonemes
and the end label: 0 is certainty, -0.7 is one half. The phonemes are those of CMUdict: AH as in "hut", IY as in "eat".
"""
EXAMPLES = """
examples:
  rfnb g2p phonetics                          the five best of a beam search with five hypotheses
  rfnb g2p phonetics --beam 1                 greedy search: the most probable phoneme in each step
  rfnb g2p phonetics --beam 12 --best 3       the three best of a wider search
  rfnb g2p phonetics --view page.html         the search: hypotheses, pruned candidates and reasons, attention to letters
  rfnb g2p phonetics --view page.html --runs  the page runs the model: type another word in it, with nothing installed
  rfnb g2p < words.txt                        all words of a file

exit status: 0 if all words were pronounced, 1 if one was not, 2 for wrong usage.
"""
_AT_ONCE = 64  # words per batch
_MOST_VIEWS = 20  # words per page


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `rfnb g2p`."""
    parser.add_argument(
        "words", metavar="WORD", nargs="*", help="a word; with none, or with -, words are read from standard input"
    )
    parser.add_argument("--beam", metavar="N", type=_count, default=5, help="beam size of the search (default 5)")
    parser.add_argument(
        "--best", metavar="N", type=_count, help="number of results to print per word (default: the whole beam)"
    )
    parser.add_argument("--view", metavar="PAGE", type=Path, help="also write the searches to an HTML page")
    parser.add_argument(
        "--runs", action="store_true", help="with --view and one word: the page includes the model, for any other word"
    )


def run(options: argparse.Namespace) -> int:
    """Print the pronunciations; 1 if a word has no pronunciation."""
    if options.best is not None and options.best > options.beam:
        options.parser.error(
            f"--best {options.best} is more than the beam size {options.beam}; add --beam {options.best}"
        )
    if options.runs and (options.view is None or len(options.words) != 1):
        options.parser.error("--runs needs --view and one word: rfnb g2p phonetics --view page.html --runs")
    words = _words(options)
    from rfnb.models.g2p_checkpoint import load_g2p

    model = load_g2p()
    right = True
    pages: list[tuple[str, Any]] = []
    for some in _batches(words):
        known = [word for word in some if _can_be_read(word)]
        right = right and len(known) == len(some)
        _print(model, known, options)
        if options.runs and known:
            _write_running(options.view, model, known[0], options.beam)
        elif options.view:
            pages += [(word, _recorded(model, word, options.beam)) for word in known[: _MOST_VIEWS + 1 - len(pages)]]
    if options.view and not (options.runs and right):
        _write(options.view, pages)
    return 0 if right else 1


def _words(options: argparse.Namespace) -> Iterator[str]:
    if options.words and options.words != ["-"]:
        return iter(options.words)
    if sys.stdin is None or (sys.stdin.isatty() and not options.words):
        options.parser.error("no word given: rfnb g2p phonetics")
    return (word for line in sys.stdin for word in line.split())


def _batches(words: Iterable[str]) -> Iterator[list[str]]:
    some: list[str] = []
    for word in words:
        some.append(word)
        if len(some) == _AT_ONCE:
            yield some
            some = []
    if some:
        yield some


def _can_be_read(word: str) -> bool:
    """Whether the model can spell it; prints a message if not."""
    from rfnb.data.g2p import WordError, encode_word

    try:
        encode_word(word)
    except WordError as error:
        print(f"rfnb g2p: {error}", file=sys.stderr)
        return False
    return True


def _print(model: G2P, words: list[str], options: argparse.Namespace) -> None:
    from rfnb.models.g2p_search import beam_search

    if not words:
        return
    width = max(map(len, words))
    for word, found in zip(words, beam_search(model, words, beam_size=options.beam)):
        for one in found[: options.best]:
            end = "" if one.ended else "  ... (no end was found)"
            print(f"{word:<{width}}  {one.score:7.3f}  {one}{end}")
    sys.stdout.flush()  # a reader of a pipe gets each batch at once


def _recorded(model: G2P, word: str, beam_size: int) -> Any:
    from rfnb.models.g2p_search import pronounce
    from rfnb.trace.record import record
    from rfnb.viz.show import view_of

    with record() as trace:
        pronounce(model, word, beam_size=beam_size)
    return view_of(trace, title=word)


def _write_running(path: Path, model: G2P, word: str, beam_size: int) -> None:
    from rfnb.models import g2p
    from rfnb.models.g2p_search import search
    from rfnb.viz.runnable.page import save_page

    card = Path(g2p.__file__).with_suffix(".md").read_text(encoding="utf-8")
    save_page(
        path, lambda word, beam_size: search(model, [word], beam_size=beam_size), ("word", word),
        {"beam_size": (beam_size, (1, max(12, beam_size), 1))}, {}, title="English words, pronounced", card=card,
    )  # fmt: skip
    print(f"rfnb g2p: wrote {path}. Open it in a browser: it runs the model.", file=sys.stderr)


def _write(path: Path, pages: list[tuple[str, Any]]) -> None:
    from rfnb.viz.save import save_html

    if not pages:
        raise CommandError(f"{path} was not written: no word could be pronounced.")
    shown = pages[:_MOST_VIEWS]
    save_html(path, [view for _, view in shown], title="Pronunciations of " + ", ".join(word for word, _ in shown))
    left = f" The first {len(shown)} words: a page has no more." if len(pages) > len(shown) else ""
    print(f"rfnb g2p: wrote {path}. Open it in a browser.{left}", file=sys.stderr)


def _count(text: str) -> int:
    """Parse a positive integer of the command line."""
    try:
        number = int(text)
    except ValueError:
        number = 0
    if not 1 <= number <= 1000:
        raise argparse.ArgumentTypeError(f"a number from 1 to 1000, not {text!r}")
    return number
