"""Finds sentences that tell the answer to a question or exercise of the course, in whatever text: prose, titles, docstrings, pages.

    told_in("Greedy search writes P EH R AH CH UW T.", "07_search", by="07_search")     # [Told(name="greedy", ...)]

An answer is told by a sentence that has its words, or its number, beside words of the question, and no other option of it; by one that
has most words of a model sentence, or of the reason that is revealed with an answer; by an expression of a solution, in the code of a
text; and, where it was told once, by those words (`OTHER_WORDS`).
"""

from __future__ import annotations

import ast
import html
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

from course.harness import NOTEBOOKS, Course

LEAST_CODE = 24  # letters of an expression that is nobody's by chance
_OF_QUESTION = 0.3  # of the words of a question that a sentence about it has
_LEAST_REASON = 5  # words of a sentence of a reason that is nobody's by chance
_OF_REASON = 0.7
_OF_SENTENCE = 0.55  # of the words of a model sentence that one has which says the same
_NUMBERS = "zero one two three four five six seven eight nine ten eleven twelve".split()
_SMALL = set(
    "a an and are as at be been but by can could did do does for from had has have how if in into is it its more most much many no not of "
    "on or other out over should so than that the their them then there these they this those to up was were what when where which "
    "while who whose why will with would you your all also any both each here just only own same very we our one two".split()
)
# By lesson and question: what tells the answer in words that neither the question nor the answer has.
OTHER_WORDS = {
    "04_encoder_decoder": {
        "after_nine": r"nine hundred (?!seventeen)\w+|\bgoe?s? wrong\b|one wrong word",
        "comes_back": r"leaves a wrong path|saved after",
        "best_taught": r"what it costs|ratio 0\.?5? \(nats\)",
    },
    "05_attention": {"month": r"9\d % of the characters", "year": r"model looks is another question"},
    "06_explanation": {
        "stays": r"no proof that something was read",
        "century": r"explanation that is none",
        "on_not": r"(?<!Attention )\bsinks?\b|weights? gathers?\b|nothing of it has to be read",
    },
    "07_search": {"greedy": r"beam of 1 .* finds “P EH R AH|p = 0\.3 +P EH R"},
    "08_errors": {"wide": r"\bnothing at all\b|\bempty\b|\bfinds? nothing\b|brings .* back"},
    "09_ctc": {"blank": r"\bpeaky\b", "differ": r"· 60 %, a 40 %"},
    "10_transducers": {"why_sum": r"ignore the rest", "why_wait": r"being sure costs"},
    "11_transformer": {"better_loss": r"loss cannot tell|low loss"},
    "12_clinic": {"one_idea": r"should be the same"},
}
_PHONEMES = re.compile(r"(?:[A-Z]{1,2} ){3,}[A-Z]{1,2}")
_ENDINGS = re.compile(r"(?:ings?|ed|es|s|ly|er|e)$")


@dataclass(frozen=True)
class Truth:
    """An answer, and how it is asked for.

    Attributes:
        name: Of the question or exercise.
        question: Its words.
        answer: A text, a number, a sentence.
        others: The options that are wrong, or answers to the other parts of an exercise.
        options: All options in their order.
        kind: "words", "number", "sentence", or "reason": what is revealed with an answer.
    """

    name: str
    question: str
    answer: str
    others: tuple[str, ...] = ()
    kind: str = "words"
    options: tuple[str, ...] = ()

    @property
    def is_rare(self) -> bool:
        """Whether nobody says it by chance of something else."""
        if self.kind == "number":
            return float(self.answer) % 1 != 0 or float(self.answer) >= len(_NUMBERS)
        if self.kind in ("sentence", "reason"):
            return self.kind == "sentence"
        return len(stems(self.answer)) > 1 or _PHONEMES.fullmatch(self.answer) is not None


@dataclass(frozen=True)
class Told:
    """A sentence that tells an answer."""

    name: str
    sentence: str


