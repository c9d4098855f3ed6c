"""Session: one running call of `generate`, step by step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from rfnb.control.held_step import nothing_chooses
from rfnb.control.holder import Holder
from rfnb.core.block import block
from rfnb.core.dim import Dim
from rfnb.interop.seen.generate_config import GenerateConfig
from rfnb.interop.seen.generate_decisions import DECIDED, Blocked, Decisions
from rfnb.interop.seen.generate_search import BeamSearch, Continuations, RowSearch, Rules, with_blocked
from rfnb.interop.seen.generate_steps import GenerateSteps, apart
from rfnb.interop.seen.names import Names
from rfnb.rec.hold import holding
from rfnb.rec.selections import LabelDecision
from rfnb.trace.probe import heard_as, probe, trace_context


class _Of(NamedTuple):
    """Stands for a call of a module."""

    module: Any
    path: str = ""


def _no_labels(decided: Sequence[LabelDecision]) -> str:
    raise nothing_chooses(decided[0], "the model, whose output layer is unknown")


class Session:
    """One running call of `generate`.

    Attributes:
        model: The model that generates.
        fault: The reason why it is no longer followed, or "".
        step: The current step, from 0; None before the first.
        is_outer: Whether the `generate` of an inner module makes the steps.
        is_aside: Whether processors or criteria are running: a search or a call of the model in these is not part of this search.
        kept: What readers keep of earlier steps, by module.
    """

    def __init__(self, model: Any, path: str, config: GenerateConfig, names: Names):
        self.model, self.path, self.config, self.names = model, path, config, names
        self.fault, self.is_outer, self.is_aside = "", False, False
        self.step: int | None = None
        self.kept: dict[Any, list[Any]] = {}
        self._prompt: torch.Tensor | None = None
        self._ids: torch.Tensor | None = None  # the labels of this step's hypotheses so far
        self._expected: torch.Tensor | None = None  # of the next step
        self._own: torch.Tensor | None = None
        self._scores: torch.Tensor | None = None
        self._free: torch.Tensor | None = None  # the same without external decisions
        self._search: BeamSearch | RowSearch | None = None
        self._steps = GenerateSteps()
        self._decisions: Decisions | None = None
        self._blocked = Blocked()
        self._vocab: Dim | None = None

    @property
    def ids(self) -> torch.Tensor | None:
        """The labels so far of the hypothesis in each row, [row, time]; None before the first step."""
        return self._ids

    @property
    def beams(self) -> int:
        """The number of slots of each prompt."""
        return self._steps.beam.extent

    @block
    def heard(self) -> Iterator[None]:
        """Record the events of modules in the call as steps, over prompts and slots."""
        with trace_context.scope(".".join(filter(None, [self.path, "generate"]))):
            with heard_as(self._translated):
                yield

    @block
    def aside(self) -> Iterator[None]:
        """A with-block around processors or criteria."""
        self.is_aside = True
        try:
            yield
        finally:
            self.is_aside = False

    def safely(self, fn: Callable[..., None], *args: Any) -> None:
        """Call a method of the session: an error there ends the session, never the run."""
        if self.fault:
            return
        try:
            fn(self, *args)
        except Exception as error:
            self.fault = f"{type(error).__name__}: {error}"
        if self.fault:
            trace_context.at_step(None)

    # -- observing `generate` ----------------------------------------------------------------------------------------------

    def begin(self, input_ids: torch.Tensor) -> None:
        """Start a step with these hypotheses (rows, time)."""
        if self._search is None:
            self._first(input_ids)
        elif self._scores is not None or self._expected is None or not torch.equal(self._expected, input_ids):
            self.fault = f"after step {self.step} it continues hypotheses that its scores do not select"
            return
        self.step = 0 if self.step is None else self.step + 1
        self._ids = input_ids
        trace_context.at_step(self.step)

    def wait(self) -> None:
        """Pause a held run before the step."""
        hold = holding()
        if not self.fault and self.step is not None and isinstance(hold, Holder):
            loop, entry = trace_context.place.path, trace_context.place.entry
            if self._decisions is not None:
                self._decisions.begin(self._ids)
            decide = _no_labels if self._decisions is None else self._decisions.decide
            hold.step_of_own(self.step, {}, loop=loop, entry=entry, decide=decide)

    def prepared(self, inputs: Any) -> None:
        """Name the axes of the model's inputs in this step."""
        if self.step is not None:
            self._steps.name(self.names, inputs, self.step)

    def watched(self, processors: Any) -> Any:
        """A list of processors that reports what each of them makes impossible."""
        return self._blocked.watched(processors)

    def changed(self, scores: torch.Tensor, result: torch.Tensor) -> torch.Tensor:
        """The scores of the next labels with the decisions of a held run applied."""
        self._free = result.detach()
        if self._decisions is None or self.step is None:
            return result
        made = self._decisions.applied(scores, result)
        if made is not result:
            self._blocked.note(DECIDED, result > -torch.inf, made)
        return made

    def processed(self, processors: Any, input_ids: torch.Tensor, scores: torch.Tensor, result: torch.Tensor) -> None:
        """The processors changed the scores of the next labels."""
        if self.step is not None and result.ndim == 2 and self._ids is not None and len(result) == len(self._ids):
            self._own, self._scores = scores.detach(), result.detach()

    def stopped(self, criteria: Any, input_ids: torch.Tensor, scores: Any, result: Any) -> None:
        """The criteria decided which continuations are complete: the end of a step."""
        if self._scores is None or self._own is None or self._ids is None or self._search is None:
            return
        if not isinstance(result, torch.Tensor) or len(result) != len(input_ids):
            self.fault = "its stopping criteria do not report which hypotheses are complete"
            return
        scores, own, hits = self._scores, self._own, result.bool()
        self._scores = self._own = None
        if isinstance(self._search, BeamSearch):
            fields = self._beam_step(self._search, scores, own, input_ids, hits)
        else:
            if bool(hits.all()):  # it may be truncated by its length
                hits = torch.isin(input_ids[:, -1], torch.tensor(sorted(self.config.ends), device=hits.device))
            free = scores if self._free is None or self._free.shape != scores.shape else self._free
            fields = self._search.step(scores, input_ids[:, -1], hits, own.float().log_softmax(-1), free)
            self._expected = input_ids
        self._offer(with_blocked(fields, own.float().log_softmax(-1), self._blocked.by), scores.shape[-1])

    # -- results -----------------------------------------------------------------------------------------------------------

    def prompt_of(self, seq: int) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """The initial labels of a prompt's hypotheses, and the tensors passed to the call, for this prompt alone."""
        assert self._prompt is not None and self._search is not None
        batch, given = self._search.batch, dict(self.config.given)
        if given.pop("inputs", None) is not None:
            given[self.model.main_input_name] = self.config.given["inputs"]
        own = {
            name: each[seq : seq + 1]
            for name, each in given.items()
            if isinstance(each, torch.Tensor) and len(each) == batch
        }
        return self._prompt.view(batch, -1, self._prompt.shape[-1])[seq, 0], own

    def _first(self, input_ids: torch.Tensor) -> None:
        config, rows, self._prompt = self.config, len(input_ids), input_ids
        each = config.beams if config.beams > 1 else config.samples
        if rows % each:
            raise ValueError(f"{rows} rows for {each} hypotheses of each prompt")
        device = input_ids.device
        if config.beams > 1:
            most = config.most_steps(input_ids.shape[1])
            penalty, early = float(config.of("length_penalty")), config.of("early_stopping")
            self._search = BeamSearch(rows // each, Rules(each, config.ends, penalty, early, most), device)
        else:
            self._search = RowSearch(rows // each, each, device)
        self._steps.start(rows // each, each)
        head = self.model.get_output_embeddings()
        head = getattr(self.model, "lm_head", None) if head is None else head
        if hasattr(head, "weight"):
            self._vocab = self._vocab_of(head)
            self._decisions = Decisions(self._vocab, rows // each, each, input_ids.shape[1], is_beam=config.beams > 1)

    def _vocab_of(self, head: Any) -> Dim:
        """The vocabulary of the output: that of the head, else of the decoder's embedding, if the sizes agree."""
        size = len(head.weight)
        decoder = self.model.get_decoder() if self.model.config.is_encoder_decoder else self.model
        embedding = getattr(decoder, "get_input_embeddings", lambda: None)  # FSMT has none
        for module in (head, embedding()):
            if module is not None and len(module.weight) == size and self.names.vocab_of(_Of(module), size) is not None:
                return self.names.vocab_dim(_Of(module), size)
        return self.names.vocab_dim(_Of(head), size)

    def _beam_step(
        self, search: BeamSearch, scores: torch.Tensor, own: torch.Tensor, ids: torch.Tensor, hits: torch.Tensor
    ) -> dict[str, np.ndarray]:
        assert self._ids is not None
        batch, beams = search.batch, search.rules.beams
        looked, before = ids.view(batch, -1, ids.shape[-1]), self._ids.view(batch, beams, -1)
        same = (looked[:, :, None, :-1] == before[:, None]).all(-1)
        # Equal hypotheses, such as all in the first step, are told apart by the number of earlier occurrences of their label.
        alike = (looked[:, :, None] == looked[:, None]).all(-1).tril(-1).sum(-1)
        nth = (same.cumsum(-1) - 1 == alike[:, :, None]) & same
        if not bool(nth.any(-1).all()):
            raise ValueError("a surviving hypothesis did not exist before")
        given = Continuations(nth.int().argmax(-1), looked[:, :, -1], hits.view(batch, -1))
        fields = search.step(scores, own, given=given)
        self._expected = looked.gather(1, search.went[:, :, None].expand(-1, -1, ids.shape[-1])).flatten(0, 1)
        return fields

    def _offer(self, fields: dict[str, np.ndarray], labels: int) -> None:
        if self._vocab is None or self._vocab.extent != labels:
            self._vocab = Dim(labels, name="vocab")
        rank = (
            {"rank_exponent": float(self.config.of("length_penalty"))} if isinstance(self._search, BeamSearch) else {}
        )
        sampled = bool(self.config.of("do_sample"))
        probe(
            "beams", **self._steps.fields(fields, self._vocab), by_rank=not sampled and self.config.samples == 1,
            about=self.config.text, blockers=list(self._blocked.names), config=dict(self.config.said), **rank,
        )  # fmt: skip

    def _translated(self, kind: str, place: Any, values: Any) -> Iterator[tuple[str, Any, Any]]:
        if self.fault:  # outside of any step
            yield kind, place, values
        elif self.is_aside:
            yield kind, apart(place, "processors"), values
        else:
            yield from self._steps.heard(kind, place, values, self.step)
