"""What every test of a lesson has: its notebook after a run."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="module")
def ran(request):
    """The executed notebook of the `course` that the file of tests is about."""
    return request.module.course.executed()
