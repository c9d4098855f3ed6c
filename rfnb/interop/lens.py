"""logit_lens: the predictions of a model if its last layer had returned the result of an earlier one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch

from rfnb.core.errors import shape_error, value_error
from rfnb.interop.measurement import Measurement
from rfnb.interop.metrics import called, check_model, layers_of, logits_of
from rfnb.interop.seen.replacements import calling
from rfnb.interop.seen.token_labels import Labels
from rfnb.interop.seen.value_edits import swapped
from rfnb.interop.sweep import first_tensor


class Lens(Measurement):
    """The predictions after each layer: the probability of a token, {layer, position} or {sequence, layer, position}.

    Attributes:
        top: int [sequence, layer, position, rank]: the most probable tokens.
        log_probs: float32, shape of `top`: natural-log probabilities of these.
    """

    top: np.ndarray
    log_probs: np.ndarray


def logit_lens(
    model: Any,
    inputs: Any,
    *,
    token: int | None = None,
    layers: Sequence[str] | None = None,
    labels: Any = None,
    tokens: Sequence[Any] | None = None,
    top: int = 5,
) -> Lens:
    """The predictions of a model after each layer: its own final part (norm, projection) applied to the result of that layer.

        lens = rf.logit_lens(gpt, ids, labels=tokenizer)        # print(lens): the most probable token of each; rf.show(lens)

    The final part need not be found: the model runs with its last layer returning the result of an earlier one, without
    recomputing layers. So the row of the last layer is the model's own prediction, for any model made of layers.

    Args:
        model: A torch.nn.Module.
        inputs: A tensor, a tuple of arguments, or a dict of named ones.
        token: The token whose probability is in the map. Default: the model's own prediction at each position.
        layers: Paths of modules in the order in which they run. Default: the longest list of modules of one class.
        labels: Texts of the tokens, as in `rf.record`: a list, a dict or a tokenizer. Default: numbers.
        tokens: Labels of the positions. Default: the texts of the input ids, if there is one per position.
        top: Number of most probable tokens to keep.

    Returns:
        A row for the input of the first layer, and one per layer.

    Raises:
        TypeError, ValueError: If the model cannot be edited, has no such layers or no logits.
        ShapeError: If the layers return states of other sizes.

    Source: nostalgebraist 2020, "interpreting GPT: the logit lens"; here with the model's own final part.
    """
    check_model("logit_lens", model, whole=False)
    paths = layers_of("logit_lens", model, layers)
    given = _Given(len(paths))
    layer_calls = [(model.get_submodule(path), partial(given.call, number)) for number, path in enumerate(paths)]
    with torch.no_grad(), calling(layer_calls):
        scores = [logits_of("logit_lens", called(model, inputs))]
        states = given.states(paths)
        rows = []
        for state in states:
            given.instead = state
            rows.append(logits_of("logit_lens", called(model, inputs)))
    log_probs = torch.stack([row if row.ndim == 3 else row[:, None] for row in rows], 1).float().log_softmax(-1)
    last = (
        log_probs[:, -1].argmax(-1)
        if token is None
        else torch.full_like(log_probs[:, -1, :, 0], token, dtype=torch.long)
    )
    probs = log_probs.gather(-1, last[:, None, :, None].expand(-1, len(rows), -1, 1))[..., 0].exp().cpu().numpy()
    best = log_probs.topk(min(top, log_probs.shape[-1]), -1)
    found = Labels(labels, {}).of([""], log_probs.shape[-1]) if labels is not None else None
    text = (lambda index: str(found[index])) if found is not None else str
    ids = best.indices.cpu().numpy()
    cells = np.vectorize(text, otypes=[object])(ids[..., 0])
    columns = _columns(inputs, probs.shape, text) if tokens is None else tokens
    name = "probability of the final prediction" if token is None else f"probability of {text(token)}"
    single = len(probs) == 1
    over = ("position", columns[0] if single and isinstance(columns[0], list) else columns)
    labels_of_rows = ["input", *paths]
    made = Lens(
        name, probs[0] if single else probs, ("layer", labels_of_rows), over, cells=cells[0] if single else cells
    )
    made.top, made.log_probs = ids, best.values.cpu().numpy()
    gap = (rows[-1].float() - scores[0].float()).abs().max()
    if not bool(gap <= 1e-3 * scores[0].float().abs().max() + 1e-6):
        made.remark = "The last row is not the prediction of the model: it uses more of its layers than their results."
    return made


class _Given:
    """The results of layers, each computed once."""

    def __init__(self, count: int):
        self._results: list[Any] = [None] * count
        self._input: torch.Tensor | None = None
        self.instead: torch.Tensor | None = None

    def states(self, paths: Sequence[str]) -> list[torch.Tensor]:
        """The input of the first layer, and the result of each layer."""
        raws = [self._input, *map(first_tensor, self._results)]
        for path, raw in zip(["the input of the first layer", *paths], raws):
            if raw is None or raws[-1] is None or raw.shape != raws[-1].shape:
                raise shape_error(
                    "logit_lens: these layers do not follow one another.",
                    [
                        (path, None if raw is None else tuple(raw.shape)),
                        (paths[-1], None if raws[-1] is None else tuple(raws[-1].shape)),
                    ],
                    "The result of an earlier layer replaces that of the last one, so all are called once and have one size.",
                    'rf.logit_lens(model, inputs, layers=["h.0", "h.1"])',
                )
        return [raw for raw in raws if raw is not None]

    def call(self, number: int, forward: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> Any:
        """The result of a layer."""
        if self.instead is None:
            if number == 0:
                self._input = first_tensor((*args, *kwargs.values()))
            if self._results[number] is not None:
                raise value_error(
                    "logit_lens: a layer is called more than once.",
                    {"layer": number},
                    "Only its last result would be known. Choose layers that run once:",
                    'rf.logit_lens(model, inputs, layers=["h.0", "h.1"])',
                )
            self._results[number] = forward(*args, **kwargs)
            return self._results[number]
        result = self._results[number]
        raw = first_tensor(result)
        if number < len(self._results) - 1 or raw is None:
            return result
        return swapped(result, raw, self.instead)


def _columns(inputs: Any, shape: tuple[int, ...], text: Callable[[int], str]) -> list[Any]:
    """The texts of the input ids if there is one per position; else numbers."""
    items = inputs.values() if isinstance(inputs, dict) else inputs if isinstance(inputs, tuple) else [inputs]
    for raw in [*items][::-1]:  # those of a decoder come last
        if (
            isinstance(raw, torch.Tensor)
            and tuple(raw.shape) == (shape[0], shape[2])
            and raw.dtype == torch.long
            and bool((raw > 1).any())
        ):
            return [[text(index) for index in row] for row in raw.tolist()]
    return list(range(shape[2]))
