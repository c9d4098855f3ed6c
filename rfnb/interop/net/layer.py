"""Layer: one entry of a network, with its checked options, its parameters, and its computation."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rfnb.backends.registry import selected
from rfnb.core.dim import Dim, single_step_dim
from rfnb.core.errors import dim_error, runtime_error, value_error
from rfnb.core.tensor import Tensor
from rfnb.core.tensor_text import shape_of
from rfnb.interop.net.call_dims import CallDims, frame_dims, is_ragged_like, same_static_dims, time_dim, with_feature
from rfnb.nn.dropout import dropout
from rfnb.nn.module.module import Module
from rfnb.nn.module.parameter import Parameter
from rfnb.ops.concat import concat_features
from rfnb.ops.const import zeros
from rfnb.ops.defaults import get_default_float_dtype
from rfnb.ops.dims import set_sparse_dim
from rfnb.ops.one_hot import one_hot
from rfnb.rec.state import State

if TYPE_CHECKING:
    from rfnb.interop.net.scope import Scope

COMMON = (
    "class", "from", "n_out", "out_dim", "in_dim", "is_output_layer", "need_last", "initial_output", "target", "size_target",
    "dropout", "trainable", "name_scope",
    # options for training, which networks here ignore
    "loss", "loss_scale", "loss_opts", "loss_only_on_non_search", "L2", "darc1", "param_variational_noise", "grad_filter",
    "only_on_eval", "only_on_search", "updater_opts", "gradient_clip", "debug_print_layer_output", "register_as_extern_data",
)  # fmt: skip


class Unknown(Exception):
    """Raised while the dims of a loop body are inferred: a value of the previous step is not known yet."""


class Layer(Module):
    """An entry of a network. A subclass for each class of the notation defines the computation.

    Attributes:
        name, path: The name in its network; the path from the root, for its parameters.
        opts: The given options, with dims as Dim.
        sources: The layers in "from".
        n_out, out_dim: The size and the dim of its features; None to use those of its sources.
    """

    options: tuple[str, ...] = ()  # options that are neither required nor references
    references: tuple[str, ...] = ()  # options that name a layer
    required: tuple[str, ...] = ()  # mandatory options
    needs_source = True
    elementwise = False  # without n_out, the result has the dims of the sources
    framewise = False  # the result has the dims of the sources, with its own features
    own_feature = True  # n_out defines the features
    made_to_infer = False  # a module determines its dims
    neighbours: frozenset[str] = frozenset()  # the names in its network

    def __init__(self, name: str, path: str, opts: Mapping[str, Any]):
        self.name, self.path, self.opts = name, path, dict(opts)
        self.kind = str(opts["class"])
        self._check_options()
        given = opts.get("from", "data" if self.needs_source else [])
        self.sources: list[str] = [given] if isinstance(given, str) else self._as_names(given)
        self.out_dim: Dim | None = opts.get("out_dim")
        self.n_out: int | None = opts.get("n_out")
        if self.out_dim is not None and self.n_out is not None and self.out_dim.size != self.n_out:
            raise value_error(
                f"{self.what}: n_out differs from the size of out_dim.",
                {"n_out": self.n_out, "out_dim": self.out_dim},
                "Both state the number of features.",
            )
        if self.out_dim is None and self.n_out is not None and self.own_feature:
            self.out_dim = Dim(self.n_out, name=f"{name}:feature", kind="feature")
        elif self.out_dim is not None:
            self.n_out = self.out_dim.size
        self.is_made = False
        self.begin()

    def begin(self) -> None:
        """Validate the options; called once they are set."""

    @property
    def what(self) -> str:
        """The text for messages."""
        return f'Layer "{self.path}" of class "{self.kind}"'

    def _check_options(self) -> None:
        own = list(dict.fromkeys((*self.required, *self.options, *self.references)))
        known = (*COMMON, *own)
        unknown = [key for key in self.opts if key not in known]
        if unknown:
            near = [other for key in unknown for other in difflib.get_close_matches(key, known, n=2)]
            rows = [("given", ", ".join(unknown)), ("known", ", ".join(dict.fromkeys((*own, *COMMON[:13]))))]
            raise value_error(
                f"{self.what}: unknown option.",
                rows,
                "The class has these options.",
                f'"{near[0]}": ...' if near else None,
            )

        missing = [key for key in self.required if self.opts.get(key) is None]
        if missing:
            raise value_error(
                f"{self.what}: {' and '.join(missing)} is missing."
                if len(missing) == 1
                else f"{self.what}: options are missing.",
                {"needed": ", ".join(missing), "given": ", ".join(self.opts)},
                "Layers of this class require it.",
                f'"{self.name}": {{..., "{missing[0]}": ...}}',
            )

    def _as_names(self, given: Any) -> list[str]:
        """The sources in "from", unless it is a single name."""
        if isinstance(given, (list, tuple)) and all(isinstance(ref, (str, Tensor)) for ref in given):
            return list(given)
        raise value_error(
            f'{self.what}: "from" is not a layer.',
            {"from": repr(given)},
            '"from" is the name of a layer, or a list of names.',
            f'"{self.name}": {{..., "from": "data"}}',
        )

    def network_of(self, option: str) -> Mapping[str, Any]:
        """The option that describes inner layers.

        Raises:
            ValueError: If it is not a dict.
        """
        found = self.opts[option]
        if not isinstance(found, Mapping):
            raise value_error(
                f"{self.what}: {option} is not a dict of layers.",
                {option: repr(found)},
                "Layers are given as a dict by name.",
                f'"{option}": {{...}}',
            )
        return found

    def refs(self, search: bool) -> list[str]:
        """The names that it reads, unresolved; a layer of a body may read `prev:` values."""
        out = list(self.sources)
        for option in self.references:
            value = self.opts.get(option)
            out += strings(value)
        initial = self.opts.get("initial_output")
        if isinstance(initial, str) and not is_initial_keyword(initial):
            out.append(initial)
        return out

    def reads(self, env: Scope) -> list[str]:
        """The sources from which it computes its value."""
        return self.sources

    # -- computation -----------------------------------------------------------------------------------------------------------
    def compute(self, env: Scope, sources: list[Tensor]) -> Any:
        """Compute the value from those of its sources."""
        raise NotImplementedError

    def __call__(self, *sources: Tensor, env: Scope) -> Any:
        """The value in a scope."""
        self.make_once(env, list(sources))
        return self.compute(env, list(sources))

    def own_dim(self, key: Any, size: int, kind: str | None = None) -> Dim:
        """The dim of this size for `key`, the same in each call."""
        made = self.__dict__.setdefault("_made_dims", {})
        if (key, size) not in made:
            made[key, size] = Dim(size, name=f"{self.name}:{key}", kind=kind)
        return made[key, size]

    def make(self, env: Scope, sources: list[Tensor]) -> None:
        """Create the parameters, which needs the dims of the sources."""

    def make_once(self, env: Scope, sources: list[Tensor]) -> None:
        """Create parameters that do not exist yet."""
        if not self.is_made:
            self.make(env, sources)
            self.is_made = True

    def sub(self, env: Scope, name: str) -> Any:
        """The value of "layer/name", after the layer has run."""
        raise value_error(
            f'{self.what} has no part "{name}".',
            {"asked for": f"{self.name}/{name}"},
            "Only loops and choices have parts.",
        )

    # -- dims, before values are known -----------------------------------------------------------------------------------------
    def template(self, env: Scope) -> Tensor:
        """Zeros with the dims and dtype of the value.

        Raises:
            Unknown: If that depends on a value that is not known yet.
        """
        known: list[Tensor] = []
        missing = False
        for ref in self.sources:
            try:
                known.append(env.get(ref))
            except Unknown:
                missing = True
        return self.partial(env, known) if missing else self.infer(env, known)

    def infer(self, env: Scope, sources: list[Tensor]) -> Tensor:
        """The template from those of all sources. Default: compute with zeros."""
        if self.made_to_infer:
            self.make_once(env, sources)
        with selected().no_grad():
            return self.compute(env, sources)

    def partial(self, env: Scope, known: list[Tensor]) -> Tensor:
        """The template as far as known sources determine it."""
        framewise = self.elementwise or self.framewise
        if (self.elementwise and known) or (framewise and self.out_dim is not None and (known or env.guess)):
            return self._over_sources(env, known)
        if self.elementwise and env.guess and isinstance(self.opts.get("initial_output"), (int, float)):
            return zeros(env.batch_dims(), dtype=get_default_float_dtype())
        raise Unknown(self.path)

    def _over_sources(self, env: Scope, known: list[Tensor], dtype: str | None = None) -> Tensor:
        """Zeros over the dims of the sources, with its own features."""
        features = {x.feature_dim for x in known}
        inner = list(dict.fromkeys(dim for x in known for dim in x.dims if dim not in features))
        if not known:
            inner = list(env.batch_dims())
        feature = self.out_dim
        if feature is None:
            found = [x.feature_dim for x in known if x.feature_dim is not None]
            feature = next((dim for dim in found if dim.size != 1), found[0] if found else None)
        if feature is not None and feature not in inner:
            inner.append(feature)
        if dtype is None:
            dtype = next((x.dtype for x in known if x.sparse_dim is None), get_default_float_dtype())
        return zeros(inner, dtype=dtype, feature_dim=feature)

    # -- loops ---------------------------------------------------------------------------------------------------------------
    def initial_state(self, env: Scope) -> State | None:
        """The state that it carries from step to step inside a loop, or None; the env has templates."""
        return None

    def previous_output(self, env: Scope) -> Tensor | None:
        """The value before the first step for a layer whose state defines it; None to use `initial_output`."""
        return None

    def speaks_for(self, env: Scope) -> tuple[Layer, Scope] | None:
        """The inner layer that defines the value before the first step, and its scope; None if this layer does."""
        return None

    # -- parameters ----------------------------------------------------------------------------------------------------------
    def own_parameters(self) -> dict[str, Parameter]:
        """The parameters by their documented paths."""
        return {f"{self.path}/{name}": value for name, value in vars(self).items() if isinstance(value, Parameter)}

    def sublayers(self) -> Iterable[Layer]:
        return ()

    # -- for subclasses --------------------------------------------------------------------------------------------------------
    def in_dim_of(self, x: Tensor) -> Dim:
        """The dim of the rows of a matrix: the labels of the source, or else its features.

        Raises:
            DimError: If it has neither.
        """
        found = x.sparse_dim if x.sparse_dim is not None else x.feature_dim
        if found is None:
            raise dim_error(
                f"{self.what}: the source has no feature dim.",
                {"source": x},
                "The layer multiplies the features, or labels as one-hot vectors, with its matrix.",
            )
        return found

    def as_made(self, x: Tensor, rows: Dim) -> Tensor:
        """The source with `rows` as its labels or features.

        Raises:
            DimError: If the parameters were made for another number of them.
        """
        given = self.in_dim_of(x)
        if given is rows:
            return x
        if given.size != rows.size:
            what = "labels" if x.sparse_dim is not None else "features"
            raise dim_error(
                f"{self.what}: the number of {what} does not match the parameters.",
                {"source": x, what: given, "made for": rows},
                "The matrix has one row per label, or per feature.",
            )
        return with_feature(x, rows, self.what) if x.sparse_dim is None else set_sparse_dim(x, rows)

    def features_unknown(self, given: Mapping[str, Any], rule: str = "n_out or out_dim determines it.") -> ValueError:
        """The error for a layer whose number of features is not given."""
        return value_error(
            f"{self.what}: the number of features is unknown.",
            {"n_out": self.n_out, **given},
            rule,
            f'"{self.name}": {{..., "n_out": 512}}',
        )

    def outside_of_loop(self, source: Tensor, rule: str) -> RuntimeError:
        """The error for a layer that is used outside of a loop."""
        fix = f'"loop": {{"class": "rec", "unit": {{"{self.name}": ...}}}}'
        return runtime_error(f"{self.what}: this class only works inside a loop.", {"source": source}, rule, fix)

    def concatenated(self, sources: Sequence[Tensor], env: Scope) -> Tensor:
        """The sources concatenated along their features, in order, with the dropout of the layer; a sparse one among several as one-hot."""
        if not sources:
            raise value_error(
                f'{self.what}: "from" is missing.',
                {"from": self.opts.get("from", "nothing")},
                "The layer needs at least one source.",
                f'"{self.name}": {{"class": "{self.kind}", "from": "data", ...}}',
            )
        out = sources[0]
        if len(sources) > 1:
            dense = [one_hot(x) if x.sparse_dim is not None else x for x in sources]
            for ref, x in zip(self.sources, dense, strict=False):
                if x.feature_dim is None:
                    raise value_error(
                        f'{self.what}: "{ref}" has no feature dim.',
                        {"dims": list(x.dims)},
                        "Several sources are concatenated along their features.",
                    )
            dense = same_static_dims(dense, env.dims, self.what)
            _check_times(dense, self, env.dims)
            out = concat_features(*dense, allow_broadcast=True)
            last = [dim for dim in out.dims if not any(dim in x.dims for x in dense)]
            out.feature_dim = last[0] if last else dense[0].feature_dim
        rate = self.opts.get("dropout") or 0.0
        return dropout(out, rate) if rate and not env.dry else out


class LayerOfModule(Layer):
    """A layer implemented by a module; in a loop it may carry the state of the module from step to step."""

    module: Any
    made_to_infer = True

    def own_parameters(self) -> dict[str, Parameter]:
        found = self.module.named_parameters() if self.is_made else ()
        return {f"{self.path}/{self.documented(name)}": value for name, value in found}

    def documented(self, name: str) -> str:
        """The documented name of a parameter of the module."""
        return name

    def axis(self, x: Tensor, env: Scope) -> Dim:
        """The time of the source, or `single_step_dim`."""
        time = time_dim(x, env.dims)
        return single_step_dim if time is None else time

    def batch_dims(self, env: Scope) -> list[Dim]:
        """The dims of a source without its features."""
        return frame_dims(self.concatenated(env.sources(self), env))

    def run(self, env: Scope, axis: Dim, batch: Sequence[Dim], /, *inputs: Any, **options: Any) -> Tensor:
        """The result of the module along `axis`; for a single step, from the state of the previous one."""
        state = env.state(self) if axis is single_step_dim else None
        if axis is single_step_dim and state is None:
            state = self.module.default_initial_state(batch_dims=batch)
        out, new = self.module(*inputs, state=state, **options)
        if axis is single_step_dim:
            env.set_state(self, new or state)
        return out


def _check_times(sources: Sequence[Tensor], layer: Layer, dims: CallDims) -> None:
    """Check that sources have the same time: the dict determines whether two dims are the same, not the lengths in a batch."""
    ragged = [[dim for dim in x.dims if is_ragged_like(dim) or dim in dims.times] for x in sources]
    for place, own in enumerate(ragged):
        for before, others in enumerate(ragged[:place]):
            mine, theirs = ([d for d in a if d not in b] for a, b in ((own, others), (others, own)))
            if mine and theirs:
                rows = [(layer.sources[i], shape_of(sources[i])) for i in (before, place)]
                first, second = (layer.sources[i] for i in (before, place))
                raise dim_error(
                    f"{layer.what}: the sources have different time dims.",
                    rows,
                    "Features are concatenated frame by frame, and different dims mean different frames, even if their lengths are equal. "
                    "If the frames are the same, declare it by a reinterpret_data layer; concat with allow_broadcast pairs all frames.",
                    f'"same": {{"class": "reinterpret_data", "from": "{second}", "size_base": "{first}"}}',
                )


def strings(value: Any) -> list[str]:
    """The texts in a nested value."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, (list, tuple)):
        return [ref for item in value for ref in strings(item)]
    if isinstance(value, Mapping):
        return [ref for item in value.values() for ref in strings(item)]
    return []


