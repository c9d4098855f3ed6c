"""The page of a recording: one chooser in words for all views, which stays in sight; views that stay where they are while more comes."""

from __future__ import annotations

import re

import numpy as np
import pytest
from playwright.sync_api import expect
from waiting import ms

import rfnb as rf
from rfnb.models import beam_search, load_g2p
from rfnb.viz.show import view_of

WORDS = ["tongue", "phonetics", "a"]
CELLS = (
    f"""
import rfnb as rf
from rfnb.models import beam_search, load_g2p
model = load_g2p()
with rf.record(model=model) as trace:
    beam_search(model, {WORDS!r}, beam_size=3)
rf.show(trace)
""",
    *["print('below')"] * 12,
)
# Each step of the loop waits until the test has seen the one before it.
LIVE = """
import time
from pathlib import Path
import numpy as np, rfnb as rf
rf.set_random_seed(1)
letters, batch = rf.Dim(26, name="letters", vocab="abcdefghijklmnopqrstuvwxyz"), rf.Dim(2, name="batch")
vocab, frames, unit = rf.Dim(4, name="vocab", vocab=list("PTK$")), rf.Dim(5, name="frames"), rf.Dim(3, name="unit")
embed = rf.Embedding(letters, unit)
source = rf.convert_to_tensor(np.arange(10, dtype=np.int32).reshape(2, 5), dims=[batch, frames], sparse_dim=letters)
table = rf.random_normal([vocab, unit])
with rf.record() as trace:
    rf.show(trace)
    memory = embed(source)
    loop = rf.Loop(max_seq_len=3, name="search")
    loop.state.h = rf.random_normal([batch, unit])
    step = 0
    for _ in loop:
        context = rf.dot_attention(loop.state.h, memory, memory, key_dim=unit, axis=frames)
        while not Path(f"seen-{step}").exists():
            time.sleep(0.02)
        step += 1
        label = rf.choice(rf.log_softmax(rf.matmul(table, context, reduce=unit), axis=vocab), axis=vocab, beam_size=2)
        loop.state.h = loop.state.h + rf.gather(table, indices=label, axis=vocab)
        loop.end(label == 3, include_eos=True)
"""


@pytest.fixture(scope="module")
def recording():
    model = load_g2p()
    with rf.record(model=model) as trace:
        beam_search(model, WORDS, beam_size=3)
    return trace


def choosers(page):
    return page.locator("select[aria-label=sequence]").first, page.locator("select[aria-label=hypothesis]")


def follows(page, seq):
    for part in page.locator(".rfnb-part").all():
        expect(part).to_have_attribute("data-seq", str(seq))


def test_one_chooser_in_words_for_all_views_of_a_page(browser, tmp_path, recording):
    path = rf.save_html(tmp_path / "page.html", [view_of(recording)])
    context = browser.new_context(viewport={"width": 1000, "height": 700})
    page, errors = context.new_page(), []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(path.as_uri())
    expect(page.locator(".rfnb-group-title")).to_have_text("G2P: beam search of “tongue” and 2 more, 3 beams, 9 steps")
    options = page.locator("[role=option]")
    assert [text.split("\n")[0] for text in options.all_inner_texts()] == ["1: tongue", "2: phonetics", "3: a"]
    seen = page.locator("select[aria-label=sequence]:visible")
    expect(seen).to_have_count(1)
    options.nth(1).click()
    follows(page, 1)
    expect(seen).to_have_value("1")
    page.keyboard.press("Home")
    follows(page, 0)
    page.keyboard.press("End")
    follows(page, 2)
    # Every picture is drawn; it ends with the sequence, of one letter.
    page.wait_for_function("[...document.querySelectorAll('.rfnb-batch canvas')].every(canvas => canvas.width > 5)")
    attention = page.locator("[data-kind=attention]")
    size = lambda: attention.locator(".rfnb-pane").bounding_box()["height"]  # noqa: E731
    before = size()
    attention.locator("[data-do=padding]").click()
    assert size() > 2 * before
    assert errors == []
    context.close()


