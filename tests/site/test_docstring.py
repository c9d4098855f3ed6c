"""Docstrings become Markdown with their sections, shapes and code, and nothing in them is taken for markup."""

from rfnb.site.reference import escaped, first_sentence, markdown

DOC = """The mean over `axis`, as in e.g. a loss. Only real frames count.

    rf.reduce_mean(x, axis=time)

Dims of `x` stay: {batch, feat}.

Args:
    x: {..., axis}
    axis, use_mask: The dim,
        and whether it is masked.
    **options: As x_ * 2 <b>.

Returns:
    {...}: without axis.

    It is a float.

Raises:
    DimError: If axis is not in x.

Source: Nobody 2017, "Means".
"""


def test_the_parts_of_a_docstring():
    assert markdown(DOC) == (
        "The mean over `axis`, as in e.g. a loss. Only real frames count.\n\n"
        "```python\nrf.reduce_mean(x, axis=time)\n```\n\n"
        "Dims of `x` stay: {shape}`{batch, feat}`.\n\n"
        ":Args:\n"
        "    - `x`: {shape}`{..., axis}`\n"
        "    - `axis`, `use_mask`: The dim,\n"
        "      and whether it is masked.\n"
        "    - `**options`: As x\\_ \\* 2 \\<b>.\n\n"
        ":Returns:\n"
        "    {shape}`{...}`: without axis.\n\n"
        "    It is a float.\n\n"
        ":Raises:\n"
        "    - `DimError`: If axis is not in x.\n\n"
        ':Source:\n    Nobody 2017, "Means".'
    )


def test_code_that_is_no_python_is_text():
    assert (
        markdown("A table.\n\n    one   two |\n    1 2\n\nEnd.") == "A table.\n\n```text\none   two |\n1 2\n```\n\nEnd."
    )


def test_a_section_of_prose_stays_prose():
    assert (
        markdown("X.\n\nRaises:\n    Nothing that one could catch.")
        == "X.\n\n:Raises:\n    Nothing that one could catch."
    )


def test_the_first_sentence_ends_at_its_full_stop():
    assert first_sentence(DOC) == "The mean over `axis`, as in e.g. a loss."
    assert first_sentence("One line\nthat goes on. Then more.") == "One line that goes on."


def test_what_markdown_would_take_for_markup_is_text():
    assert escaped("a_b *c* [d](e) $f$ `g_h` {time}") == ("a\\_b \\*c\\* \\[d\\](e) \\$f\\$ `g_h` {shape}`{time}`")
