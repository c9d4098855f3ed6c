"""Notebooks of the course in a real JupyterLab, as a student goes through them: wrong answers, right ones, predictions by keyboard."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import nbformat
import pytest
from browser.jupyter import OFTEN, READY
from playwright.sync_api import expect
from waiting import ms

from rfnb.teaching.sources import source_with_needs

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"

_GO = """async id => { const notebook = window.jupyterapp.shell.currentWidget.content;
    const at = notebook.widgets.findIndex(cell => cell.model.id === id);
    notebook.deselectAll(); notebook.activeCellIndex = at; await notebook.scrollToItem(at); return at; }"""
_COUNT = """id => [...window.jupyterapp.shell.currentWidget.content.model.cells]
    .find(cell => cell.id === id).executionCount"""
_HAS_RUN = """([id, before]) => { const cells = [...window.jupyterapp.shell.currentWidget.content.model.cells];
    const cell = cells.find(cell => cell.id === id);
    return cell.executionState === 'idle' && cell.executionCount && cell.executionCount !== before; }"""


class Student:
    """Somebody at the keyboard, with a notebook of the course."""

    def __init__(self, lab, name: str):
        self.lab, self.page = lab, lab.page
        folder = lab.server.root / "course"
        if not folder.exists():
            shutil.copytree(NOTEBOOKS, folder, ignore=shutil.ignore_patterns(".ipynb_checkpoints"))
        cells = nbformat.read(NOTEBOOKS / f"{name}.ipynb", 4).cells
        self.sources = {cell.id: cell.source for cell in cells}
        self.code = {cell.id for cell in cells if cell.cell_type == "code"}
        lab.open(f"course/{name}.ipynb")

    def go(self, cell: str):
        """Brings a cell onto the screen."""
        at = self.page.evaluate(_GO, cell)
        found = self.page.locator(f'.jp-Notebook .jp-Cell[data-windowed-list-index="{at}"]')
        expect(found).to_be_visible(timeout=ms(60))
        return found

    def run_above(self, cell: str) -> None:
        """Runs all cells above one: what comes before it in the notebook."""
        self.go(cell)
        order = self.page.evaluate(
            "[...window.jupyterapp.shell.currentWidget.content.model.cells].map(cell => cell.id)"
        )
        above = order[: order.index(cell)]
        last = next(name for name in reversed(above) if name in self.code)
        self.lab.start("notebook:run-all-above")
        self._wait(last, None)
        self.go(cell)

    def run(self, cell: str):
        """Runs one cell; gives it."""
        found, before = self.go(cell), self.page.evaluate(_COUNT, cell)
        self.lab.start("notebook:run-cell")
        self._wait(cell, before)
        return found

    def write(self, cell: str, source: str):
        """Writes a cell anew by keyboard and runs it by Ctrl+Enter; gives its card."""
        found, before = self.go(cell), self.page.evaluate(_COUNT, cell)
        found.locator(".cm-content").click()
        self.page.keyboard.press("Control+A")
        self.page.keyboard.insert_text(source)
        self.page.keyboard.press("Control+Enter")
        self._wait(cell, before)
        return self.card(cell)

    def card(self, cell: str):
        return self.go(cell).locator(".rfnb-lesson-card").first

    def commit(self, cell: str, option: str, at: int) -> None:
        """Goes to an option by Tab, takes it by Space, and commits it by Enter."""
        form = self.go(cell).locator(".rfnb-predict").first
        form.get_by_role("radio").first.focus()
        for _ in range(at):
            self.page.keyboard.press("Tab")
        self.page.keyboard.press("Space")
        expect(form.get_by_role("radio").nth(at)).to_be_checked()
        expect(form.locator("label").filter(has=self.page.locator(":checked"))).to_have_text(option)
        for _ in range(form.get_by_role("radio").count() - at):
            self.page.keyboard.press("Tab")
        expect(form.get_by_role("button", name="Commit")).to_be_focused()
        self.page.keyboard.press("Enter")
        expect(self.card(cell)).to_contain_text(f"Your answer: {option}", timeout=ms(60))

    def _wait(self, cell: str, before: int | None) -> None:
        self.page.wait_for_function(_HAS_RUN, arg=[cell, before], timeout=ms(300), polling=OFTEN)


def test_dims_an_error_is_mended_and_a_puzzle_predicted(lab):
    student = Student(lab, "01_dims")
    student.run_above("01-puzzles-1-reveal")
    early = student.run("01-puzzles-1-reveal")
    expect(early).to_contain_text("no answer yet")
    expect(early).not_to_contain_text("It is:")
    questions = student.go("01-puzzles-1-ask").locator(".rfnb-predict")
    expect(questions).to_have_count(3)
    student.commit("01-puzzles-1-ask", "{batch, letters}", 1)
    told = student.run("01-puzzles-1-reveal")
    expect(told).to_contain_text("✗ puzzle_1: your answer was wrong")
    expect(told).to_contain_text("It is: {batch, feature}")

    student.run_above("01-mend-project")
    card = student.write("01-mend-project", student.sources["01-mend-project"])
    expect(card).to_contain_text("model")
    expect(card).not_to_contain_text("✓")
    wrong = "def project(x, weight, feature, model_dim):\n    return x\n\nlesson.check('project', project)"
    expect(student.write("01-mend-project", wrong)).to_contain_text("✗")
    right = student.sources["01-mend-project"].replace("reduce=model_dim", "reduce=feature")
    expect(student.write("01-mend-project", right)).to_contain_text("✓")
    assert lab.errors == []


def test_search_a_step_is_written_wrong_then_right(lab):
    student = Student(lab, "07_search")
    student.run_above("07-greedy-reveal")
    student.commit("07-greedy-predict", "P EH R AH CH UW T", 1)
    expect(student.run("07-greedy-reveal")).to_contain_text("greedy:", timeout=ms(60))
    student.run("07-beam-step")
    expect(student.card("07-beam-step")).to_contain_text(re.compile("not solved|unsolved"))
    head = student.sources["07-beam-step"].split("    ...")[0]
    tail = "\n\nlesson.check('beam_step', beam_step)"
    each_alone = """    best = log_probs.max(-1)
    total = scores + best.values
    order = total.argsort(descending=True)[:beam_size]
    return total[order], order, best.indices[order]