def test_the_chooser_stays_in_sight_and_a_hypothesis_is_followed(lab, recording):
    lab.open(lab.write("recording.ipynb", *CELLS))
    lab.run_all()
    lab.wait_cells()
    page = lab.page
    seq, hypothesis = choosers(page)
    expect(seq).to_be_visible(timeout=ms(60))
    page.mouse.move(640, 700)
    states = page.locator("[data-kind=states]").last
    states.scroll_into_view_if_needed()
    expect(page.locator(".rfnb-group-bar")).to_have_attribute("data-stuck", "")
    panel = page.locator(".jp-WindowedPanel-outer").bounding_box()["y"]
    page.wait_for_function(
        "top => Math.abs(document.querySelector('.rfnb-group-bar').getBoundingClientRect().top - top) < 3", arg=panel
    )
    seq.select_option(label="2: phonetics")
    follows(page, 1)
    hypothesis.select_option(index=1)
    history = recording.beams["search"]
    second = history.nbest(1)[1]
    expect(states).to_have_attribute("data-hypothesis", " ".join(second.labels).removesuffix(" <end>"))
    # The state and a gate of that hypothesis, exactly, from the kernel: found without the view by going back from parent to parent.
    step, slot = second.end
    for track, name, lookup, before in (
        ("search.decoder.c", "decoder.c", "search", False),
        ("decoder.lstm.gates.forget_gate", "forget_gate", "decoder.lstm.gates", True),
    ):
        values = history.along(recording.states.steps(lookup, name), 1, slot, step=step, before_choice=before)
        title = states.locator(".rfnb-states-tracks button", has_text=re.compile(f"^{re.escape(track)}$"))
        title.scroll_into_view_if_needed()
        if before:  # many units of a gate are their line, until its title is clicked
            title.click()
        expect(title).to_have_attribute("aria-pressed", "true")
        states.locator(".rfnb-pane").focus()
        page.keyboard.press("Control+Home")
        for _ in range(2000):
            unit = int(states.get_attribute("data-row") or -1)
            if states.get_attribute("data-track") == track and unit >= 0:  # it opens on those that change most
                break
            page.keyboard.press("PageDown" if states.get_attribute("data-track") != track else "ArrowDown")
            if states.get_attribute("data-row") == "-1" or states.get_attribute("data-track") != track:
                page.keyboard.press("ArrowDown")
        assert states.get_attribute("data-track") == track
        page.keyboard.press("ArrowRight")
        want = np.format_float_positional(np.float32(values[1][unit]), unique=True, trim="-").replace("-", "−")
        expect(states.locator(".rfnb-readout .rfnb-value").first).to_have_text(want)
    assert lab.errors == []


def test_views_stay_where_they_are_while_more_comes(lab):
    lab.open(lab.write("live.ipynb", LIVE))
    lab.run_all()
    page = lab.page
    parts = page.locator(".rfnb-part")
    kinds = lambda: [part.get_attribute("data-kind") for part in parts.all()]  # noqa: E731
    expect(page.locator("[data-kind=attention]")).to_have_attribute("data-live", "true", timeout=ms(60))
    first = kinds()
    page.locator("[role=option]").nth(1).click()
    page.evaluate("document.querySelector('[data-kind=attention]').dataset.mark = 'the same'")
    (lab.server.root / "seen-0").touch()
    expect(page.locator("[data-kind=beams]")).to_be_visible(timeout=ms(30))
    assert kinds()[: len(first)] == first and "beams" not in first
    follows(page, 1)
    expect(page.locator("[data-kind=attention]")).to_have_attribute("data-mark", "the same")
    expect(page.locator("[data-kind=attention] .rfnb-title")).to_contain_text("best hypothesis")
    for step in (1, 2):
        (lab.server.root / f"seen-{step}").touch()
    lab.wait_cells()
    expect(page.locator("[data-kind=beams]")).to_have_attribute("data-live", "false")
    assert kinds()[: len(first)] == first
    follows(page, 1)
    assert lab.errors == []
