"""Gestures of a person on twenty words drawn by a seed, in one held search: each branch is a plain search in raw torch with that change."""

from __future__ import annotations

import random

import numpy as np
import pytest
from browser.what_if import Page
from control.plain_search import Decision, plain_search
from plain_g2p import END, PlainG2P
from playwright.sync_api import expect
from waiting import ms

from rfnb.models.g2p_checkpoint import SHIPPED

BEAM, COUNT = 3, 20
DRAW = random.Random(28)
WORDS = DRAW.sample(
    "almond ancient aubergine biscuit bouquet cello chamomile cinnamon courgette cumin damson dough fennel gherkin gnocchi haddock "
    "juniper knead lasagna mackerel nougat orange paprika pistachio quiche raisin saffron salmon squash thyme vinegar walnut".split(),
    COUNT,
)
RUN = f"""
import rfnb as rf
from rfnb.models import load_g2p
from rfnb.models.g2p_search import beam_search
model = load_g2p()
run = rf.run(beam_search, model, {WORDS!r}, beam_size={BEAM}, paused=True, record={{"model": model}}, name="words")
run.step(3)
run
"""
TOLD = """
import json
print(json.dumps([[list(one.then), one.left.step, [[list(found.phonemes), found.score] for found in
                   one.result[one.then[0].get("seq", one.then[0].get("entries", {}).get("batch"))]]] for one in run.branches]))
"""


@pytest.fixture(scope="module")
def plain(one_thread):
    return PlainG2P.load(SHIPPED)


def same_in_torch(plain, word: str, command: dict, step: int) -> list:
    """The beam of a plain search with a change that a page has asked for."""
    at, how = command.get("entries", {}), {}
    slot = at.get("beam", 0)
    if command["do"] == "force":
        how["decisions"] = {step: [Decision("force", command["label"], command["hypothesis"], only=command["only"])]}
    elif command["do"] == "attention":
        row = np.array(command["row"][: len(word)])

        def look(weights):
            weights[slot] = row / row.sum()

        how["weights"] = {step: look}
    elif command["do"] == "set":

        def put(beam):
            name = command["state"].rpartition(".")[2]
            state = getattr(beam[slot], name).clone()
            state[at["decoder"]] = command["value"]
            setattr(beam[slot], name, state)

        how["states"] = {step: put}
    else:

        def open_(gates):
            gates[command["place"].rpartition(".")[2]][slot, at["decoder"]] = command["value"]

        how["gates"] = {step: open_}
    return plain_search(word, BEAM, most=2 * max(map(len, WORDS)) + 10, plain=plain, **how)


def test_each_of_twenty_gestures_makes_the_branch_that_plain_torch_computes(lab, plain):
    page = Page(lab, cells=(RUN, TOLD))
    mouse, kinds = (
        page.page.mouse,
        [*["keys", "a click", "keys", "a weight", "a unit"] * 3, *["keys", "a click"] * 2, "a gate"],
    )
    rows = page.rail.locator(".rfnb-rail-row")
    for seq in range(COUNT):
        page.page.get_by_label("sequence").first.select_option(index=seq)
        expect(page.tree).to_have_attribute("data-seq", str(seq))
        kind, step, number = kinds[seq], DRAW.randint(1, 2), DRAW.randrange(2)
        if kind == "a click":
            page.click(page.tree, f"{step},cut{number}", "cursor")
        elif kind == "keys":
            pane = page.tree.locator(".rfnb-pane").first
            for key in ["Home", *["ArrowRight"] * step]:
                pane.press(key)
            while page.tree.get_attribute("data-cursor") != f"{step},cut{number}":
                pane.press("ArrowDown")
            pane.press("Enter")
        else:
            view, pattern, names = {
                "a weight": (page.map, f"{step} {number + 3}", ("row", "col")),
                "a unit": (page.strips, rf"(.*\.)?[hc] [0-9]+ {step - 1}", ("track", "row", "col")),
                "a gate": (page.strips, rf"(.*\.)?(input|forget|output)_gate [0-9]+ {step}", ("track", "row", "col")),
            }[kind]
            if kind == "a gate":  # its units are shown by a click
                for gate in ("input", "forget", "output"):
                    page.strips.locator(".rfnb-states-tracks button", has_text=f"{gate}_gate").click()
            at = page.press(view, pattern, *names)
            page.drag(at, 0, DRAW.choice([-70, 70]) if kind != "a weight" else -70)
            mouse.up()
        expect(rows).to_have_count(seq + 2, timeout=ms(30))
    made = page.made()
    assert len(made) == COUNT and {then[0]["do"] for then, _, _ in made} == {"force", "attention", "set", "put"}
    for seq, (word, ([command], step, found)) in enumerate(zip(WORDS, made, strict=True)):
        assert command.get("seq", command.get("entries", {}).get("batch")) == seq
        beam = sorted(same_in_torch(plain, word, command, step), key=lambda hyp: -hyp.score)
        best = [plain.labels[label] for label in beam[0].labels if label != END]
        assert (word, found[0][0]) == (word, best), command
        np.testing.assert_allclose(found[0][1], beam[0].score, atol=1e-3, err_msg=f"{word}: {command}")
    assert lab.errors == []