@cache
def truths(lesson: str) -> list[Truth]:
    """All answers of a lesson that are no code."""
    course = Course(lesson)
    asked, found = _asked(course), list[Truth]()
    answers: dict[str, Any] = dict(course.solutions.PREDICTIONS)
    answers |= {name: value for name in course.exercises if not callable(value := getattr(course.solutions, name))}
    for name, answer in answers.items():
        question, options, explains = asked.get(name, (name.replace("_", " "), (), False))
        if name in course.exercises:
            question = f"{course.lesson.exercises[name].title} {name}"
        parts = answer if isinstance(answer, Mapping) else {"": answer}
        for key, one in parts.items():
            others = tuple(each for each in options if each != str(one)) or tuple(
                str(x) for x in parts.values() if x != one
            )
            if isinstance(one, (int, float)) or re.fullmatch(r"\d+", str(one)):
                found.append(Truth(name, f"{question} {key}", f"{one}", others, "number"))
            elif isinstance(one, str) and explains:
                found += [Truth(name, question, each, (), "sentence") for each in sentences(one)]
            elif isinstance(one, str):
                held = options if one in options else ()
                found.append(Truth(name, f"{question} {key}", one, others, options=held))
    known = {truth.answer for truth in found}
    for name, reason in _revealed(course):
        question = asked.get(name, ("",))[0]
        every = [each for each in sentences(reason) if each not in known and len(stems(each)) >= _LEAST_REASON]
        found += [Truth(name, question, each, (), "reason") for each in every]
    return found


def _revealed(course: Course) -> Iterator[tuple[str, str]]:
    """By question the texts that are revealed with its truth: a model answer, or the reason why."""
    names: dict[str, str] = {}
    for cell in course.stored.cells:
        if cell.cell_type != "code" or cell.source.startswith("%"):
            continue
        tree = ast.parse(cell.source)
        for node in tree.body:
            if (
                isinstance(node, ast.Assign)
                and isinstance(node.value, ast.Call)
                and isinstance(node.targets[0], ast.Name)
            ):
                for call in _questions(node.value):
                    names[node.targets[0].id] = ast.literal_eval(call.args[0])
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "reveal":
                name = names.get(ast.unparse(node.func.value))
                said = [*node.args[:1], *(each.value for each in node.keywords if each.arg == "why")]
                for text in (each for part in said for each in ast.walk(part)) if name else ():
                    if isinstance(text, ast.Constant) and isinstance(text.value, str):
                        yield name, text.value


def in_other_words(text: str, lesson: str) -> list[Told]:
    """The sentences of a text of a lesson that tell an answer in the words of `OTHER_WORDS`."""
    table = OTHER_WORDS.get(lesson, {})
    return [
        Told(name, one)
        for one in sentences(text)
        for name, words in table.items()
        if re.search(words, one, re.IGNORECASE)
    ]


def _asked(course: Course) -> dict[str, tuple[str, tuple[str, ...], bool]]:
    """By name the words of a question, its options, and whether it wants sentences; those of puzzles are made by code."""
    found: dict[str, tuple[str, tuple[str, ...], bool]] = {}
    for cell in course.stored.cells:
        if cell.cell_type != "code" or cell.source.startswith("%"):
            continue
        lists = {
            node.targets[0].id: node.value
            for node in ast.parse(cell.source).body
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
        }
        for call in _questions(ast.parse(cell.source)):
            words = [each.value for each in call.args if isinstance(each, ast.Constant)]
            given = {each.arg: each.value for each in call.keywords}
            options = given.get("options")
            options = lists.get(options.id) if isinstance(options, ast.Name) else options
            held = (
                [e.value for e in options.elts if isinstance(e, ast.Constant)] if isinstance(options, ast.List) else []
            )
            if len(words) > 1:
                explains = ast.unparse(call.func) == "lesson.explain"
                found[str(words[0])] = str(words[1]), tuple(map(str, held)), explains
    return found


@lru_cache(20_000)
def _without_questions(sentence: str) -> str:
    """The sentence without a question of the course, which a card shows again."""
    for question in _every_question():
        sentence = sentence.replace(question, "")
    return sentence.strip("○●✓✗ ")


