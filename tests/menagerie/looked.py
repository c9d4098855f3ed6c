"""Describes how rfnb sees one class of `transformers`: a dict of the table's columns, each a word, a number, or a sentence on failure."""

from __future__ import annotations

import contextlib
import copy
import logging
import warnings
from typing import Any

import torch
from menagerie.inputs import GENERATES, tried
from menagerie.tiny import CannotBuildError, class_of, ways
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode

import rfnb as rf

TOKENS = 3
GENERATE = {"max_new_tokens": TOKENS, "min_new_tokens": TOKENS, "do_sample": False, "use_cache": True}
COLUMNS = ("bits", "attention", "states", "beams", "held", "edited", "diff")


def row(name: str) -> dict[str, Any]:
    """The columns of a class; `why` has a sentence for each that is "no"."""
    logging.disable(logging.WARNING)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        try:
            looked = Looked(name)
        except CannotBuildError as error:
            return {"built": False, "why": {"built": _sentence(error)}}
        return {"built": True, **looked.columns()}


class Looked:
    def __init__(self, name: str):
        self.generates = class_of(name).can_generate()
        self.why: dict[str, str] = {}
        error = None
        for model in ways(name):
            for given in tried(model):
                try:
                    self.model, self.given = model, given
                    self.plain = self.forward()
                    return
                except Exception as failed:
                    error = error or failed
        raise CannotBuildError(f"{type(error).__name__}: {error}")

    def columns(self) -> dict[str, Any]:
        out: dict[str, Any] = {}
        for name in COLUMNS:
            if name in ("beams", "held") and not self.generates:
                continue
            try:
                value = getattr(self, name)()
            except Exception as error:
                value, self.why[name] = "no", _sentence(error)
            if value is not None:
                out[name] = value
        return {"generates": self.generates, **out, "why": self.why}

    def forward(self, **more: Any) -> list[torch.Tensor]:
        torch.manual_seed(3)
        return tensors(self.model(**self.given, **more))

    def no(self, column: str, sentence: str) -> str:
        self.why[column] = sentence
        return "no"

    def bits(self) -> str:
        if not same(self.plain, self.forward()):
            return self.no("bits", "The model draws, and gives others for the same seed.")
        with warnings.catch_warnings(record=True) as caught, rf.record(model=self.model) as self.trace:
            warnings.simplefilter("always")
            recorded = self.forward()
        self.said = [
            str(each.message)
            for each in caught
            if "rfnb" in str(each.message) or "could not be seen" in str(each.message)
        ]
        if not same(self.plain, recorded) or not same(self.plain, self.forward()):
            return self.no("bits", "Outputs differ while it is recorded.")
        return "equal"

    def attention(self) -> Any:
        """How many maps, all of them as the model makes them itself: those that it returns, and all that its softmaxes make."""
        events = maps(self.trace)
        unseen = [each.values["reason"] for each in self.trace.select(kind="unseen")]
        own: list[torch.Tensor] = []
        model = copy.deepcopy(self.model)
        with contextlib.suppress(Exception):  # it has one way only
            model.set_attn_implementation("eager")
        for _ in range(2):
            plain: list[torch.Tensor] = []
            with contextlib.suppress(RuntimeError), sdpa_kernel(SDPBackend.MATH), Softmaxes() as softmaxes:
                torch.manual_seed(3)
                plain = tensors(model(**self.given))
            if plain and close(self.plain, plain):
                break
            model = copy.deepcopy(self.model)
            self.why["attention"] = (
                "Eager attention fails, or gives other results than its own: compared with the maps of its own."
            )
        with contextlib.suppress(Exception):  # it does not know the word
            torch.manual_seed(3)
            out = model(**self.given, output_attentions=True)
            fields = [
                value for key, value in out.items() if key.endswith("attentions") and isinstance(value, (tuple, list))
            ]
            if close(self.plain, plain) and close(
                self.plain[:1], tensors(out)
            ):  # else it computes something else there
                own = [each for field in fields for each in field if isinstance(each, torch.Tensor) and each.ndim == 4]
        seen = [each.values["weights"].raw_tensor.float() for each in events]
        rows = [
            each for each in own if each.numel() and torch.allclose(each.float().sum(-1), torch.ones(()), atol=1e-4)
        ]
        wrong = [event.path for event, raw in zip(events, seen, strict=True) if not made(raw, [*softmaxes.made, *rows])]
        if wrong:
            return self.no("attention", f"{len(wrong)} of {len(seen)} maps are none that the model makes: {wrong[0]}.")
        missing = [each for each in rows if not made(each.float(), seen)]
        if missing and not unseen:
            return self.no("attention", f"{len(missing)} of {len(rows)} maps that the model returns were not recorded.")
        if unseen:
            self.why["attention"] = unseen[0]
            return f"{len(seen)}, others named" if seen else "named"
        return len(seen) or None

    def states(self) -> Any:
        return len([path for path in self.trace.by_path("states") if not path.endswith("turns")]) or None

    def generated(self, **options: Any) -> torch.Tensor:
        torch.manual_seed(3)
        given = {key: value for key, value in self.given.items() if key != "decoder_input_ids"}
        if type(self.model).__name__ in GENERATES:
            given = GENERATES[type(self.model).__name__](self.model, given)
        elif "input_ids" in given and "attention_mask" not in given and given["input_ids"].ndim == 2:
            given["attention_mask"] = torch.ones_like(given["input_ids"])
        if getattr(self.model.config, "is_encoder_decoder", False):
            given["decoder_start_token_id"] = 1
        options = {**GENERATE, **options}
        options = {name: value for name, value in options.items() if given.get(name) is not ...}
        given = {name: value for name, value in given.items() if value is not ...}
        try:
            out = self.model.generate(**given, **options)
        except ValueError as error:
            if "MinNewTokens" not in str(error):
                raise
            out = self.model.generate(**given, **{**options, "min_new_tokens": None})
        return out if isinstance(out, torch.Tensor) else getattr(out, "sequences", out)

    def beams(self) -> Any:
        try:
            greedy = self.generated()
        except Exception as error:
            return self.no("beams", f"It does not generate with these inputs: {_sentence(error)}")
        with warnings.catch_warnings(record=True) as caught, rf.record(model=self.model) as trace:
            warnings.simplefilter("always")
            again = self.generated()
        if not same(tensors(greedy), tensors(again)):
            return self.no("beams", "Greedy results differ while it is recorded.")
        if not trace.by_path("beams"):
            said = _said(caught, "could not be seen")
            self.why["beams"] = said or "Nothing of a search was recorded."
            return "named" if said else "no"
        try:
            plain = self.generated(num_beams=2)
        except Exception as error:
            self.why["beams"] = f"It has no beam search: {_sentence(error)}"
            return "greedy"
        with rf.record(model=self.model) as trace:
            recorded = self.generated(num_beams=2)
        if not same(tensors(plain), tensors(recorded)):
            return self.no("beams", "Results of a beam search differ while it is recorded.")
        if not trace.by_path("beams"):
            return self.no("beams", "Nothing of a search was recorded.")
        return 2

    def held(self) -> Any:
        try:
            plain = self.generated()
        except Exception:
            return None
        steps = 0
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            run = rf.run(self.generated, record={"model": self.model}, paused=True)
            run.wait()
            while run.state == "paused" and steps < 99:
                steps += run.at.path.endswith("generate")
                run.step()
                run.wait()
            if run.state == "paused":
                run.resume()
        if not same(tensors(run.result), tensors(plain)):
            return self.no("held", "Results differ where it is held.")
        if not steps and _said(caught, "has run through without a step"):
            self.why["held"] = "It reports that it has no step that can be held."
            return "named"
        if said := _said(caught, "could not be seen"):
            self.why["held"] = f"After {steps} steps it reports that it is no longer held: {said}"
            return "named"
        return steps if steps == TOKENS else self.no("held", f"It waited {steps} times for {TOKENS} labels.")

    def edited(self) -> Any:
        """The first head that is taken away is away in what is recorded, the results are others, and are as before afterwards."""
        plain = self.forward()  # some keep something of the last search
        with rf.record(model=self.model) as self.trace:
            self.forward()
        events = maps(self.trace)
        states = list(self.trace.by_path("states"))
        if events:
            self.place, value = f"{events[0].path}.weights", 0
        elif states:
            self.place, value = states[0], lambda h: h * 1.5
        else:
            return None
        self.parts = False
        for place in [self.place, *(f"{event.path}.weights" for event in events[1:])]:
            with rf.edit(self.model, {place: value}), rf.record(model=self.model) as self.trace_edited:
                changed = self.forward()
            if not same(plain, changed):
                break
            self.why["edited"] = f"No head of {place.removesuffix('.weights')} decides anything here."
        self.place = place
        if not same(plain, self.forward()):
            return self.no("edited", "The model is another one afterwards.")
        there = [
            each
            for each in self.trace_edited.select(kind="attention")
            if each.path == self.place.removesuffix(".weights")
        ]
        if events and any(bool(each.values["weights"].raw_tensor.any()) for each in there):
            return self.no("edited", "The recording has not what was edited.")
        if same(plain, changed):
            return self.no("edited", f"An edit of {self.place} changes nothing.")
        self.parts = True
        return "yes"

    def diff(self) -> Any:
        with rf.record(model=self.model) as again:
            self.forward()
        if not rf.diff(self.trace, again).same:
            return self.no("diff", "Two equal runs differ.")
        if not getattr(self, "parts", False):
            return "same"
        found = rf.diff(self.trace, self.trace_edited)
        first = found.first
        place = self.place.removesuffix(".weights")
        if found.same or first is None:
            return self.no("diff", "An edited run counts as the same.")
        if f"{first.path}.".startswith(f"{place}.") or f"{place}.".startswith(f"{first.path}."):
            return "found"
        return self.no("diff", f"{place} was edited, {first.path} is said.")