"""
    card = student.write("07-beam-step", head + each_alone + tail)
    expect(card).to_contain_text("✗")
    right = """    total, vocab = scores[:, None] + log_probs, log_probs.shape[-1]
    best, place = total.flatten().topk(beam_size)
    return best, place // vocab, place % vocab
"""
    expect(student.write("07-beam-step", head + right + tail)).to_contain_text("✓")
    student.run("07-be-the-beam")
    student.run("07-search-loop")
    expect(student.run("07-search")).to_contain_text("Answer it above; then run this cell again.", timeout=ms(60))
    by_code = 'by_hand.answer = [[(0, "W"), (0, "HH"), (0, "V")]]\nby_hand.reveal()'
    expect(student.write("07-whiplash-view", by_code)).to_contain_text("be_the_beam:")
    used = student.run("07-search")
    expect(used).to_contain_text("Going on with your beam_step.")
    expect(used.locator('.rfnb-root[data-kind="beams"]').first).to_be_visible(timeout=ms(60))
    assert lab.errors == []


def test_clinic_a_check_that_finds_nothing_is_told_so(lab):
    student = Student(lab, "12_clinic")
    student.run_above("12-diagnosis-1-reveal")
    student.commit("12-diagnosis-1", "the padding mask is upside down", 7)
    expect(student.run("12-diagnosis-1-reveal")).to_contain_text("✗ diagnosis_1: your answer was wrong", timeout=ms(60))
    head = student.sources["12-check-1"].split("    return ...")[0]
    tail = "\n\nlesson.check('alone_or_together', alone_or_together)"
    sleepy = student.write("12-check-1", f"{head}    return True{tail}")
    expect(sleepy).to_contain_text("✗")
    expect(sleepy).to_contain_text("patient")
    wakeful = """    together = model(x, lengths)
    for seq, length in enumerate(lengths.tolist()):
        alone = model(x[seq : seq + 1, :length], lengths[seq : seq + 1])
        if not torch.allclose(alone[0], together[seq, :length], atol=1e-5):
            return False
    return True"""
    expect(student.run("12-code-1")).to_contain_text("Solve it above; then run this cell again.", timeout=ms(60))
    expect(student.write("12-check-1", head + wakeful + tail)).to_contain_text("✓")
    shown = student.run("12-code-1")
    expect(shown).to_contain_text("def mended_encoder(x, lengths, to, back):", timeout=ms(60))
    code = shown.locator(".jp-OutputArea-output pre").first.inner_text()
    tail = "\n\nlesson.check('mended_encoder', mended_encoder)"
    expect(student.write("12-mend-1", code + tail)).to_contain_text("The patient is as ill as before.")
    repaired = code.replace("zeros(x.shape[1]", "zeros(len(x)").replace("in x:", "in x.unbind(1):")
    expect(student.write("12-mend-1", repaired + tail)).to_contain_text("has another shape")
    repaired = repaired.replace("torch.stack(out)", "torch.stack(out, 1)")
    expect(student.write("12-mend-1", repaired + tail)).to_contain_text("✓")
    assert lab.errors == []


def test_clinic_the_patient_of_transformers_is_found_and_repaired(lab):
    pytest.importorskip("transformers")
    student = Student(lab, "12_clinic")
    for cell in ("12-begin", "12-ward", "12-patient-1-see", "12-patient-6-see"):
        found = student.run(cell)
    expect(found).to_contain_text("A leak: in float64 it stays.", timeout=ms(60))
    expect(found).to_contain_text("in arange")
    expect(found.locator(".rfnb-root").first).to_be_visible(timeout=ms(60))
    student.run("12-diagnosis-6")
    expect(student.run("12-code-6")).to_contain_text("above; then run this cell again.", timeout=ms(60))
    student.commit("12-diagnosis-6", "padding on the left is counted as text", 3)
    expect(student.run("12-diagnosis-6-reveal")).to_contain_text("✓ diagnosis_6", timeout=ms(60))
    expect(student.run("12-code-6")).to_contain_text("positions = torch.arange", timeout=ms(60))
    head = student.sources["12-mend-6"].split("    return ...")[0]
    tail = "\n\nlesson.check('mended_scores', mended_scores)"
    card = student.write(
        "12-mend-6", f"{head}    return model(input_ids, position_ids=attention_mask.cumsum(1)).logits{tail}"
    )
    expect(card).to_contain_text("in scaled_dot_product_attention")
    right = """    positions = (attention_mask.cumsum(1) - 1).clamp(min=0)
    return model(input_ids, attention_mask=attention_mask, position_ids=positions).logits"""
    expect(student.write("12-mend-6", head + right + tail)).to_contain_text("✓")
    assert lab.errors == []


PORTS = {
    "03_loops": ("PortedGRU", "(1 - update) * new + update * h", "update * new + (1 - update) * h", "gate complement"),
    "11_transformer": ("PortedAttention", "repeat_interleave(self.heads // self.groups, 1)",
                       "repeat(1, self.heads // self.groups, 1, 1)", "grouped heads"),
    "14_linear_attention": ("PortedDelta", "torch.exp(-torch.nn.functional.softplus(decay))", "decay.sigmoid()", "gate complement"),
}  # fmt: skip


@pytest.mark.parametrize("name", PORTS)
def test_a_port_is_written_wrong_then_right_and_seen_beside_its_original(lab, name):
    (exercise, right, wrong, cause), number = PORTS[name], name[:2]
    solutions = (NOTEBOOKS / "solutions" / f"{name}.py").read_text("utf-8")
    source = f"import torch\n\n\n{source_with_needs(solutions, exercise)}\n\n\nlesson.check('{exercise}', {exercise})"
    student = Student(lab, name)
    for cell in ("begin", "port-ask", "port-reveal"):
        student.run(f"{number}-{cell}")
    expect(student.go(f"{number}-port-reveal")).to_contain_text("no answer yet")
    card = student.write(f"{number}-port-build", source.replace(right, wrong))
    expect(card).to_contain_text("mine and theirs part in", timeout=ms(60))
    expect(card).to_contain_text(cause)
    seen = student.run(f"{number}-port-view")
    expect(seen).to_contain_text(re.compile(r"The line is cell \d+, line \d+:"), timeout=ms(60))
    expect(seen.locator(".rfnb-root").first).to_be_visible(timeout=ms(60))
    expect(student.write(f"{number}-port-build", source)).to_contain_text("✓", timeout=ms(60))
    expect(student.run(f"{number}-port-view")).to_contain_text("give the same in float64", timeout=ms(60))
    assert lab.errors == []


def test_pretraining_letters_are_hidden_in_place_then_rightly(lab):
    student = Student(lab, "15_pretraining")
    student.run_above("15-play-reveal")
    student.commit("15-play-ask", "about 1.5", 2)
    told = student.run("15-play-reveal")
    expect(told).to_contain_text("✗ doubt: your answer was wrong", timeout=ms(60))
    expect(told).to_contain_text("It is: about 2.9")
    head = student.sources["15-mask"].split("    return ...")[0]
    tail = "\n\nlesson.check('mask_letters', mask_letters)"
    begin = """    chosen = (torch.rand(letters.shape, generator=generator) < 0.15) & (letters != PADDING)
    fate = torch.rand(letters.shape, generator=generator)