@cache
def _every_question() -> list[str]:
    found = set[str]()
    for path in sorted((NOTEBOOKS / "solutions").glob("[0-9]*.py")):
        course = Course(path.stem)
        found |= {question for question, _, _ in _asked(course).values()}
        sources = [cell.source for cell in course.stored.cells if cell.cell_type == "code" and "asked=" in cell.source]
        words = [each for source in sources for each in ast.walk(ast.parse(source)) if isinstance(each, ast.keyword)]
        found |= {
            str(ast.literal_eval(each.value))
            for each in words
            if each.arg == "asked" and isinstance(each.value, ast.Constant)
        }
    return sorted({part for question in found for part in sentences(question) if len(part) > 25}, key=len, reverse=True)


def _questions(tree: ast.AST) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and re.fullmatch(r"lesson\.(predict|explain)", ast.unparse(node.func)):
            yield node


@cache
def codes(lesson: str) -> dict[str, set[str]]:
    """By exercise the expressions of its solution, without spaces, that its own cell does not show."""
    course, found = Course(lesson), {}
    shown = squeezed("\n".join(cell.source for cell in course.stored.cells if "lesson.check(" in cell.source))
    for node in ast.parse((NOTEBOOKS / "solutions" / f"{lesson}.py").read_text("utf-8")).body:
        if isinstance(node, ast.FunctionDef) and node.name in course.exercises:
            plain = ast.Name, ast.Attribute, ast.Constant
            made = [one for one in ast.walk(node) if isinstance(one, ast.expr) and not isinstance(one, plain)]
            every = [squeezed(ast.unparse(one)) for one in made]
            found[node.name] = {one for one in every if len(one) >= LEAST_CODE and one not in shown}
    return found


def told_in(text: str, lesson: str, *, own: bool = True) -> list[Told]:
    """The answers of a lesson that a text tells.

    Args:
        own: Whether the text is of this lesson; in others numbers and words that are somebody's by chance tell nothing, nor does code.
    """
    said = [one for one in map(_without_questions, sentences(text)) if one]
    found = [Told(name, one) for one in said for name in _answered_by(one, lesson, own)]
    if own:
        whole = squeezed(text)
        found += [Told(name, one) for name, every in codes(lesson).items() for one in sorted(every) if one in whole]
    return found


@lru_cache(200_000)  # the site, the copies and the assignments have the same sentences
def _answered_by(sentence: str, lesson: str, own: bool) -> tuple[str, ...]:
    return tuple(truth.name for truth in (truths(lesson) if own else _rare(lesson)) if _tells(sentence, truth))


@cache
def _rare(lesson: str) -> list[Truth]:
    return [truth for truth in truths(lesson) if truth.is_rare]


# What is said before code and what the code prints, as pages of documentation have them.
_SHOWN = re.compile(r"([^.\n]*[:.])\n\n```python\n(?:(?!```).)*```\n\n```text\n(.*?)```", re.DOTALL)


@lru_cache(100)
def sentences(text: str) -> list[str]:
    """The sentences, cells of tables, lines of code and list items of a text."""
    shown = [
        f"{intro} {line}" for intro, printed in _SHOWN.findall(text) for line in printed.splitlines() if line.strip()
    ]
    text = re.sub(r"^```.*?^```", lambda block: block[0].replace("\n", "\n\n"), text, flags=re.MULTILINE | re.DOTALL)
    plain = re.sub(r"[*`$]|(?<!\w)_|_(?!\w)|\\text", "", text)
    parts = re.split(r"(?<=[.!?;])\s+(?=[A-Z\d“\"'])|(?<=:)\s+(?=[A-Z“\"'])|\n\s*\n|\n\s*[-*#|]|\|", plain)
    return [one for one in (re.sub(r"\s+", " ", part).strip() for part in [*parts, *shown]) if one]