_INITIAL = ("zeros", "ones", "var", "apply(0)", "keep_over_epoch", "keep_over_epoch_no_init", "placeholder")


def is_initial_keyword(value: str) -> bool:
    """Whether a text is a kind of initial value rather than a layer."""
    return value in _INITIAL


registry: dict[str, Callable[..., Layer]] = {}


def layer_class(*names: str) -> Callable[[Any], Any]:
    """A decorator: register this Layer for these names of the notation."""

    def register(cls: Any) -> Any:
        for name in names:
            registry[name] = cls
        return cls

    return register


def computes(*names: str, of: type[Layer] = Layer, **facts: Any) -> Callable[[Callable[..., Any]], type[Layer]]:
    """A decorator: register a Layer for these names with these attributes (`options`, ...), whose computation is the function."""

    def register(compute: Callable[..., Any]) -> Any:
        inside = {"compute": compute, "__module__": compute.__module__, **facts}
        return layer_class(*names)(type(compute.__name__, (of,), inside))

    return register


def make_layer(name: str, path: str, opts: Mapping[str, Any]) -> Layer:
    """The layer for an entry.

    Raises:
        ValueError: An unknown class or option; the message lists similar ones.
    """
    kind = opts.get("class") if isinstance(opts, Mapping) else None
    found = registry.get(str(kind))
    if found is None:
        near = difflib.get_close_matches(str(kind), registry, n=4, cutoff=0.5)
        raise value_error(
            f'Layer "{path}": unknown class {kind!r}.',
            {"near": ", ".join(near) or "none", "known": ", ".join(sorted(registry))},
            "A layer is a dict with one of these classes.",
            f'{{"class": "{near[0] if near else "linear"}"}}',
        )
    return found(name, path, opts)


def owner_in(layers: Container[str], ref: str) -> str | None:
    """The layer in a network to which a name refers: for "layer/part" the layer; None if there is none."""
    while ref not in layers:
        ref, slash, _ = ref.rpartition("/")
        if not slash:
            return None
    return ref


class LayerDict(Module):
    """The layers of a network or a loop body, by name."""

    def __init__(self, entries: Mapping[str, Any], prefix: str):
        self.prefix = prefix
        self.by_name: dict[str, Layer] = {}
        for name, opts in entries.items():
            layer = self.by_name[name] = make_layer(name, f"{prefix}{name}", opts)
            setattr(self, name if name.isidentifier() and not hasattr(Module, name) else f"layer_{name}", layer)
        names = frozenset(self.by_name)
        for layer in self.by_name.values():
            layer.neighbours = names
        self.deep: dict[bool, frozenset[str]] = {}  # by search: see needs.deep_layers

    def __contains__(self, name: object) -> bool:
        return name in self.by_name

    def __getitem__(self, name: str) -> Layer:
        return self.by_name[name]

    def all_layers(self) -> Iterable[Layer]:
        """The layers, including inner ones."""
        for layer in self.by_name.values():
            yield layer
            yield from layer.sublayers()