def maps(trace: Any) -> list[Any]:
    """Weights that were recorded, without what a recurrence amounts to: no model makes that, so nothing is there to compare."""
    return [
        each
        for each in trace.select(kind="attention")
        if "weights" in each.values and not each.path.endswith("effective")
    ]


class Softmaxes(TorchDispatchMode):
    """Collects the results of every softmax of a run, from any caller."""

    def __init__(self) -> None:
        super().__init__()
        self.made: list[torch.Tensor] = []

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = function(*args, **(kwargs or {}))
        if "softmax" in str(function) and isinstance(out, torch.Tensor):
            self.made.append(out.detach().float().clone())
        return out


def made(weights: torch.Tensor, maps: list[torch.Tensor]) -> bool:
    """Whether weights are one of these maps, maybe without its last columns: a sink, places of a cache that nothing is in."""
    for each in maps:
        own = each[..., : weights.shape[-1]] if each.shape[:-1] == weights.shape[:-1] else each
        if own.numel() == weights.numel() and torch.allclose(
            own.float().reshape(-1), weights.reshape(-1), rtol=0, atol=1e-5
        ):
            return True
    return False


def close(one: list[torch.Tensor], other: list[torch.Tensor]) -> bool:
    pairs = zip(one, other, strict=False)
    return all(a.shape == b.shape and torch.allclose(a.float(), b.float(), rtol=1e-3, atol=1e-3) for a, b in pairs)


def tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value.detach().clone()]
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, (list, tuple)):
        return []
    return [found for each in value for found in tensors(each)]


def same(one: list[torch.Tensor], other: list[torch.Tensor]) -> bool:
    return len(one) == len(other) and all(
        a.shape == b.shape and torch.allclose(a, b, rtol=0, atol=0, equal_nan=True)
        for a, b in zip(one, other, strict=True)
    )


def _said(caught: list[warnings.WarningMessage], words: str) -> str:
    """The reason that a warning of rfnb gives; "" if there is none."""
    for each in caught:
        text = str(each.message)
        if words in text:
            return next((line.split("reason", 1)[1].strip() for line in text.splitlines() if "  reason" in line), words)
    return ""


def _sentence(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return (text if isinstance(error, CannotBuildError) else f"{type(error).__name__}: {text}")[:200]