def _tells(sentence: str, truth: Truth) -> bool:
    said = stems(sentence)
    if truth.kind == "sentence":
        words = stems(truth.answer)
        return len(words & said) >= max(min(3, len(words)), _OF_SENTENCE * len(words)) and len(said) <= 5 * len(words)
    if truth.kind == "reason":
        words = stems(truth.answer)
        return len(words & said) >= _OF_REASON * len(words)
    if truth.kind == "number":
        return _is_about(said, truth, exact=float(truth.answer) % 1 != 0) and _has_number(sentence, truth.answer)
    if truth.name.startswith("puzzle_"):  # many things have the same dims
        puzzle = truth.name.replace("_", " ")
        return truth.answer in sentence and re.search(rf"{puzzle}\b", sentence, re.IGNORECASE) is not None
    rare = _PHONEMES.fullmatch(truth.answer) is not None or len(stems(truth.answer)) >= 3
    if not _is_about(said - stems(truth.answer), truth, exact=rare):
        return False
    if not _has(sentence, truth.answer):
        words = stems(truth.answer)
        if len(words) < 3 or not words <= said or _denies(truth.answer) != _denies(sentence):
            return False
    others = [other for other in truth.others if other not in truth.answer]
    return not any(_has(sentence, other) for other in others)  # else it asks


def _has(sentence: str, phrase: str) -> bool:
    if phrase.lower() not in sentence.lower():
        return False
    return re.search(rf"(?<!\w){re.escape(phrase)}(?!\w|\s[A-Z]{{1,2}}\b)", sentence, re.IGNORECASE) is not None


def _denies(text: str) -> bool:
    return re.search(r"\b(?:not?|never|none|nothing|without)\b", text, re.IGNORECASE) is not None


def _is_about(said: frozenset[str], truth: Truth, *, exact: bool) -> bool:
    """Whether the words of a sentence are about a question; of an answer that is nobody's by chance one of them is enough."""
    words = stems(truth.question) - stems(truth.answer)
    return len(words & said) >= (1 if exact else max(min(2, len(words)), _OF_QUESTION * len(words)))


def _has_number(sentence: str, number: str) -> bool:
    value = float(number)
    words = [_NUMBERS[int(value)]] if value % 1 == 0 and 2 < value < len(_NUMBERS) else []
    forms = {number, f"{value:g}", *words}
    return any(re.search(rf"(?<![\w.]){re.escape(one)}(?![\w]|\.\d)", sentence, re.IGNORECASE) for one in forms)


@lru_cache(100_000)
def stems(text: str) -> frozenset[str]:
    """The words of a text that have a meaning, without endings."""
    words = re.findall(r"[a-zα]+(?:-[a-z]+)?", re.sub(r"['’]\w+", "", text.lower()))
    return frozenset(
        _ENDINGS.sub("", word) if len(word) > 4 else word.rstrip("s") for word in words if word not in _SMALL
    )


@lru_cache(100)
def squeezed(text: str) -> str:
    """Code as it is compared: without spaces, quotes and the names of libraries."""
    return re.sub(r"\s|[\"'\\]|\b(?:torch|np|rf|math)\.", "", text)


def shown_of(source: str) -> str:
    """The words of code: comments, docstrings and strings, without those of questions, which have all options."""
    if source.lstrip().startswith("%"):
        return source
    tree = ast.parse(source)
    asks = {id(each) for call in _questions(tree) for each in ast.walk(call)}
    options = {id(each) for node in ast.walk(tree) if isinstance(node, ast.List) for each in ast.walk(node)}
    texts = [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in asks | options
    ]
    return "\n\n".join([*texts, *re.findall(r"#\s*(.+)", source)])


def asked_in(source: str) -> str:
    """The questions of code with their names, which their cards show."""
    tree = ast.parse("" if source.lstrip().startswith("%") else source)
    texts = [
        [ast.literal_eval(each) for each in call.args[:2] if isinstance(each, ast.Constant)]
        for call in _questions(tree)
    ]
    return "\n\n".join(part for name, *question in filter(None, texts) for part in (name.replace("_", " "), *question))


def page_text(page: str) -> str:
    """The text of a page of HTML, without scripts and styles."""
    page = re.sub(r"<(script|style|svg)\b.*?</\1>", " ", page, flags=re.DOTALL)
    page = re.sub(r"</(?:p|h\d|li|td|th|div|pre|tr|summary|figcaption)>", "\n\n", page)
    return html.unescape(re.sub(r"<[^>]+>", "", page))
