"""The documented search, slow and simple: one hypothesis at a time, in plain Python and NumPy, from the text of the documentation.

    arrays = SlowSearch(network, inputs, lengths, parameters).arrays()

reads a network in the dict notation with one loop and gives what a file of golden data has (tests/golden/README.md): outputs,
lengths, scores and the trace of all steps. It knows the layers that these networks are made of, and the options of choices.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

NOT_AFTER_THE_END = -1e30
LAYERS = ("linear", "softmax", "copy", "combine", "compare", "choice")
ACTIVATIONS = {
    None: lambda x: x,
    "tanh": np.tanh,
    "log_softmax": lambda x: x - np.log(np.exp(x - x.max()).sum()) - x.max(),
    "softmax": lambda x: np.exp(x - x.max()) / np.exp(x - x.max()).sum(),
}


@dataclass
class Hypothesis:
    """The state of one hypothesis of one sequence.

    Attributes:
        score: Natural log.
        ended, length: After the last finished step.
        now, before: The values of layers by name, of this step and of the one before.
        kept: The values of all steps, for the outputs.
        lasts: The values of the last step that counts.
    """

    score: float = 0.0
    ended: bool = False
    length: int = 0
    now: dict[str, Any] = field(default_factory=dict)
    before: dict[str, Any] = field(default_factory=dict)
    kept: list[dict[str, Any]] = field(default_factory=list)
    lasts: dict[str, Any] = field(default_factory=dict)

    def child(self, score: float) -> Hypothesis:
        """A hypothesis that continues this one."""
        return replace(self, score=score, now=dict(self.now), kept=list(self.kept), lasts=dict(self.lasts))


class SlowSearch:
    """One network and its data.

    Args:
        combine: In place of line 3 of a step: of (log probability, base, step), by the path of the choice.
    """

    def __init__(
        self,
        network: Mapping[str, Any],
        inputs: Mapping[str, np.ndarray],
        lengths: Mapping[str, np.ndarray],
        parameters: Mapping[str, np.ndarray],
        *,
        combine: Mapping[str, Any] | None = None,
    ):
        self.network, self.inputs, self.lengths, self.parameters = network, inputs, lengths, parameters
        self.combine = combine or {}
        self.loop = network["output"]
        self.body = self.loop["unit"]
        self.num_seqs = len(next(iter(inputs.values())))
        self.include_eos = bool(self.loop.get("include_eos", False))
        self.choices = self._choices_in_order()
        self.trace: dict[str, np.ndarray] = {}
        self.outside = [{} for _ in range(self.num_seqs)]

    # -- the loop ----------------------------------------------------------------------------------------------------------------
    def arrays(self) -> dict[str, np.ndarray]:
        """Search, and say everything."""
        beams = [[Hypothesis()] for _ in range(self.num_seqs)]
        sizes = self.lengths[self.loop["size_target"]] if self.loop.get("size_target") else None
        if self.loop.get("from"):
            sizes = self.lengths["data"]
        step, limit = 0, max(sizes) if sizes is not None else self.loop["max_seq_len"]
        while step < limit and (sizes is not None or not all(hyp.ended for beam in beams for hyp in beam)):
            if sizes is not None:
                for seq, beam in enumerate(beams):
                    for hyp in beam:  # the frame that ends a sequence is not among its frames, unless include_eos
                        hyp.ended = step >= sizes[seq] + (0 if self.include_eos else 1)
            beams = self._step(step, beams)
            for seq, beam in enumerate(beams):
                for hyp in beam:
                    self._finish_step(step, seq, hyp, sizes)
            step += 1
        return self._results(beams, step, sizes)

    def _finish_step(self, step: int, seq: int, hyp: Hypothesis, sizes: Any) -> None:
        for name in self.body:
            self.value(name, seq, step, hyp)
        if sizes is None:
            was, ended = hyp.ended, hyp.ended or bool(hyp.now["end"])
            counts = not (was if self.include_eos else ended)
            hyp.ended = ended
        else:
            counts = step < sizes[seq]
        hyp.length += counts
        hyp.kept.append(dict(hyp.now))
        if counts:
            hyp.lasts = dict(hyp.now)
        hyp.before, hyp.now = dict(hyp.now), {}

    def _step(self, step: int, beams: list[list[Hypothesis]]) -> list[list[Hypothesis]]:
        path: list[list[bool]] | None = (
            None  # which hypotheses continue the last one of the choice before, if that does not cheat
        )
        for position, name in enumerate(self.choices):
            options = self.body[name]
            kinds = ("scores_in", "scores_base", "scores_combined", "src_beam_idxs", "labels", "scores")
            found: dict[str, list[Any]] = {kind: [] for kind in kinds}
            after, new_path = [], []
            for seq, beam in enumerate(beams):
                chosen = self._choose(name, seq, step, beam, None if path is None else path[seq], found)
                after.append([self._followed(name, seq, step, beam, one) for one in chosen])
                new_path.append([parent == len(beam) - 1 for parent, _, _ in chosen])
            beams, path = after, None if options.get("cheating") else new_path
            self.trace.update({f"trace/{step}/{position}/{kind}": np.array(values) for kind, values in found.items()})
        return beams

    def _followed(self, name: str, seq: int, step: int, beam: list[Hypothesis], chosen: Any) -> Hypothesis:
        parent, labels, score = chosen
        hyp = beam[parent].child(score)
        hyp.now[name] = labels[0]
        for index, label in enumerate(labels):
            hyp.now[f"{name}/out_{index}"] = label
        return hyp

    # -- one choice: lines 1 to 4 --------------------------------------------------------------------------------------------------
    def _choose(
        self,
        name: str,
        seq: int,
        step: int,
        beam: list[Hypothesis],
        path: list[bool] | None,
        found: dict[str, list[Any]],
    ) -> list[tuple[int, tuple[int, ...], float]]:
        """(parent, labels, score) of those that go on."""
        options = self.body[name]
        scores_in, bases, labels = [], [], []
        for hyp in beam:
            base = hyp.score
            if options.get("length_normalization", True) and hyp.ended:
                base *= ((step + 1) / step) ** options.get("length_normalization_exponent", 1.0)
            own, of_own = self._log_probs(name, seq, step, hyp)
            if hyp.ended:
                own = np.where(np.arange(len(own)) == options.get("end_label", 0), 0.0, NOT_AFTER_THE_END)
            scores_in.append(own)
            bases.append(base)
            labels.append(of_own)
        scales = options.get("prob_scale", 1.0), options.get("base_beam_score_scale", 1.0)
        combine = self.combine.get(name, lambda own, base, step: scales[0] * own + scales[1] * base)
        combined = np.array([combine(own, base, step) for own, base in zip(scores_in, bases)])
        picked = self._pick(name, seq, step, beam, combined, path)
        found["scores_in"].append(scores_in)
        found["scores_base"].append([[base] for base in bases])
        found["scores_combined"].append(combined)
        found["src_beam_idxs"].append([parent for parent, _, _ in picked])
        found["labels"].append([labels[parent][index][0] for parent, index, _ in picked])
        found["scores"].append([score for _, _, score in picked])
        return [(parent, labels[parent][index], score) for parent, index, score in picked]

    def _log_probs(self, name: str, seq: int, step: int, hyp: Hypothesis) -> tuple[np.ndarray, list[tuple[int, ...]]]:
        """The scores of the continuations, and the labels of each."""
        options = self.body[name]
        own = []
        for source in _list(options["from"]):
            scores = self.value(source, seq, step, hyp)
            kind = options.get("input_type", "prob")
            own.append(
                np.log(np.maximum(scores, 1e-20))
                if kind == "prob"
                else ACTIVATIONS["log_softmax"](scores)
                if kind == "logits"
                else scores
            )
        if len(own) == 1:
            return own[0], [(label,) for label in range(len(own[0]))]
        sizes = options.get("source_beam_sizes") or [options["beam_size"]] * len(own)
        combined, labels = np.zeros(1), [()]
        for scores, size in zip(own, sizes):
            best = np.argsort(-scores, kind="stable")[:size]
            combined = (combined[:, None] + scores[best]).reshape(-1)
            labels = [(*head, int(label)) for head in labels for label in best]
        return combined, labels

    def _pick(
        self, name: str, seq: int, step: int, beam: list[Hypothesis], combined: np.ndarray, path: list[bool] | None
    ) -> list[tuple[int, int, float]]:
        """(parent, continuation, score) of those that go on."""
        options = self.body[name]
        count, num_labels = options["beam_size"], combined.shape[1]
        if options.get("search", True) is False:  # the reference, for every hypothesis
            label = self._reference(name, options["target"], seq, step, num_labels)
            given = [options.get("end_label", 0) if hyp.ended else label for hyp in beam]
            return [(parent, label, combined[parent, label]) for parent, label in enumerate(given)]
        if options.get("keep_beams"):
            own = count // len(beam)
            return [
                (parent, int(label), row[label])
                for parent, row in enumerate(combined)
                for label in np.argsort(-row, kind="stable")[:own]
            ]
        reference = None
        if options.get("cheating"):
            label = self._reference(name, options["target"], seq, step, num_labels)
            last = len(beam) - 1
            if path is not None:
                last = int(np.where(path, combined[:, label], -np.inf).argmax())
            reference = last, label, combined[last, label]
        flat = combined.reshape(-1).copy()
        if reference is not None and options["cheating"] == "exclusive":
            flat[reference[0] * num_labels + reference[1]] = -np.inf
        order = [index for index in np.argsort(-flat, kind="stable")[:count] if flat[index] > -np.inf]
        out = [(int(index) // num_labels, int(index) % num_labels, flat[index]) for index in order]
        out += [(0, 0, -np.inf)] * (count - len(out))
        return out if reference is None else [*out[:-1], reference]

    def _reference(self, name: str, target: Any, seq: int, step: int, num_labels: int) -> int:
        """0 past the end of the target, or an explicit end_label, which only Python code has."""
        (target,) = _list(target)
        length = self.lengths[target][seq]
        past_end = self.body[name].get("end_label", 0)
        return int(np.clip(self.inputs[target][seq][step], 0, num_labels - 1)) if step < length else past_end

    # -- layers --------------------------------------------------------------------------------------------------------------------
    def value(self, name: str, seq: int, step: int, hyp: Hypothesis) -> Any:
        """The value of a layer of the body for one hypothesis."""
        if name.startswith("base:"):
            return self._outside(name.removeprefix("base:"), seq)
        if name == "data:source":
            return self._frame(self.loop["from"], seq, step)
        if name.startswith("prev:"):
            return self._previous(name.removeprefix("prev:"), hyp)
        if name not in hyp.now:
            assert name not in self.choices
            hyp.now[name] = self._layer(
                self.body[name], f"output/rec/{name}", lambda ref: self.value(ref, seq, step, hyp)
            )
        return hyp.now[name]

    def _previous(self, name: str, hyp: Hypothesis) -> Any:
        return hyp.before[name] if name in hyp.before else self._initial(name)

    def _initial(self, name: str) -> Any:
        initial = self.body[name].get("initial_output", 0)
        weights = self.parameters.get(f"output/rec/{name}/W")
        return initial if weights is None else np.full(weights.shape[1], float(initial))

    def _frame(self, name: str, seq: int, step: int) -> Any:
        """One frame, also of the padding: a sequence that is shorter than the loop has a step after its last frame."""
        if name == "data":
            return self.inputs["data"][seq][step]
        return self._layer(self.network[name], name, lambda ref: self._frame(ref, seq, step))

    def _outside(self, name: str, seq: int) -> Any:
        if name.startswith("data"):
            key = name.removeprefix("data:")
            frames = self.inputs[key][seq]
            return frames[: self.lengths[key][seq]] if key in self.lengths else frames
        known = self.outside[seq]
        if name not in known:
            known[name] = self._layer(self.network[name], name, lambda ref: self._outside(ref, seq))
        return known[name]

    def _layer(self, options: Mapping[str, Any], path: str, get: Any) -> Any:
        kind, sources = options["class"], [get(ref) for ref in _list(options.get("from", "data"))]
        if kind in ("linear", "softmax"):
            out, row = 0.0, 0
            weights = self.parameters[f"{path}/W"].astype(np.float64)
            bias = self.parameters.get(f"{path}/b", 0.0)
            for x in sources:  # labels are rows
                is_label = isinstance(x, (int, np.integer))
                size = len(weights) if len(sources) == 1 else None if is_label else np.shape(x)[-1]
                assert size is not None
                out = out + (weights[row + x] if is_label else x @ weights[row : row + size])
                row += size
            activation = "softmax" if kind == "softmax" else options.get("activation")
            return ACTIVATIONS[activation](out + bias)
        if kind == "copy":
            return sources[0]
        if kind == "combine":
            assert options["kind"] == "add"
            return sum(sources)
        if kind == "compare":
            assert options["kind"] == "equal"
            return sources[0] == options["value"]
        assert kind == "reduce" and options["mode"] == "mean"
        return sources[0].mean(0)

    def _choices_in_order(self) -> list[str]:
        def needs(name: str, seen: set[str]) -> set[str]:
            for ref in _list(self.body[name].get("from", [])):
                owner = ref.split("/")[0]
                if owner in self.body and owner not in seen:
                    needs(owner, seen | {name})
                    seen.add(owner)
                    seen |= needs(owner, seen)
            return seen

        names = [name for name, options in self.body.items() if options["class"] == "choice"]
        return sorted(names, key=lambda name: sum(other in needs(name, set()) for other in names))

    # -- what comes out ------------------------------------------------------------------------------------------------------------
    def _results(self, beams: list[list[Hypothesis]], steps: int, sizes: Any) -> dict[str, np.ndarray]:
        scores = np.array([[hyp.score for hyp in beam] for beam in beams])
        lengths = np.array([[hyp.length for hyp in beam] for beam in beams])
        last = self.body[self.choices[-1]]
        if last.get("length_normalization", True):
            scores = scores / (lengths.max() + (0 if self.include_eos else 1))
        flat = [hyp for beam in beams for hyp in beam]
        out = {**self.trace, "beam_scores/output": scores, "out/scores": scores.reshape(-1)}
        names = [name for name, options in self.body.items() if options.get("is_output_layer")]
        names += [f"{name}/out_1" for name in self.choices if len(_list(self.body[name]["from"])) > 1]
        for name in ["output", *names]:
            key = "output" if name == "output" else f"output/{name}"
            out[f"out/{key}"] = np.array([[values[name] for values in hyp.kept] for hyp in flat])
            out[f"out_len/{key}/1"] = lengths.reshape(-1)
        for name, options in self.network.items():
            if options["class"] == "decide":
                by_length = options.get("length_normalization", False)
                best = (scores / lengths if by_length else scores).argmax(1)
                out[f"out/{name}"] = np.array(
                    [[values["output"] for values in beam[k].kept] for beam, k in zip(beams, best)]
                )
                out[f"out_len/{name}/1"] = np.array([beam[k].length for beam, k in zip(beams, best)])
            if options["class"] == "rec_last_output":
                part = options["sub_layer_name"]
                out[f"out/{name}"] = np.array([hyp.lasts[part] if hyp.lasts else self._initial(part) for hyp in flat])
        return out


def _list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]
