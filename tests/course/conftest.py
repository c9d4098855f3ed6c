"""The notebook of a lesson after a run, for all tests of the lesson."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="module")
def ran(request):
    """The executed notebook of the `course` of the test file."""
    return request.module.course.executed()