"""
    in_place = f"{begin}    letters[chosen & (fate < 0.8)] = HIDDEN\n    return letters, chosen"
    card = student.write("15-mask", head + in_place + tail)
    expect(card).to_contain_text("✗")
    expect(card).to_contain_text("The letters that it was given have changed.")
    never_drawn = f"{begin}    return letters.masked_fill(chosen & (fate < 0.8), HIDDEN), chosen"
    expect(student.write("15-mask", head + never_drawn + tail)).to_contain_text("No chosen letter becomes another one.")
    right = f"""{begin}    drawn = torch.randint(2, 29, letters.shape, generator=generator)
    shown = letters.masked_fill(chosen & (fate < 0.8), HIDDEN)
    return torch.where(chosen & (fate > 0.9), drawn, shown), chosen"""
    expect(student.write("15-mask", head + right + tail)).to_contain_text("✓")
    freezing = student.sources["15-freeze"].split("    return ...")[0]
    by_beginning = """    for name, parameter in model.named_parameters():
        parameter.requires_grad_(not name.startswith(tuple(frozen)))
    return [each for each in model.parameters() if each.requires_grad]"""
    card = student.write("15-freeze", freezing + by_beginning + "\n\nlesson.check('freeze', freeze)")
    expect(card).to_contain_text("layers.1 is not layers.10")
    assert lab.errors == []


_DUPLICATE = """async () => { const run = name => window.jupyterapp.commands.execute(name);
    await run('notebook:copy-cell'); await run('notebook:paste-cell-below');
    const notebook = window.jupyterapp.shell.currentWidget.content; return notebook.activeCell.model.id; }"""
_KILL = """() => { window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.requestExecute(
    {code: "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"}); }"""


@pytest.mark.parametrize(
    ("name", "question", "option", "at"),
    [
        ("01_dims", "01-ends-ask", "letters", 1),
        ("05_attention", "05-play-predict", "1.5", 1),
        ("07_search", "07-greedy-predict", "P EH R AH SH UW T", 0),
    ],
)
def test_an_answer_stays_when_its_cell_is_edited_doubled_deleted_and_the_kernel_killed(lab, name, question, option, at):
    student = Student(lab, name)
    student.run_above(question)
    student.run(question)
    student.commit(question, option, at)
    given = f"Your answer: {option}"
    expect(student.write(question, f"# mine\n{student.sources[question]}")).to_contain_text(given)

    copy = lab.page.evaluate(_DUPLICATE)
    assert copy != question
    student.run(copy)
    expect(student.card(copy)).to_contain_text(given)
    student.go(question)
    lab.start("notebook:delete-cell")
    lab.page.wait_for_function(
        "id => ![...window.jupyterapp.shell.currentWidget.content.model.cells].some(c => c.id === id)", arg=question
    )
    student.run(copy)
    expect(student.card(copy)).to_contain_text(given)

    lab.page.evaluate(_KILL)
    lab.page.locator(".jp-Dialog").get_by_role("button", name="Ok").click(timeout=ms(120))
    lab.page.wait_for_function(READY, timeout=ms(120), polling=OFTEN)
    student.go(copy)
    early = student.run(copy)  # out of order: the new kernel knows nothing yet
    expect(early).to_contain_text("NameError")
    expect(early).to_contain_text("lesson")
    begin = next(cell for cell, source in student.sources.items() if "rf.lesson(" in source)
    student.run(begin)
    student.run_above(copy)
    student.run(copy)
    expect(student.card(copy)).to_contain_text(given)
    assert lab.errors == []


def test_cells_that_run_out_of_order_say_what_to_run(lab):
    student = Student(lab, "01_dims")
    student.run("01-begin")
    early = student.run("01-puzzles-1-ask")
    expect(early).to_contain_text("Run All Above Selected Cell", timeout=ms(60))
    expect(early).to_contain_text("ask")
    assert lab.errors == []
