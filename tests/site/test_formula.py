"""Formulas are MathML; what it cannot show is None."""

import pytest

from rfnb.site.formula import mathml

# As the courses on sequence models write them.
USUAL = [
    r"h_t = \tanh(W h_{t-1} + U x_t)",
    r"\operatorname{softmax}(x)_i = \frac{e^{x_i}}{\sum_j e^{x_j}}",
    r"\mathrm{score}(y) = \frac{\log p(y\mid x)}{|y|^\alpha}",
    r"p(y|x)=\prod_t p(y_t\mid y_{<t},x)",
    r"\hat y = \operatorname*{arg\,max}_y \text{ if } x \in \mathbb{R}^{d}",
    r"\sigma(z)\odot W^\top \begin{pmatrix}1&2\\3&4\end{pmatrix}",
    r"\begin{cases} a & b\\ c & d\end{cases}",
]


@pytest.mark.parametrize("text", USUAL)
@pytest.mark.parametrize("as_block", [False, True])
def test_usual_formulas(text, as_block):
    made = mathml(text, as_block=as_block)
    assert made.startswith("<math") and ('display="block"' in made) == as_block


@pytest.mark.parametrize("around", ["{}", r"\begin{{align*}}{}\end{{align*}}", r"\begin{{aligned}}{}\end{{aligned}}"])
def test_several_lines_are_a_table(around):
    made = mathml(around.format(r"a &= \frac{1}{2} \\ b &= \sum_{i=1}^{n} x_i"), as_block=True)
    assert made.count("<mtr>") == 2 and "<mfrac>" in made


def test_an_equation_in_its_environment_is_as_without():
    assert mathml(r"\begin{equation}h_t\end{equation}", as_block=True) == mathml("h_t", as_block=True)


@pytest.mark.parametrize("text", [r"\frac{1}", r"\nosuchthing x", "a & b"])
def test_what_cannot_be_shown_is_none(text):
    assert mathml(text, as_block=False) is None
