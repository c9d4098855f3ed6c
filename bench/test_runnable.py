"""A word in the engine of a page, in Node: with wasm, without, and beside rfnb in Python; and how long a page takes to be written."""

from __future__ import annotations

import time

import pytest
from viz.runnable import run_in_node

from rfnb.models import load_g2p
from rfnb.models.g2p_search import beam_search, search
from rfnb.viz.runnable.program import PageProgram

WORDS, TURNS = ["parachute", "phonetics", "lieutenant", "queue"], 21


@pytest.mark.parametrize("beam_size", [5, 12])
def test_a_word_in_a_page(beam_size, row, tmp_path):
    model = load_g2p()
    begin = time.process_time()
    program = PageProgram.of(lambda word: search(model, [word], beam_size=beam_size), "parachute")
    exported = time.process_time() - begin
    figures = {}
    for name, plain in (("wasm", False), ("JavaScript", True)):
        told = run_in_node({"g2p": program}, WORDS, tmp_path, plain=plain, turns=TURNS)["g2p"]
        figures[name] = told["cpu_ms"] / (TURNS - 1) / len(WORDS)
    begin = time.process_time()
    for _ in range(5):
        for word in WORDS:
            beam_search(model, [word], beam_size=beam_size)
    figures["Python"] = 1000 * (time.process_time() - begin) / 5 / len(WORDS)
    row(
        f"G2P in a page, beam {beam_size}",
        export_s=exported,
        **{f"{name}_ms": value for name, value in figures.items()},
    )
    print(
        f"\nbeam {beam_size}, CPU of a word:",
        ", ".join(f"{name} {value:.1f} ms" for name, value in figures.items()),
        f"; export {exported:.1f} s",
    )
    assert all(value > 0 for value in figures.values())
