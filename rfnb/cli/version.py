"""The version of what runs here."""

from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed


def version() -> str:
    """The version of rfnb, as installed; "(not installed)" in a folder that was never."""
    try:
        return installed("rfnb")
    except PackageNotFoundError:
        return "(not installed)"
