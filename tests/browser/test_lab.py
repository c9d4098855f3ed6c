"""The harness itself: JupyterLab runs cells in the browser, errors are seen, nothing leaves the machine."""

import pytest


def test_lab_runs_cells_with_the_installed_package(lab):
    lab.open(lab.write("harness.ipynb", "import rfnb as rf, sys", "print(rf.__name__, 6 * 7)", kernel="plain"))
    lab.run_all()
    cells = lab.wait_cells()
    assert [cell["count"] for cell in cells] == [1, 2]
    assert cells[1]["outputs"][0]["text"] == "rfnb 42\n"
    assert lab.errors == []


def test_lab_reports_a_failing_cell_and_a_request_to_the_outside(lab):
    script = "from IPython.display import HTML\nHTML('<img src=\"http://192.0.2.1/x.png\">')"
    lab.open(lab.write("failing.ipynb", script, "1 / 0"))
    lab.run_all()
    lab.page.wait_for_selector("text=ZeroDivisionError")
    failed = [output for cell in lab.cells() for output in cell["outputs"] if output["output_type"] == "error"]
    assert [output["ename"] for output in failed] == ["ZeroDivisionError"]
    with pytest.raises(AssertionError, match="ZeroDivisionError"):
        lab.wait_cells()
    assert any("outside request: http://192.0.2.1/x.png" in error for error in lab.errors)
