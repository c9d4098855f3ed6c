"""The tour in a real JupyterLab: every view shows what the model computed, compared with the model in plain torch."""

from __future__ import annotations

import re

import numpy as np
import pytest
from browser.conftest import SHOTS
from browser.jupyter import Lab
from browser.test_converted import TO_HTML, alive_in, check_alive, converted, opened, without_state
from browser.tour import VIEWS, Tour, code, compose, hovered, number, pronounced
from plain_g2p import PlainG2P
from playwright.sync_api import expect
from rapidfuzz.distance import Levenshtein
from waiting import ms

from rfnb.data.cmudict import load_cmudict
from rfnb.models.g2p_checkpoint import SHIPPED

COLORS = """canvas => { const d = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
    return new Set(new Uint32Array(d.buffer)).size; }"""
OUTERMOST = "roots => roots.filter(root => !root.parentElement.closest('.rfnb-root')).length"
CLOSE = 2e-5  # float32, in another order


@pytest.fixture(scope="module")
def plain(one_thread) -> PlainG2P:
    return PlainG2P.load(SHIPPED)


@pytest.fixture(scope="module")
def tour(server, browser):
    """The tour after a run; the tests only look."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    lab = Lab(context.new_page(), server)
    tour = Tour(lab)
    try:
        tour.run()
        yield tour
        lab.shut_down_kernels()
    finally:
        lab.screenshot(SHOTS / "tour.png")
        context.close()


def test_every_view_is_visible_and_nothing_went_wrong(tour):
    kinds = set()
    for mark in VIEWS:
        roots = tour.scroll(mark).locator(".rfnb-root")
        expect(roots.first).to_be_visible()
        kinds |= set(roots.evaluate_all("roots => roots.map(root => root.dataset.kind)"))
        for canvas in roots.locator("canvas").all():
            assert canvas.evaluate(COLORS) > 4, mark
        assert roots.get_by_role("alert").filter(visible=True).count() == 0
    assert kinds == {"group", "attention", "dims", "beams", "states", "curves", "control", "branches"}
    assert [cell["count"] for cell in tour.cells] == list(range(1, len(tour.cells) + 1))
    assert tour.lab.errors == []


def test_the_pointer_reads_the_weights_of_the_first_word(tour, plain):
    word, beam = pronounced(VIEWS["attention"])
    phonemes = plain.beam_search(word, beam)[0][1]
    assert tour.printed(VIEWS["attention"]).split() == phonemes
    weights = plain.saying(word, phonemes).weights
    labels = [*phonemes, "<end>"]
    seen = hovered(tour.view("attention", "attention"))
    assert set(seen) == {(row, col) for row in range(len(labels)) for col in range(len(word))}
    for (row, col), (target, letter, value) in seen.items():
        assert (target, letter) == (labels[row], word[col])
        assert number(value) == pytest.approx(float(weights[row, col]), abs=CLOSE), (row, col)


def test_the_keyboard_reads_the_same_weights(tour, plain):
    word, beam = pronounced(VIEWS["attention"])
    weights = plain.saying(word, plain.beam_search(word, beam)[0][1]).weights
    view = tour.view("attention", "attention")
    tour.page.mouse.move(2, 2)
    view.locator(".rfnb-pane").focus()
    tour.page.keyboard.press("ArrowDown")  # the first key puts the cursor on the first cell
    for row in range(len(weights)):
        tour.page.keyboard.press("Home")
        for col in range(3):
            assert (view.get_attribute("data-row"), view.get_attribute("data-col")) == (str(row), str(col))
            value = number(view.locator(".rfnb-readout .rfnb-value").text_content())
            assert value == pytest.approx(float(weights[row, col]), abs=CLOSE), (row, col)
            tour.page.keyboard.press("ArrowRight")
        tour.page.keyboard.press("ArrowDown")
    tour.page.keyboard.press("Escape")
    expect(view).to_have_attribute("data-row", "")


def test_the_dims_view_has_the_names_and_sizes_of_the_cell(tour):
    cell = code(VIEWS["dims"])
    names = {name: f"{name}={size}" for size, name in re.findall(r'Dim\((\d+), name="(\w+)"\)', cell)}
    lengths, ragged = re.search(r'ragged_dim\(\[([\d, ]+)\], over=batch, name="(\w+)"\)', cell).groups()
    lengths = [int(length) for length in lengths.split(",")]
    names[ragged] = f"{ragged}<={max(lengths)}"
    view = tour.view("dims", "dims")
    rows = {
        row.get_attribute("data-tensor"): row.locator("[data-dim]").evaluate_all(
            "chips => chips.map(c => c.dataset.text)"
        )
        for row in view.locator("tr[data-tensor]").all()
    }
    everything = [names["batch"], names[ragged], names["feature"]]
    assert rows == {"x": everything, "weights": everything, "context": [names["batch"], names["feature"]]}
    chip = view.locator(f'li [data-text="{names[ragged]}"]')
    chip.hover()
    said = ", ".join([names[ragged], "spatial dim", f"lengths {' '.join(map(str, lengths))}"])
    expect(view.locator(".rfnb-dims-readout")).to_have_text(f"{said}: in 2 of 3 rows")
    expect(view.locator(".rfnb-dims-same")).to_have_count(3)
    waste = 100 * (1 - sum(lengths) / (max(lengths) * len(lengths)))
    expect(view.locator("li").filter(has_text=ragged)).to_contain_text(f"{waste:.0f} % of the cells are padding")
    tour.page.mouse.move(2, 2)


def test_the_module_calls_have_the_sizes_of_the_weights(tour, plain):
    word, beam = pronounced(VIEWS["attention"])
    view = tour.view("calls", "dims")
    legend = view.locator("li [data-dim]").evaluate_all("chips => chips.map(c => c.dataset.text)")
    units = {name: plain.p[name].shape for name in ("decoder.output.weight", "encoder.embedding.weight")}
    decoder = plain.p["decoder.lstm.rec_weight"].shape[1]
    wanted = {
        f"letters<={len(word)}", f"beam={beam}", f"decoder={decoder}", f"label={units['decoder.output.weight'][1]}",
        f"letter={units['encoder.embedding.weight'][0]}", f"letter_embedding={units['encoder.embedding.weight'][1]}",
    }  # fmt: skip
    assert wanted <= set(legend), legend
    # A hundred rows do not push the rest of the notebook away, and do not catch the wheel: the others are a click away.
    table, every = view.locator(".rfnb-dims-scroll"), view.locator("button[data-do=all]")
    tall = table.locator("table").bounding_box()["height"]
    assert table.bounding_box()["height"] < 600 < tall
    assert table.evaluate("box => getComputedStyle(box).overflowY") == "clip"
    every.click()
    assert table.bounding_box()["height"] >= tall
    every.click()
    assert table.bounding_box()["height"] < 600
    table.locator("[data-dim]").last.focus()  # what the keys lead to is seen
    assert every.get_attribute("aria-pressed") == "true"


@pytest.mark.parametrize("mark", ["beams", "wide"])
def test_the_beam_has_the_hypotheses_of_an_independent_search(tour, plain, mark):
    word, beam = pronounced(VIEWS[mark])
    found = plain.beam_search(word, beam)
    view = tour.view(mark, "beams")
    assert view.get_attribute("data-beam") == str(beam)
    rows = view.locator(".rfnb-beams-nbest tbody tr").filter(has=tour.page.locator("button"))
    table = rows.evaluate_all("rows => rows.map(row => [...row.cells].slice(0, 3).map(cell => cell.textContent))")
    assert [text.split() for _, _, text in table] == [phonemes for _, phonemes in found[:10]]
    for rank, ((place, score, text), (wanted, _)) in enumerate(zip(table, found), 1):
        assert place == str(rank)
        assert number(score) == pytest.approx(wanted, abs=6e-4)
        assert number(score) == pytest.approx(plain.scores(word, text.split())[-1], abs=6e-4)


def test_the_keyboard_walks_the_winner_with_the_scores_of_its_beginnings(tour, plain):
    word, beam = pronounced(VIEWS["beams"])
    _, phonemes = plain.beam_search(word, beam)[0]
    scores = plain.scores(word, phonemes)
    view = tour.view("beams", "beams")
    tour.page.mouse.move(2, 2)
    view.locator(".rfnb-beams-scroll").focus()
    tour.page.keyboard.press("Home")
    for step, label in enumerate(phonemes):
        said = view.locator(".rfnb-beams-readout").text_content()
        beginning = " ".join(phonemes[: step + 1])
        assert said.startswith(f"step {step}, slot ") and f": {beginning}. Score " in said
        score, gain = re.search(rf"Score (\S+), token {label} (\S+)\. ", said).groups()
        assert number(score) == pytest.approx(scores[step], abs=6e-4)
        assert number(gain) == pytest.approx(scores[step] - (scores[step - 1] if step else 0), abs=1.1e-3)
        tour.page.keyboard.press("ArrowRight")
    tour.page.keyboard.press("Escape")


def test_the_states_are_those_of_the_best_hypothesis(tour, plain):
    word, beam = pronounced(VIEWS["beams"])
    phonemes = plain.beam_search(word, beam)[0][1]
    said, labels = plain.saying(word, phonemes), [*phonemes, "<end>"]
    view = tour.view("states", "states")
    tour.page.mouse.move(2, 2)
    view.locator(".rfnb-pane").focus()
    tour.page.keyboard.press("ArrowDown")
    units = []  # it opens on those that change most
    for track, last in (("decoder.h", False), ("decoder.h", True), ("decoder.c", False)):
        values = said.h if track.endswith("h") else said.c
        tour.page.keyboard.press("Home")
        if last:
            for _ in range(3):
                tour.page.keyboard.press("PageDown")
        unit = int(view.get_attribute("data-row"))
        units.append(unit)
        for step, label in enumerate(labels):
            expect(view).to_have_attribute("data-col", str(step))
            assert (view.get_attribute("data-track"), view.get_attribute("data-row")) == (track, str(unit))
            # The page has the values of a whole search in bytes; the kernel says the exact one.
            expect(view.locator(".rfnb-readout")).not_to_contain_text("about")
            shown, name, value = view.locator(".rfnb-readout b").all_inner_texts()
            assert (shown, name) == (label, track)
            assert number(value) == pytest.approx(float(values[step, unit]), abs=CLOSE)
            tour.page.keyboard.press("ArrowRight")
        if last:  # below the last unit is the line of norms, then the next track
            tour.page.keyboard.press("ArrowDown")
            norm = float(values[-1].norm())
            expect(view.locator(".rfnb-readout")).not_to_contain_text("about")
            assert number(view.locator(".rfnb-readout .rfnb-value").text_content()) == pytest.approx(norm, rel=6e-3)
            tour.page.keyboard.press("ArrowDown")
    assert units[0] != units[1]
    tour.page.keyboard.press("Escape")


def test_pointing_at_a_state_points_at_the_same_step_of_the_attention_and_the_beam(tour):
    states, attention = tour.view("states", "states"), tour.view("states", "attention")
    tour.page.mouse.move(2, 2)
    states.locator(".rfnb-pane").focus()
    for key in ("ArrowDown", "Home", "ArrowRight", "ArrowRight"):
        tour.page.keyboard.press(key)
    expect(attention).to_have_attribute("data-linked", "2")
    tour.page.keyboard.press("ArrowRight")
    expect(attention).to_have_attribute("data-linked", "3")
    tour.page.keyboard.press("Escape")


def test_the_views_grow_while_their_cells_run(tour):
    for mark, least in (("live", 2), ("training", 2)):
        steps = [int(step) for step in tour.seen[mark] if step != "-1"]
        assert len(steps) >= least and steps == sorted(set(steps)), (mark, tour.seen)
    attention = tour.view("live", "attention")
    expect(attention).to_have_attribute("data-live", "false")
    assert int(tour.seen["live"][0]) < int(attention.get_attribute("data-step"))


def test_your_own_loop_shows_the_weights_of_greedy_search(tour, plain):
    (word,) = re.search(r'encode_batch\(model, \["(\w+)"\]\)', code(VIEWS["live"])).groups()
    phonemes = plain.greedy([word])[word]
    assert tour.printed(VIEWS["live"]).split() == [*phonemes, "<end>"]
    weights = plain.saying(word, phonemes).weights
    seen = hovered(tour.view("live", "attention"))
    assert set(seen) == {(row, col) for row in range(len(weights)) for col in range(len(word))}
    for (row, col), words in seen.items():
        assert number(words[-1]) == pytest.approx(float(weights[row, col]), abs=CLOSE), (row, col)


def test_the_trained_model_is_what_the_curves_and_its_attention_show(tour):
    small = PlainG2P.load(tour.lab.server.root / "small.safetensors")
    steps, percent = re.search(r"(\d+) steps.* (\d+\.\d) %", tour.printed(VIEWS["training"])).groups()
    curves = tour.view("training", "curves")
    assert curves.get_attribute("data-step") == steps
    assert curves.get_attribute("data-live") == "false"
    curves.locator(".rfnb-curves-stage").focus()
    tour.page.keyboard.press("End")
    said = curves.locator(".rfnb-readout").inner_text()
    shown = re.match(rf"step {steps}: loss (\S+) nats, phoneme errors (\S+) %", said)
    assert shown, said
    assert number(shown[2]) == pytest.approx(float(percent), abs=0.06)
    tour.page.keyboard.press("Escape")

    wrong = total = 0
    some = dict(list(load_cmudict().dev.items())[:500])
    for word, heard in small.greedy(list(some)).items():
        least, length = min((Levenshtein.distance(heard, one), len(one)) for one in some[word])
        wrong, total = wrong + least, total + length
    assert 100 * wrong / total == pytest.approx(number(shown[2]), abs=0.3)

    (word,) = re.search(r'word="(\w+)"', code(VIEWS["training"])).groups()
    weights = small.saying(word, small.greedy([word])[word]).weights
    seen = hovered(tour.view("training", "attention"))
    assert {row for row, _ in seen} == set(range(len(weights)))
    for (row, col), words in seen.items():
        assert number(words[-1]) == pytest.approx(float(weights[row, col]), abs=CLOSE), (row, col)


def test_plain_arrays_are_shown_as_they_are(tour):
    target = code(VIEWS["yours"])
    energy = np.array([[float(x) for x in row.split(",")] for row in re.findall(r"\[([\d., ]+)\]", target)])
    weights = np.exp(energy) / np.exp(energy).sum(1, keepdims=True)
    view = tour.view("yours", "attention")
    view.locator("[data-do=table]").click()
    assert view.locator("td").all_inner_texts() == [f"{weight:.4f}" for weight in weights.ravel()]
    view.locator("[data-do=table]").click()
    expect(view.locator(".rfnb-pane canvas")).to_be_visible()


def test_light_and_dark(tour, plain):
    """Both have their own paper and their own colours; the pictures are in test-shots/."""
    paper, maps = {}, {}
    word, beam = pronounced(VIEWS["attention"])
    weights = plain.saying(word, plain.beam_search(word, beam)[0][1]).weights
    row = len(weights) // 2  # the pointer stands on the largest weight of a row in the middle
    col = int(weights[row].argmax())
    try:
        for theme in ("Light", "Dark"):
            tour.theme(theme)
            compose(tour, "attention", "attention", cell=(row, col))
            tour.lab.screenshot(SHOTS / f"tour-attention-{theme.lower()}.png")
            for mark, kind, above in (
                ("beams", "beams", 0),
                ("states", "states", -1),
                ("calls", "dims", 0),
                ("training", "curves", -1),
            ):
                compose(tour, mark, kind, above=above)
                tour.lab.screenshot(SHOTS / f"tour-{mark}-{theme.lower()}.png")
            view = tour.view("attention", "attention")
            tour.page.mouse.move(2, 2)
            paper[theme] = view.evaluate("el => getComputedStyle(el).backgroundColor")
            maps[theme] = view.locator(".rfnb-pane canvas").evaluate("canvas => canvas.toDataURL()")
        assert maps["Light"] != maps["Dark"]
        light, dark = (sum(map(int, re.findall(r"\d+", paper[theme])[:3])) / 3 for theme in ("Light", "Dark"))
        assert light > 220 and dark < 60
    finally:
        tour.theme("Light")
        tour.page.evaluate("window.jupyterapp.shell.expandLeft()")


def test_the_saved_notebook_shows_still_pictures_without_kernel_and_trust(tour, browser):
    saved = tour.save()
    del saved.cells[0]  # a notebook that this server has not signed
    saved.metadata["kernelspec"] = {"name": "elsewhere", "display_name": "Elsewhere", "language": "elsewhere"}
    saved.metadata.pop("language_info")
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    try:
        lab = Lab(context.new_page(), tour.lab.server)
        lab.page.goto(f"{lab.server.url}/lab/workspaces/saved/tree/{tour.write('saved.ipynb', saved)}")
        lab.page.get_by_role("dialog").wait_for(timeout=ms(20))  # asks for a kernel
        lab.page.keyboard.press("Escape")
        lab.page.get_by_role("dialog").wait_for(state="hidden")
        other = Tour(lab)
        lab.page.wait_for_function("window.jupyterapp?.shell?.currentWidget?.context?.isReady")
        assert lab.page.evaluate("window.jupyterapp.shell.currentWidget.sessionContext.session?.kernel ?? null") is None
        for mark in VIEWS:
            cell = other.scroll(mark)
            still = cell.locator(".jp-OutputArea-output.jp-RenderedHTML")
            expect(still.first).to_be_visible()
            live = tour.scroll(mark).locator(".rfnb-root").evaluate_all(OUTERMOST)
            expect(still).to_have_count(live)
            tables = still.locator("table").count()
            pictures = still.locator("img").evaluate_all("imgs => imgs.map(img => img.complete ? img.naturalWidth : 0)")
            assert tables if mark in ("dims", "calls") else len(pictures) >= live and min(pictures) > 200, mark
            assert cell.locator(".rfnb-root").count() == 0
            assert cell.get_by_text("Error displaying widget").count() == 0
            lab.screenshot(SHOTS / f"tour-saved-{mark}.png")
        assert lab.errors == []
    finally:
        context.close()


@pytest.fixture
def saved(tour):
    return tour.save()


@pytest.mark.parametrize("to", TO_HTML)
def test_every_view_of_the_converted_tour_is_alive_without_network(browser, tmp_path, saved, to):
    count = alive_in(saved)
    assert count >= 7
    page, errors = opened(browser, converted(saved if to != "html" else without_state(saved), tmp_path, to))
    check_alive(page, errors, count)
    page.context.close()


def test_every_view_of_the_converted_tour_is_a_picture_without_scripts(browser, tmp_path, saved):
    path = converted(without_state(saved), tmp_path, "html")
    page, _ = opened(browser, path, java_script_enabled=False)
    outputs = page.locator(".rfnb-output").all()
    assert len(outputs) == alive_in(saved)
    for output in outputs:
        assert (
            output.locator(".rfnb-picture").is_visible()
            and output.inner_text().strip()
            or output.locator("img").count()
        )
    page.context.close()
