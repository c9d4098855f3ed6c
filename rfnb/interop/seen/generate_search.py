"""The bookkeeping of `generate` of transformers, from its scores: which hypotheses continue, end or are cut in each step.

    search = BeamSearch(batch, Rules(beams=4, ends=frozenset({1})))
    for scores in out.scores:
        fields = search.step(scores)            # the fields of a `beams` event, as arrays

A beam search of `generate` takes the best 2 * num_beams continuations (with n ends max(2, 1 + n) * num_beams). Those
among the first num_beams that end enter a list of the num_beams best by score / length ** length_penalty; the first
num_beams others continue.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch

from rfnb.trace.beam_fields import NUM_NEXT, CandidateFate

NOTHING = -1.0e9  # the score of empty slots in `generate`
_FEW = NOTHING / 2
_MORE_CUT = 8


class Rules(NamedTuple):
    """The settings that determine which hypotheses a beam search keeps.

    Attributes:
        ends: The labels that end a hypothesis.
        most_steps: Only for `early_stopping="never"`, which depends on the maximal length of a hypothesis.
    """

    beams: int
    ends: frozenset[int] = frozenset()
    length_penalty: float = 1.0
    early_stopping: bool | str | None = False
    most_steps: int | None = None


class Continuations(NamedTuple):
    """The continuations considered in a step of a running search, (batch, count), in its order.

    Attributes:
        hits: Whether the hypothesis is complete, by whatever rule.
    """

    parents: torch.Tensor
    tokens: torch.Tensor
    hits: torch.Tensor


class BeamSearch:
    """One beam search, step by step.

    Attributes:
        steps: Number of steps made.
        is_over: Whether `generate` makes no further step.
        went: Indices of the survivors among the continuations considered in the last step, (batch, beams).
    """

    def __init__(self, batch: int, rules: Rules, device: Any = "cpu"):
        self.batch, self.rules, self.steps, self.is_over = batch, rules, 0, False
        self.running = torch.full((batch, rules.beams), NOTHING, device=device)
        self.running[:, 0] = 0
        self.went = torch.zeros((batch, rules.beams), dtype=torch.int64, device=device)
        self._pool = torch.full((batch, rules.beams), NOTHING, device=device)
        self._open = torch.ones(batch, dtype=torch.bool, device=device)

    def step(
        self,
        scores: torch.Tensor,
        log_probs: torch.Tensor | None = None,
        *,
        given: Continuations | None = None,
        last: bool = False,
    ) -> dict[str, np.ndarray]:
        """The fields of the next step, see docs/contracts/trace.md.

        Args:
            scores: (batch * beams, labels): what the labels add to the score of each hypothesis.
            log_probs: The same of the model itself.
            given: The continuations considered by the search. Default: the best ones.
            last: Whether the maximal length is reached.
        """
        rules, beams, labels = self.rules, self.rules.beams, scores.shape[-1]
        each = scores.float().view(self.batch, beams, labels)
        base = self.running
        flat = (each + base[:, :, None]).view(self.batch, beams * labels)
        keep = max(2, 1 + len(rules.ends)) * beams
        top, index = flat.topk(min(keep + _MORE_CUT, flat.shape[1]))
        if given is None:
            index_of = index[:, :keep]
            tokens = index_of % labels
            hits = torch.full_like(tokens, last, dtype=torch.bool)
            for end in rules.ends:
                hits |= tokens == end
        else:
            index_of, hits = given.parents * labels + given.tokens, given.hits
        chosen = flat.gather(1, index_of)
        accepted = self._accepted(chosen, hits)
        self.steps += 1
        going = self._go_on(chosen, hits)
        all_hit = bool(hits.all())
        fields = _Fields(self, each, base, log_probs)
        return fields.made(index_of, chosen, hits, accepted, going, top, index, final=all_hit)

    def _accepted(self, chosen: torch.Tensor, hits: torch.Tensor) -> torch.Tensor:
        """The continuations that are complete now and may become results."""
        full = (self._pool > _FEW).all(1) & (self.rules.early_stopping is True)
        first = torch.arange(hits.shape[1], device=hits.device) < self.rules.beams
        accepted = hits & first & (self._open & ~full)[:, None] & (chosen > _FEW)
        rating = torch.where(accepted, chosen / (self.steps + 1) ** self.rules.length_penalty, NOTHING)
        self._pool = torch.cat([self._pool, rating], 1).topk(self.rules.beams).values
        return accepted

    def _go_on(self, chosen: torch.Tensor, hits: torch.Tensor) -> torch.Tensor:
        """Continue the best others; returns their indices among the considered continuations."""
        scores, places = (chosen + hits.float() * NOTHING).topk(self.rules.beams)
        self.running, self.went = scores, places
        full = (self._pool > _FEW).all(1)
        rules, length = self.rules, self.steps
        if rules.early_stopping == "never" and rules.length_penalty > 0 and rules.most_steps is not None:
            length = rules.most_steps
        best = scores[:, 0] / length**rules.length_penalty
        worst = torch.where(self._pool > _FEW, self._pool.min(1, keepdim=True).values, NOTHING)
        self._open &= (best[:, None] > worst).any(1)
        done = bool(full.all()) and rules.early_stopping is True
        self.is_over = done or not bool(self._open.any()) or bool(hits.all())
        return places

    @property
    def done(self) -> torch.Tensor:
        """The sequences to which no more results are added."""
        return ~self._open | ((self._pool > _FEW).all(1) & (self.rules.early_stopping is True))


class _Fields:
    """Builds the fields of one step from the state of the search before it."""

    def __init__(self, search: BeamSearch, each: torch.Tensor, base: torch.Tensor, log_probs: torch.Tensor | None):
        self.search, self.labels = search, each.shape[-1]
        self.base = base.cpu().numpy()
        own = None if log_probs is None else log_probs.float().view(each.shape)
        self.own = own
        more, tokens = (each if own is None else own).topk(min(NUM_NEXT, self.labels))
        self.next = {"next_tokens": tokens.cpu().numpy(), "next_log_probs": more.cpu().numpy()}

    def made(self, *arrays: torch.Tensor, final: bool) -> dict[str, np.ndarray]:
        """The fields. `final`: the slots hold complete hypotheses, or those of maximal length."""
        beams, batch = self.search.rules.beams, self.search.batch
        index_of, chosen, hits, accepted, going, top, index = (array.cpu().numpy() for array in arrays)
        done = self.search.done.cpu().numpy()
        slots: list[
            list[int]
        ] = []  # for each sequence the indices of considered continuations, -1 for none; those that leave come last
        for seq in range(batch):
            left = np.flatnonzero(accepted[seq]).tolist()
            if final:
                slots.append(left)
                continue
            alive = [-1 if hits[seq, at] or chosen[seq, at] <= _FEW or done[seq] else int(at) for at in going[seq]]
            slots.append(alive + left)
        width = max(beams, *map(len, slots))
        places = np.array([row + [-1] * (width - len(row)) for row in slots])
        there = places >= 0
        take = lambda array: np.take_along_axis(array, np.maximum(places, 0), 1)  # noqa: E731
        found, scores = np.where(there, take(index_of), 0), np.where(there, take(chosen), -np.inf)
        ends = np.isin(found % self.labels, list(self.search.rules.ends))
        fields = {
            "tokens": found % self.labels, "parents": found // self.labels, "scores": scores.astype(np.float32),
            "ended": there & (ends if final else take(hits)),
            "base": np.where(there, np.take_along_axis(self.base, found // self.labels, 1), 0).astype(np.float32),
        }  # fmt: skip
        behind = there & (np.arange(width) >= beams)
        if behind.any():
            fields["left"] = behind
        fields |= self._candidates(found, fields["scores"], top, index, done & ~final)
        for name in ("", "cand_") if self.own is not None else ():
            at = fields[f"{name}parents"] * self.labels + fields[f"{name}tokens"]
            fields[f"{name}log_probs"] = self._own(at)
        return fields | self.next | {"before": np.where(self.base > _FEW, self.base, -np.inf)}

    def _own(self, index: np.ndarray) -> np.ndarray:
        assert self.own is not None
        flat = self.own.reshape(len(index), -1)
        made: np.ndarray = flat.gather(1, torch.from_numpy(index).to(flat.device)).cpu().numpy()
        return made

    def _candidates(
        self, kept: np.ndarray, scores: np.ndarray, top: np.ndarray, index: np.ndarray, done: np.ndarray
    ) -> dict[str, np.ndarray]:
        """The candidates, survivors first."""
        rows = []
        for seq in range(len(kept)):
            real = scores[seq] > -np.inf
            own = list(zip(kept[seq][real].tolist(), scores[seq][real].tolist()))
            inside = {place for place, _ in own}
            others = [pair for pair in zip(index[seq].tolist(), top[seq].tolist()) if pair[0] not in inside]
            why = CandidateFate.OVER if done[seq] else CandidateFate.CUT
            rows.append(
                [(*pair, CandidateFate.KEPT) for pair in own] + [(*pair, why) for pair in others if pair[1] > _FEW]
            )
        width = max(map(len, rows), default=0)
        table = [row + [(0, -np.inf, CandidateFate.CUT)] * (width - len(row)) for row in rows]
        places = np.array([[item[0] for item in row] for row in table], np.int64).reshape(len(rows), width)
        verdict = np.array([[int(item[2]) for item in row] for row in table], np.int64).reshape(len(rows), width)
        return {
            "cand_tokens": places % self.labels, "cand_parents": places // self.labels,
            "cand_scores": np.array([[item[1] for item in row] for row in table], np.float32).reshape(len(rows), width),
            "cand_kept": verdict == CandidateFate.KEPT, "cand_verdict": verdict,
        }  # fmt: skip


class RowSearch:
    """Greedy search, or sampling: each row continues with one label.

    Args:
        rows: (batch, rows of each sequence): several rows are samples of one sequence.
    """

    def __init__(self, batch: int, rows: int, device: Any = "cpu"):
        self.batch, self.rows = batch, rows
        self.running = torch.zeros(batch, rows, device=device)
        self.ended = torch.zeros(batch, rows, dtype=torch.bool, device=device)

    def step(
        self, scores: torch.Tensor, tokens: torch.Tensor, hits: torch.Tensor, log_probs: torch.Tensor | None = None,
        free: torch.Tensor | None = None,
    ) -> dict[str, np.ndarray]:  # fmt: skip
        """The fields of the next step.

        Args:
            scores: (batch * rows, labels), unnormalized, as used for the choice.
            tokens: (batch * rows,): the chosen labels.
            hits: (batch * rows,): whether the row is now complete.
            log_probs: (batch * rows, labels): those of the model itself.
            free: (batch * rows, labels): the scores without external decisions: forcing a label does not make it certain.
        """
        labels = scores.shape[-1]
        each = (scores if free is None else free).float().log_softmax(-1).view(self.batch, self.rows, labels)
        possible = (scores > -torch.inf).view(each.shape)
        tokens, hits = tokens.view(self.batch, self.rows), hits.view(self.batch, self.rows)
        base, before = self.running, self.ended
        add = each.gather(2, tokens[:, :, None])[:, :, 0]
        self.running = torch.where(before, base, base + add)
        self.ended = before | hits
        count = min(NUM_NEXT + 1, labels)
        best, index = each.masked_fill(~possible, -torch.inf).topk(count)
        own = None if log_probs is None else log_probs.float().view(each.shape)
        more, following = (each if own is None else own).topk(min(NUM_NEXT, labels))
        parents = torch.arange(self.rows, device=tokens.device).expand(self.batch, -1)
        # The chosen label of each row first, then the best others of all rows.
        others = (best + base[:, :, None]).masked_fill((index == tokens[:, :, None]) | before[:, :, None], -torch.inf)
        order = others.flatten(1).argsort(dim=1, descending=True, stable=True)
        flat = lambda x: x.flatten(1).gather(1, order)  # noqa: E731
        made = {
            "tokens": tokens, "parents": parents, "scores": self.running, "ended": self.ended, "base": base,
            "cand_tokens": torch.cat([tokens, flat(index)], 1),
            "cand_parents": torch.cat([parents, flat(parents[:, :, None].expand_as(index))], 1),
            "cand_scores": torch.cat([self.running, flat(others)], 1),
            "cand_verdict": torch.cat([torch.full_like(tokens, CandidateFate.KEPT), torch.full_like(order, CandidateFate.CUT)], 1),
            "next_tokens": following, "next_log_probs": more,
        }  # fmt: skip
        if own is not None:
            for name in ("", "cand_"):
                at = made[f"{name}parents"] * labels + made[f"{name}tokens"]
                value = own.flatten(1).gather(1, at)
                over = before.gather(1, made[f"{name}parents"])
                made[f"{name}log_probs"] = value.masked_fill(over, 0.0)
        fields = {name: value.cpu().numpy() for name, value in made.items()}
        fields["before"] = np.where(before.cpu().numpy(), -np.inf, fields["base"])
        return fields | {"cand_kept": fields["cand_verdict"] == CandidateFate.KEPT}


def with_blocked(
    fields: dict[str, np.ndarray], log_probs: torch.Tensor, by: torch.Tensor | None
) -> dict[str, np.ndarray]:
    """The fields of a step with the best blocked candidates, and `cand_by`: the cause of each.

    Args:
        log_probs: (rows, labels): without blocking.
        by: (rows, labels): 0, or the index of the cause; None if nothing was blocked.
    """
    before = fields.pop("before")  # the scores of the hypotheses that could continue
    if by is None or not bool(by.any()):
        return fields
    batch, labels = len(before), log_probs.shape[-1]
    own, numbers = log_probs.view(batch, -1), by.view(batch, -1)
    base = torch.from_numpy(before.astype(np.float32)).to(own.device).repeat_interleave(labels, 1)
    scores, index = (own + base).masked_fill(numbers == 0, -torch.inf).topk(min(_MORE_CUT, own.shape[1]))
    found = {
        "cand_tokens": index % labels, "cand_parents": index // labels, "cand_scores": scores,
        "cand_kept": torch.zeros_like(index, dtype=torch.bool), "cand_verdict": torch.full_like(index, CandidateFate.BLOCKED),
        "cand_log_probs": own.gather(1, index),
    }  # fmt: skip
    count = fields["cand_tokens"].shape[1]
    for name, value in found.items():
        if name in fields:
            fields[name] = np.concatenate([fields[name], value.cpu().numpy().astype(fields[name].dtype)], 1)
    blocker = numbers.gather(1, index).cpu().numpy().astype(np.int64)
    fields["cand_by"] = np.concatenate([np.zeros((batch, count), np.int64), blocker], 1)
    return fields
