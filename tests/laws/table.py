"""Every public op that computes on Tensors, with a generator of inputs for the laws.

A new public op gets an entry here: a function of a World that returns (call, inputs). See `laws.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from laws import Case
from world import World

import rfnb as rf
from rfnb import Dim, Tensor

CASES: dict[str, Case] = {}
EXEMPT: dict[str, str] = {}  # public name -> why no law applies to it


def case(*names: str) -> Callable[[Case], Case]:
    """Register a case under the name of its op; further names (after the first) tell several cases of one op apart."""

    def register(fn: Case) -> Case:
        CASES[" ".join(names)] = fn
        return fn

    return register


def exempt(reason: str, names: str) -> None:
    EXEMPT.update(dict.fromkeys(names.split(), reason))


exempt(
    "makes or names dims and tensors, computes nothing on Tensors",
    "Dim Tensor batch_dim dim_match_priority_when_needed ragged_dim single_step_dim constant fill full ones zeros convert_to_tensor",
)
exempt("a type or an error", "DimError ShapeError VerifyOutShapeException RemovableHandle State LstmState")
exempt(
    "chooses a backend",
    "Backend get_backend_by_raw_tensor_type get_backend_by_tensor get_selected_backend is_executing_eagerly"
    " register_backend_by_tensor_type select_backend select_backend_numpy select_backend_torch",
)
exempt(
    "a default, not an op",
    "get_default_array_index_dtype get_default_device get_default_dim_size_device get_default_float_dtype get_default_int_dtype"
    " is_float_dtype set_default_device set_default_device_ctx set_default_float_dtype set_default_float_dtype_ctx",
)
exempt("random: the values differ by design", "random random_normal random_truncated_normal random_uniform")
exempt("the state of the generator", "get_random_state set_random_seed set_random_state")
exempt("initial values of parameters, random", "Glorot He HeNormal HeUniform Normal ParamInit VarianceScaling")
exempt("the run context", "RunCtx get_run_ctx init_forward_step_run_ctx init_train_step_run_ctx")
exempt(
    "holds modules or parameters and computes nothing itself", "Functional Module ModuleList Parameter ParameterList"
)
exempt("records and shows runs, computes nothing", "BeamHistory Trace load_trace probe record save_html show")
exempt("needs a search around it; tests/search/", "choice decide get_beam_scores")
exempt("gradients: torch only", "gradient set_requires_gradient stop_gradient_scope")

# -- elementwise -------------------------------------------------------------------------------------------------------
_DOMAIN = {
    "log": (0.1, 3), "log1p": (-0.9, 3), "sqrt": (0.1, 3), "rsqrt": (0.1, 3), "reciprocal": (0.1, 3), "safe_log": (-1, 3),
}  # fmt: skip
for _name in (
    "neg exp expm1 log log1p sqrt rsqrt square abs tanh sigmoid log_sigmoid sin cos ceil floor round relu elu selu silu swish gelu"
    " reciprocal is_finite is_infinite is_neg_infinite identity relu_square safe_log copy stop_gradient zeros_like ones_like"
    " copy_to_device"
).split():

    @case(_name)
    def _unary(w: World, name: str = _name) -> Any:
        low, high = _DOMAIN.get(name, (-3, 3))
        return getattr(rf, name), [w.floats(*w.dims(), low=low, high=high)]


@case("logical_not")
def _logical_not(w: World) -> Any:
    return rf.logical_not, [w.bools(*w.dims())]


for _name in "neg square abs relu exp sqrt sigmoid".split():

    @case(_name, "of integers")
    def _unary_ints(w: World, name: str = _name) -> Any:
        return getattr(rf, name), [w.ints(*w.dims(), low=0)]


def _pair(w: World) -> tuple[tuple[Dim, ...], tuple[Dim, ...]]:
    """Dims of two operands that go together: one has those of the other, or they share some."""
    dims = w.dims(at_least=1)
    kept = tuple(dim for dim in dims if dim.is_static() or w.rng.random() < 0.5)
    kept = kept if w.rng.random() < 0.5 else dims
    if len(dims) > 1 and w.rng.random() < 0.3:
        return dims, ((*dims[:1], w.heads) if w.heads not in dims else dims)
    return (dims, kept) if w.rng.random() < 0.5 else (kept, dims)


_ARITHMETIC = (
    "add sub mul true_divide floor_divide mod pow maximum minimum squared_difference log_add_exp ceil_divide".split()
)
_COMPARISONS = "equal not_equal less less_equal greater greater_equal".split()
for _name in (*_ARITHMETIC, *_COMPARISONS):

    @case(_name)
    def _binary(w: World, name: str = _name) -> Any:
        dims_a, dims_b = _pair(w)
        return getattr(rf, name), [w.floats(*dims_a, low=0.3), w.floats(*dims_b, low=0.2, high=2.9)]

    @case(_name, "number on the right")
    def _binary_number(w: World, name: str = _name) -> Any:
        return lambda a: getattr(rf, name)(a, 1.7), [w.floats(*w.dims(), low=0.3)]

    @case(_name, "number on the left")
    def _number_binary(w: World, name: str = _name) -> Any:
        return lambda a: getattr(rf, name)(2, a), [w.floats(*w.dims(), low=0.3)]


for _name in "add sub mul true_divide maximum minimum equal less".split():

    @case(_name, "of integers")
    def _binary_ints(w: World, name: str = _name) -> Any:
        dims_a, dims_b = _pair(w)
        return getattr(rf, name), [w.ints(*dims_a), w.ints(*dims_b, low=1)]

    @case(_name, "of integers and floats")
    def _binary_mixed(w: World, name: str = _name) -> Any:
        dims_a, dims_b = _pair(w)
        return getattr(rf, name), [w.ints(*dims_a), w.floats(*dims_b, low=0.3)]


for _name in ("logical_and", "logical_or"):

    @case(_name)
    def _logical(w: World, name: str = _name) -> Any:
        dims_a, dims_b = _pair(w)
        return getattr(rf, name), [w.bools(*dims_a), w.bools(*dims_b)]


for _name, _kinds in (("combine", ["add", "-", "maximum"]), ("compare", ["less", ">="])):

    @case(_name)
    def _combine(w: World, name: str = _name, kinds: list[str] = _kinds) -> Any:
        (dims_a, dims_b), kind = _pair(w), w.rng.choice(kinds)
        return lambda a, b: getattr(rf, name)(a, str(kind), b), [w.floats(*dims_a), w.floats(*dims_b)]

    @case(f"{_name}_bc")
    def _combine_bc(w: World, name: str = f"{_name}_bc", kinds: list[str] = _kinds) -> Any:
        inputs = [w.floats(w.batch, w.time), w.floats(w.batch, w.source, w.feat)]
        kind = w.rng.choice(kinds)
        return lambda a, b: getattr(rf, name)(a, str(kind), b), inputs


@case("where")
def _where(w: World) -> Any:
    dims_a, dims_b = _pair(w)
    return rf.where, [w.bools(*(dims_a if w.rng.random() < 0.5 else dims_b)), w.floats(*dims_a), w.floats(*dims_b)]


@case("where", "numbers")
def _where_numbers(w: World) -> Any:
    dims_a, dims_b = _pair(w)
    if w.rng.random() < 0.5:
        return lambda cond, x: rf.where(cond, x, 0), [w.bools(*dims_a), w.floats(*dims_b)]
    return lambda cond, x: rf.where(cond, -1.5, x), [w.bools(*dims_a), w.floats(*dims_b)]


@case("where", "outer")
def _where_outer(w: World) -> Any:
    return lambda c, a, b: rf.where(c, a, b, allow_broadcast_all_sources=True), [
        w.bools(w.batch),
        w.floats(w.feat),
        w.floats(w.heads),
    ]


@case("clip_by_value")
def _clip(w: World) -> Any:
    dims_a, dims_b = _pair(w)
    if set(dims_b) <= set(dims_a):
        return lambda x, low: rf.clip_by_value(x, low, 2.0), [w.floats(*dims_a), w.floats(*dims_b, high=1.0)]
    return lambda x: rf.clip_by_value(x, -1, 1), [w.floats(*dims_a)]


@case("lerp")
def _lerp(w: World) -> Any:
    dims_a, dims_b = _pair(w)
    return lambda a, b: rf.lerp(a, b, 0.3), [w.floats(*dims_a), w.floats(*dims_b)]


@case("cumsum")
def _cumsum(w: World) -> Any:
    dims = w.dims(at_least=1)
    axis = dims[w.rng.integers(len(dims))]
    over = {other for dim in dims if dim.is_dynamic() for other in dim.length_dims}
    if axis in over:  # along batch, the padding of one sequence is beside the frames of another
        axis, dims = w.time, (w.batch, w.time)
    return lambda x: rf.cumsum(x, spatial_dim=axis), [w.floats(*dims)]


@case("cast")
def _cast(w: World) -> Any:
    dtype = str(w.rng.choice(["float32", "int32", "int64", "float64"]))
    if w.rng.random() < 0.5:
        return lambda x: rf.cast(x, dtype), [w.ints(*w.dims())]
    return lambda x: rf.cast(x, dtype if dtype.startswith("float") else "float16"), [w.floats(*w.dims())]


@case("cast", "keeps the marks")
def _cast_sparse(w: World) -> Any:
    return lambda x: rf.cast(x, "int64"), [w.ints(w.batch, w.time, sparse_dim=w.classes)]


# -- reductions --------------------------------------------------------------------------------------------------------
def _axes(w: World, dims: tuple[Dim, ...], count: int | None = None) -> tuple[Dim, ...]:
    """Some of the dims whose lengths stay defined without the others: a ragged dim goes before those it is over."""
    axes = set(w.shuffled(dims)[: count or w.rng.integers(1, len(dims) + 1)])
    if count is None:
        axes |= {dim for dim in dims if dim.is_dynamic() and axes & set(dim.length_dims)}
        axes |= {dim for dim in dims if dim.is_dynamic() and axes & set(dim.length_dims)}
    elif any(axes & set(dim.length_dims) for dim in dims if dim.is_dynamic()):
        return (w.time,) if w.time in dims and w.char not in dims else (dims[-1],)
    return w.shuffled(axes)


for _name in "sum max min mean logsumexp any all argmax argmin".split():

    @case(f"reduce_{_name}")
    def _reduce(w: World, name: str = _name) -> Any:
        dims = w.dims(at_least=1)
        values = w.bools(*dims) if name in ("any", "all") else w.floats(*dims)
        axis = _axes(w, dims, 1)[0] if name.startswith("arg") else _axes(w, dims)
        if w.rng.random() < 0.5:
            return lambda x: rf.reduce(x, mode=name, axis=axis), [values]
        return lambda x: getattr(rf, f"reduce_{name}")(x, axis=axis), [values]


CASES["reduce"] = CASES["reduce_sum"]
for _name in "sum max min mean".split():

    @case(f"reduce_{_name}", "of integers")
    def _reduce_ints(w: World, name: str = _name) -> Any:
        axis = [w.time, (w.batch, w.time)][w.rng.integers(2)]
        return lambda x: getattr(rf, f"reduce_{name}")(x, axis=axis), [w.ints(w.batch, w.time)]


@case("reduce_mean", "of bools")
def _reduce_mean_bools(w: World) -> Any:
    return lambda x: rf.reduce_mean(x, axis=(w.time, w.batch)), [w.bools(w.batch, w.time)]


@case("top_k")
def _top_k(w: World) -> Any:
    k_dim = Dim(1 + int(w.rng.integers(w.classes.extent)), name="best")
    return lambda x: rf.top_k(x, axis=w.classes, k_dim=k_dim), [w.floats(w.batch, w.time, w.classes)]


@case("top_k", "of several dims, one ragged")
def _top_k_joint(w: World) -> Any:
    k_dim = Dim(1, name="best")

    def call(x: Tensor) -> Any:
        values, indices, dim = rf.top_k(x, axis=[w.time, w.classes], k_dim=k_dim)
        found = rf.reduce_all(rf.is_finite(values), axis=dim)  # an empty sequence has no best frame
        return values, [rf.where(found, index, 0) for index in indices], dim

    inputs = [w.floats(w.batch, w.time, w.classes)]
    if w.time.extent == 0:
        return lambda x: x, inputs
    return call, inputs


# -- softmax, matmul, losses -------------------------------------------------------------------------------------------
for _name in ("softmax", "log_softmax"):

    @case(_name)
    def _softmax(w: World, name: str = _name) -> Any:
        dims = w.dims(at_least=1)
        axis = _axes(w, dims, 1)[0]
        return lambda x: getattr(rf, name)(x, axis=axis), [w.floats(*dims)]


for _name in ("matmul", "dot"):

    @case(_name)
    def _matmul(w: World, name: str = _name) -> Any:
        a, b, reduce = [
            ((w.batch, w.time, w.feat), (w.feat, w.out), w.feat),
            ((w.batch, w.time, w.feat), (w.batch, w.time, w.out), w.time),
            ((w.batch, w.time, w.feat), (w.batch, w.time, w.feat), (w.time, w.feat)),
            ((w.batch, w.heads, w.time, w.feat), (w.batch, w.heads, w.source, w.feat), w.feat),
            ((w.batch, w.time, w.char), (w.batch, w.time, w.char, w.out), w.char),
            ((w.feat,), (w.feat,), w.feat),
            ((w.feat, w.heads, w.out), (w.heads, w.out), (w.out,)),
            ((w.batch, w.time), (w.batch, w.time), (w.batch, w.time)),
        ][w.rng.integers(8)]
        return lambda x, y: getattr(rf, name)(x, y, reduce=reduce), [w.floats(*a), w.floats(*b)]


for _name in ("logits", "log-probs", "probs"):

    def _estimated(x: Tensor, axis: Dim, kind: str = _name) -> Tensor:
        return {
            "logits": lambda: x,
            "log-probs": lambda: rf.log_softmax(x, axis=axis),
            "probs": lambda: rf.softmax(x, axis=axis),
        }[kind]()

    @case("cross_entropy", f"of {_name}")
    def _cross_entropy(w: World, kind: str = _name, estimated: Any = _estimated) -> Any:
        smoothing = float(w.rng.choice([0.0, 0.1]))

        def call(x: Tensor, target: Tensor) -> Tensor:
            return rf.cross_entropy(
                estimated=estimated(x, w.classes),
                target=target,
                axis=w.classes,
                estimated_type=kind,
                label_smoothing=smoothing,
            )

        return call, [w.floats(w.batch, w.time, w.classes), w.ints(w.batch, w.time, sparse_dim=w.classes)]

    @case("cross_entropy", f"of {_name} with dense targets")
    def _cross_entropy_dense(w: World, kind: str = _name, estimated: Any = _estimated) -> Any:
        def call(x: Tensor, target: Tensor) -> Tensor:
            target = rf.softmax(target, axis=w.classes)
            return rf.cross_entropy(
                estimated=estimated(x, w.classes), target=target, axis=w.classes, estimated_type=kind
            )

        return call, [w.floats(w.batch, w.time, w.classes), w.floats(w.batch, w.time, w.classes)]


@case("label_smoothing")
def _label_smoothing(w: World) -> Any:
    classes = Dim(w.classes.extent + 1, name="classes")
    if w.rng.random() < 0.5:
        return lambda x: rf.label_smoothing(x, 0.1), [w.ints(w.batch, w.time, sparse_dim=classes)]
    return lambda x: rf.label_smoothing(x, 0.1, axis=classes), [w.floats(w.batch, w.time, classes, low=0)]


# -- rearranging -------------------------------------------------------------------------------------------------------
@case("merge_dims")
def _merge_dims(w: World) -> Any:
    dims = [[w.heads, w.feat], [w.time, w.feat], [w.feat, w.heads, w.batch]][w.rng.integers(3)]
    inputs = [w.floats(w.batch, w.time, w.heads, w.feat)] if w.time in dims else [w.floats(w.batch, w.heads, w.feat)]
    return lambda x: rf.merge_dims(x, dims=dims), inputs


@case("split_dims")
def _split_dims(w: World) -> Any:
    whole = w.heads * w.feat
    return lambda x: rf.split_dims(x, axis=whole, dims=[w.heads, w.feat]), [w.floats(w.batch, w.time, whole)]


@case("split")
def _split(w: World) -> Any:
    whole = w.heads + w.feat
    return lambda x: rf.split(x, axis=whole, out_dims=[w.heads, w.feat]), [w.floats(w.batch, w.time, whole)]


@case("expand_dim")
def _expand_dim(w: World) -> Any:
    dim = w.heads if w.rng.random() < 0.5 else w.time
    return lambda x: rf.expand_dim(x, dim), [w.floats(w.batch, w.feat)]


@case("expand_dims")
def _expand_dims(w: World) -> Any:
    return lambda x: rf.expand_dims(x, [w.time, w.heads]), [w.floats(w.batch, w.feat)]


@case("squeeze")
def _squeeze(w: World) -> Any:
    one = Dim(1, name="one")
    return lambda x: rf.squeeze(x, one), [w.floats(w.batch, w.time, one)]


@case("concat", "of static dims")
def _concat(w: World) -> Any:
    inputs = [w.floats(w.batch, w.time, w.feat), w.floats(w.batch, w.time, w.heads)]
    return lambda a, b: rf.concat((a, w.feat), (b, w.heads)), inputs


@case("concat", "of ragged dims")
def _concat_ragged(w: World) -> Any:
    inputs = [
        w.floats(w.batch, w.time, w.feat),
        w.floats(w.batch, w.source, w.feat),
        w.floats(w.batch, w.heads, w.feat),
    ]
    order = w.rng.permutation(3)
    axes = [w.time, w.source, w.heads]
    return lambda *xs: rf.concat(*((xs[i], axes[i]) for i in order)), inputs


@case("concat", "with broadcasting")
def _concat_broadcast(w: World) -> Any:
    inputs = [w.floats(w.batch, w.time, w.feat), w.floats(w.batch, w.heads)]
    return lambda a, b: rf.concat((a, w.feat), (b, w.heads), allow_broadcast=True), inputs


@case("concat_features")
def _concat_features(w: World) -> Any:
    def call(a: Tensor, b: Tensor) -> Any:
        a, b = rf.copy(a), rf.copy(b)
        a.feature_dim, b.feature_dim = w.feat, w.heads
        return rf.concat_features(a, b)

    return call, [w.floats(w.batch, w.time, w.feat), w.floats(w.batch, w.time, w.heads)]


@case("stack")
def _stack(w: World) -> Any:
    dims, out_dim = w.dims(), Dim(2, name="stack")
    return lambda a, b: rf.stack([a, b], out_dim=out_dim), [w.floats(*dims), w.floats(*dims)]


@case("unstack")
def _unstack(w: World) -> Any:
    return lambda x: rf.unstack(x, axis=w.heads), [w.floats(w.batch, w.time, w.heads)]


@case("gather")
def _gather(w: World) -> Any:
    source, indices, axis = [
        ((w.classes, w.feat), (w.batch, w.time), w.classes),
        ((w.batch, w.classes, w.feat), (w.batch, w.time), w.classes),
        ((w.batch, w.time, w.classes), (w.batch, w.time, w.heads), w.classes),
        ((w.feat, w.classes), (), w.classes),
        ((w.heads, w.classes, w.feat), (w.out,), w.classes),
        ((w.batch, w.heads, w.classes), (w.batch, w.heads), w.classes),
    ][w.rng.integers(6)]
    if w.rng.random() < 0.2:
        return lambda x: rf.gather(x, indices=-1, axis=axis), [w.floats(*source)]
    return lambda x, ids: rf.gather(x, indices=ids, axis=axis), [w.floats(*source), w.ints(*indices, sparse_dim=axis)]


@case("gather", "of frames")
def _gather_frames(w: World) -> Any:
    x = w.floats(w.batch, w.time, w.feat)
    if (w.time.lengths == 0).any():  # there is no frame to take
        return lambda x: x, [x]
    return lambda x, ids: rf.gather(x, indices=ids, axis=w.time, clip_to_valid=True), [
        x,
        w.ints(w.batch, w.source, low=-2, high=9),
    ]


@case("slice")
def _slice(w: World) -> Any:
    start, end, out_dim = int(w.rng.integers(0, 3)), [None, 2, 3, -1, -2][w.rng.integers(5)], Dim(None, name="cut")
    axis = w.time if w.rng.random() < 0.7 else w.feat
    return lambda x: rf.slice(x, axis=axis, start=start, end=end, out_dim=out_dim), [w.floats(w.batch, w.time, w.feat)]


@case("pad")
def _pad(w: World) -> Any:
    padding = [(int(w.rng.integers(0, 3)), int(w.rng.integers(0, 3))) for _ in range(2)]
    axes = [w.time, w.feat]
    return lambda x: rf.pad(x, axes=axes, padding=padding, value=7.0), [w.floats(w.batch, w.time, w.feat)]


for _name in ("shift_right", "shift_left"):

    @case(_name)
    def _shift(w: World, name: str = _name) -> Any:
        axis, amount = (w.time if w.rng.random() < 0.7 else w.feat), int(w.rng.integers(0, 4))
        return lambda x: getattr(rf, name)(x, axis=axis, pad_value=9, amount=amount), [
            w.floats(w.batch, w.time, w.feat)
        ]


@case("reverse_sequence")
def _reverse_sequence(w: World) -> Any:
    axis = [w.time, w.feat, w.char][w.rng.integers(3)]
    dims = (w.batch, w.time, w.feat) if axis is w.time else (w.batch, w.time, w.char, w.feat)
    return lambda x: rf.reverse_sequence(x, axis=axis), [w.floats(*dims)]


@case("one_hot")
def _one_hot(w: World) -> Any:
    return rf.one_hot, [w.ints(w.batch, w.time, sparse_dim=w.classes)]


@case("sparse_to_dense")
def _sparse_to_dense(w: World) -> Any:
    return lambda x: rf.sparse_to_dense(x, label_value=0.9, other_value=-1.0), [
        w.ints(w.batch, w.time, sparse_dim=w.classes)
    ]


@case("masked_select", "all dims of the mask")
def _masked_select(w: World) -> Any:
    out_dim = Dim(None, name="selected")
    return lambda x, mask: rf.masked_select(x, mask=mask, dims=[w.batch, w.time], out_dim=out_dim), [
        w.floats(w.batch, w.time, w.feat),
        w.bools(w.batch, w.time),
    ]


@case("masked_select", "of frames")
def _masked_select_frames(w: World) -> Any:
    out_dim = Dim(None, name="selected")
    return lambda x, mask: rf.masked_select(x, mask=mask, dims=[w.time], out_dim=out_dim), [
        w.floats(w.batch, w.time, w.feat),
        w.bools(w.batch, w.time),
    ]


@case("masked_scatter")
def _masked_scatter(w: World) -> Any:
    dims = [w.time] if w.rng.random() < 0.5 else [w.batch, w.time]
    mask = w.bools(w.batch, w.time)
    packed, in_dim = rf.masked_select(w.floats(w.batch, w.time, w.feat), mask=mask, dims=dims)
    packed = packed.copy_masked(0)

    def call(x: Tensor, mask: Tensor, backup: Tensor) -> Any:
        return rf.masked_scatter(x, backup, mask=mask, dims=dims, in_dim=in_dim)

    return call, [packed, mask, w.floats(w.batch, w.feat)]


for _name in ("pack_padded", "pad_packed"):

    @case(_name)
    def _pack(w: World, name: str = _name) -> Any:
        dims = w.shuffled((w.batch, w.time)) if w.rng.random() < 0.7 else (w.batch, w.time, w.char)
        out_dim, x = Dim(None, name="packed"), w.floats(*dims, w.feat)
        if name == "pack_padded":
            return lambda x: rf.pack_padded(x, dims=dims, out_dim=out_dim), [x]
        packed, in_dim = rf.pack_padded(x, dims=dims)
        return lambda x: rf.pad_packed(x, in_dim=in_dim, dims=dims), [packed]


def _scatter_inputs(w: World) -> tuple[list[Tensor], Any]:
    source, indices, dim = [
        ((w.batch, w.time, w.feat), (w.batch, w.time), w.time),
        ((w.batch, w.time, w.feat), (w.batch, w.time), (w.batch, w.time)),
        ((w.batch, w.time, w.heads), (w.batch, w.time, w.heads), w.heads),
        ((w.heads, w.feat), (w.heads,), w.heads),
        ((w.feat,), (w.batch, w.time), w.time),
        ((w.batch, w.time), (w.time,), w.time),
    ][w.rng.integers(6)]
    ids = w.ints(*indices, sparse_dim=w.classes)
    return [w.floats(*source), ids], dim


for _name in "sum max min mean logsumexp logmeanexp argmax".split():

    @case("scatter", f"mode {_name}")
    def _scatter(w: World, mode: str = _name) -> Any:
        inputs, dim = _scatter_inputs(w)
        if mode == "argmax" and not isinstance(dim, Dim):
            dim = w.time
        fill = [None, 3][w.rng.integers(2)]
        return (
            lambda x, ids: rf.scatter(x, indices=ids, indices_dim=dim, mode=mode, fill_value=fill),
            inputs,
        )


for _name in "mean argmax logsumexp logmeanexp".split():

    @case(f"scatter_{_name}")
    def _scatter_mode(w: World, name: str = _name) -> Any:
        inputs = [w.floats(w.batch, w.time, w.feat), w.ints(w.batch, w.time, sparse_dim=w.classes)]
        return lambda x, ids: getattr(rf, f"scatter_{name}")(x, indices=ids, indices_dim=w.time), inputs


@case("scatter_count")
def _scatter_count(w: World) -> Any:
    dim = w.time if w.rng.random() < 0.5 else (w.batch, w.time)
    return lambda ids: rf.scatter_count(indices=ids, indices_dim=dim), [w.ints(w.batch, w.time, sparse_dim=w.classes)]


@case("sort")
def _sort(w: World) -> Any:
    axis, descending = w.shuffled((w.heads, w.feat))[0], bool(w.rng.random() < 0.5)
    new = Dim(axis.extent, name="in order")

    def call(x: Tensor) -> Any:
        values, indices, dim = rf.sort(x, axis=axis, descending=descending)
        return [rf.replace_dim(y, in_dim=dim, out_dim=new) for y in (values, indices)]

    return call, [w.floats(w.batch, w.time, w.heads, w.feat)]


@case("search_sorted")
def _search_sorted(w: World) -> Any:
    dims = [(w.feat,), (w.batch, w.feat), (w.heads, w.feat)][w.rng.integers(3)]
    rows = w.floats(*dims).numpy()
    rows.sort(-1)
    side = str(w.rng.choice(["left", "right"]))
    return lambda seq, x: rf.search_sorted(seq, x, axis=w.feat, side=side), [
        rf.convert_to_tensor(rows, dims=dims),
        w.floats(w.batch, w.time),
    ]


@case("top_k_mask")
def _top_k_mask(w: World) -> Any:
    axis, k = (w.classes if w.rng.random() < 0.5 else w.time), int(w.rng.integers(1, 4))
    return lambda x: rf.top_k_mask(x, axis=axis, k=k), [w.floats(w.batch, w.time, w.classes)]


@case("top_p_mask")
def _top_p_mask(w: World) -> Any:
    axis, one_more = (w.classes if w.rng.random() < 0.5 else w.time), bool(w.rng.random() < 0.5)

    def call(x: Tensor) -> Any:
        return rf.top_p_mask(rf.softmax(x, axis=axis), axis=axis, p=0.61, one_more=one_more)

    return call, [w.floats(w.batch, w.time, w.classes)]


@case("reshape")
def _reshape(w: World) -> Any:
    in_dims, out_dims = [
        ([w.heads, w.feat], [w.heads * w.feat]),
        ([w.heads, w.feat], [Dim(w.feat.extent, name="a"), Dim(w.heads.extent, name="b")]),
        ([w.feat], [w.feat * Dim(1, name="one")]),
    ][w.rng.integers(3)]
    return lambda x: rf.reshape(x, in_dims, out_dims), [w.floats(w.batch, w.time, w.heads, w.feat)]


@case("window")
def _window(w: World) -> Any:
    width, stride = Dim(int(w.rng.integers(1, 5)), name="window"), int(w.rng.integers(1, 3))
    padding, axis = str(w.rng.choice(["same", "valid"])), w.shuffled((w.time, w.feat))[0]
    return lambda x: rf.window(x, spatial_dim=axis, window_dim=width, padding=padding, stride=stride, pad_value=-7), [
        w.floats(w.batch, w.time, w.feat)
    ]


@case("repeat")
def _repeat(w: World) -> Any:
    out_dim, x = Dim(None, name="repeated"), w.floats(w.batch, w.time, w.feat)
    if w.rng.random() < 0.3:
        return lambda x: rf.repeat(x, in_spatial_dim=w.time, repeats=2, out_spatial_dim=out_dim), [x]
    dims = (w.batch, w.time) if w.rng.random() < 0.7 else (w.time,)
    return lambda x, n: rf.repeat(x, in_spatial_dim=w.time, repeats=n, out_spatial_dim=out_dim), [
        x,
        w.ints(*dims, low=0, high=4),
    ]


@case("expand_make_non_empty")
def _expand_make_non_empty(w: World) -> Any:
    axis, out_dim = (w.time, None) if w.time.extent else (w.time, Dim(1, name="one"))
    axis, out_dim = (axis, out_dim) if w.rng.random() < 0.6 else (Dim(0, name="empty"), Dim(1, name="one"))
    return lambda x: rf.expand_make_non_empty(x, axis=axis, out_dim=out_dim), [w.floats(w.batch, axis, w.feat)]


@case("cum_concat_step")
def _cum_concat_step(w: World) -> Any:
    axis = w.shuffled((w.time, w.heads))[0]
    return lambda x, before: rf.cum_concat_step(x, prev_accum=before, axis=axis), [
        w.floats(w.batch, w.feat),
        w.floats(w.batch, axis, w.feat),
    ]


# -- dims --------------------------------------------------------------------------------------------------------------
@case("replace_dim")
def _replace_dim(w: World) -> Any:
    new = Dim(w.feat.extent, name="new")
    return lambda x: rf.replace_dim(x, in_dim=w.feat, out_dim=new), [w.floats(w.batch, w.time, w.feat)]


@case("set_sparse_dim")
def _set_sparse_dim(w: World) -> Any:
    return lambda x: rf.set_sparse_dim(x, w.classes), [w.ints(w.batch, w.time, low=0, high=1)]


@case("range_over_dim")
def _range_over_dim(w: World) -> Any:
    return lambda x: x * rf.range_over_dim(w.time), [w.floats(w.batch, w.time)]


@case("sequence_mask")
def _sequence_mask(w: World) -> Any:
    dims = w.shuffled((w.batch, w.time, w.source, w.char))
    return lambda: (rf.sequence_mask(dims), rf.sequence_mask(w.time), rf.sequence_mask([w.feat])), []


@case("last_frame_position_of_dim")
def _last_frame(w: World) -> Any:
    x = w.floats(w.batch, w.time, w.char, w.feat)
    if w.char.extent == 0:  # there is no last frame
        return lambda x: x, [x]

    def call(x: Tensor) -> Tensor:
        last = rf.gather(x, indices=rf.last_frame_position_of_dim(w.char))
        return rf.where(w.char.dyn_size_ext > 0, last, 0)  # what is empty has no last frame either

    return call, [x]


@case("num_elements_of_shape")
def _num_elements(w: World) -> Any:
    dims = w.shuffled((w.batch, w.time, w.char, w.feat))
    return lambda: (rf.num_elements_of_shape(dims), rf.num_elements_of_shape(dims, use_mask=False)), []


@case("range_over_dim_strided")
def _range_strided(w: World) -> Any:
    axis, stride = w.shuffled((w.time, w.feat))[0], int(w.rng.integers(1, 4))
    return lambda: rf.range_over_dim_strided(axis, stride=stride), []


@case("range_over_merged_dims")
def _range_merged(w: World) -> Any:
    dims = w.shuffled((w.batch, w.time, w.feat))[: w.rng.integers(1, 4)]
    return lambda: rf.range_over_merged_dims(dims), []


@case("linspace_over_dim")
def _linspace(w: World) -> Any:
    axis = w.time if w.rng.random() < 0.6 else w.feat
    return lambda x: (rf.linspace_over_dim(axis, -1.0, 2.0), rf.linspace_over_dim(axis, x, 4.0)), [w.floats(w.batch)]


@case("replace_dim_v2")
def _replace_dim_v2(w: World) -> Any:
    axes = (w.time, w.source, w.heads, w.feat)
    in_dim, out_dim = w.shuffled(axes)[:2]
    return lambda x: rf.replace_dim_v2(x, in_dim=in_dim, out_dim=out_dim), [w.floats(w.batch, in_dim, w.classes)]


@case("masked_fraction_of_shape")
def _masked_fraction(w: World) -> Any:
    dims = w.shuffled((w.batch, w.time, w.char, w.feat))
    return lambda: (rf.masked_fraction_of_shape(dims), rf.masked_fraction_of_shape(dims, inverse=True)), []


@case("gating")
def _gating(w: World) -> Any:
    wide = 2 * w.feat
    return lambda x: rf.gating(x, axis=wide, act_func=rf.tanh), [w.floats(w.batch, w.time, wide)]


for _name in ("opt_logical_and", "opt_logical_or"):

    @case(_name)
    def _opt_logical(w: World, name: str = _name) -> Any:
        op, flag = getattr(rf, name), bool(w.rng.random() < 0.5)
        return lambda a, b: (op(a, b), op(a, flag), op(flag, b)), [w.bools(w.batch, w.time), w.bools(w.time)]


@case("reduce_logmeanexp")
def _reduce_logmeanexp(w: World) -> Any:
    dims = w.dims(at_least=1)
    axis = _axes(w, dims)
    return lambda x: rf.reduce_logmeanexp(x, axis=axis), [w.floats(*dims)]


@case("reduce_out")
def _reduce_out(w: World) -> Any:
    wide, mode = w.feat * w.heads, str(w.rng.choice(["max", "mean"]))

    def call(x: Tensor) -> Any:
        x = rf.copy(x)
        x.feature_dim = wide
        return rf.reduce_out(x, mode=mode, num_pieces=w.heads.extent, out_dim=w.feat)

    return call, [w.floats(w.batch, w.time, wide)]


@case("smooth_one_hot")
def _smooth_one_hot(w: World) -> Any:
    return lambda x: rf.smooth_one_hot(x, label_prob=0.8), [w.ints(w.batch, w.time, sparse_dim=w.classes)]


# -- modules -----------------------------------------------------------------------------------------------------------
@case("Linear")
def _linear(w: World) -> Any:
    out_dim = w.feat if w.rng.random() < 0.3 else w.out

    def call(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        linear = rf.Linear(w.feat, out_dim)
        linear.weight.assign(weight)
        linear.bias.assign(bias)
        return linear(x)

    in_dim = w.feat.copy(match_priority=1) if out_dim is w.feat else w.feat
    return call, [w.floats(*w.sets[w.rng.choice([0, 2, 5, 6])]), w.floats(in_dim, out_dim), w.floats(out_dim)]


@case("Embedding")
def _embedding(w: World) -> Any:
    def call(ids: Tensor, weight: Tensor) -> Tensor:
        embedding = rf.Embedding(w.classes, w.out)
        embedding.weight.assign(weight)
        return embedding(ids)

    return call, [w.ints(*w.dims(), sparse_dim=w.classes), w.floats(w.classes, w.out)]


for _name in ("over time", "one step"):

    @case("LSTM", _name)
    def _lstm(w: World, single: bool = _name == "one step") -> Any:
        gates = 4 * w.out

        def call(x: Tensor, h: Tensor, c: Tensor, ff: Tensor, rec: Tensor, bias: Tensor) -> Any:
            lstm = rf.LSTM(w.feat, w.out)
            for param, value in ((lstm.ff_weight, ff), (lstm.rec_weight, rec), (lstm.bias, bias)):
                param.assign(value)
            axis = rf.single_step_dim if single else w.time
            y, state = lstm(x, state=rf.LstmState(h=h, c=c), spatial_dim=axis)
            return y, state.h, state.c

        batch = (w.batch, w.heads) if w.rng.random() < 0.4 else (w.batch,)
        x = w.floats(*batch, w.feat) if single else w.floats(*batch, w.time, w.feat)
        state = (w.batch, w.out) if w.rng.random() < 0.5 else (*batch, w.out)
        return call, [
            x,
            w.floats(*state),
            w.floats(*state),
            w.floats(gates, w.feat),
            w.floats(gates, w.out),
            w.floats(gates),
        ]


@case("dot_attention")
def _dot_attention(w: World) -> Any:
    query = [(w.batch, w.feat), (w.batch, w.time, w.feat), (w.batch, w.heads, w.source, w.feat)][w.rng.integers(3)]
    axis = w.source  # the third query is self-attention

    def call(query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        return rf.dot_attention(query, keys, values, key_dim=w.feat, axis=axis)

    return call, [w.floats(*query), w.floats(w.batch, w.source, w.feat), w.floats(w.batch, w.source, w.out)]


@case("additive_attention")
def _additive_attention(w: World) -> Any:
    def call(query: Tensor, keys: Tensor, values: Tensor, weight: Tensor) -> Tensor:
        return rf.additive_attention(query, keys, values, energy_weight=weight, key_dim=w.feat, axis=w.source)

    query = (w.batch, w.feat) if w.rng.random() < 0.5 else (w.batch, w.heads, w.feat)
    return call, [
        w.floats(*query),
        w.floats(w.batch, w.source, w.feat),
        w.floats(w.batch, w.source, w.out),
        w.floats(w.feat),
    ]


@case("dropout")
def _dropout(w: World) -> Any:  # outside of training; what it does in training is random
    return lambda x: rf.dropout(x, 0.5), [w.floats(*w.dims())]


for _name in ("sequential", "Sequential"):

    @case(_name)
    def _sequential(w: World, name: str = _name) -> Any:
        return (
            lambda x: (
                getattr(rf, name)(rf.relu, rf.exp)(x) if name == "Sequential" else rf.sequential(x, rf.relu, rf.exp)
            ),
            [w.floats(*w.dims())],
        )


# -- loops -------------------------------------------------------------------------------------------------------------
@case("gather_nested")
def _gather_nested(w: World) -> Any:
    def call(x: Tensor, y: Tensor, indices: Tensor) -> Any:
        return rf.gather_nested({"x": x, "deep": [y]}, indices=indices)

    inputs = [w.floats(w.batch, w.heads, w.feat), w.floats(w.batch, w.feat), w.ints(w.batch, w.out, sparse_dim=w.heads)]
    return call, inputs


@case("where_nested")
def _where_nested(w: World) -> Any:
    def call(cond: Tensor, a: Tensor, b: Tensor) -> Any:
        return rf.where_nested({"x": a, "y": a}, {"x": b, "y": a}, condition=cond)

    return call, [w.bools(w.batch), w.floats(w.batch, w.time, w.feat), w.floats(w.batch, w.time, w.feat)]


@case("masked_select_nested")
def _masked_select_nested(w: World) -> Any:
    out_dim = Dim(None, name="packed")

    def call(mask: Tensor, a: Tensor, b: Tensor) -> Any:
        state, dim, _ = rf.masked_select_nested({"x": a, "y": [b]}, mask=mask, dims=[w.batch], out_dim=out_dim)
        return state, dim

    return call, [w.bools(w.batch), w.floats(w.batch, w.feat), w.floats(w.feat)]


@case("masked_scatter_nested")
def _masked_scatter_nested(w: World) -> Any:
    def call(mask: Tensor, a: Tensor, b: Tensor) -> Any:
        state, dim, dims = rf.masked_select_nested([a, b], mask=mask, dims=[w.batch])
        state = [state[0] * 2, state[1] + 1]
        return rf.masked_scatter_nested(
            state, [a, b], mask=mask, dims=[w.batch], in_dim=dim, masked_select_dim_map=dims
        )

    return call, [w.bools(w.batch), w.floats(w.batch, w.time, w.feat), w.floats(w.batch, w.feat)]


@case("mask_nested")
def _mask_nested(w: World) -> Any:
    def call(mask: Tensor, a: Tensor, b: Tensor) -> Any:
        return rf.mask_nested({"x": a, "y": [b]}, mask=mask, mask_value=-1.0)

    return call, [w.bools(w.batch), w.floats(w.batch, w.time, w.feat), w.floats(w.feat)]


@case("cond")
def _cond(w: World) -> Any:
    return lambda flag, x: rf.cond(flag, lambda: x + 1, lambda: x - 1), [w.bools(), w.floats(*w.dims())]


@case("while_loop")
def _while_loop(w: World) -> Any:
    def call(x: Tensor) -> Any:
        def body(state: Any) -> Any:
            return {"i": state["i"] + 1, "x": rf.tanh(state["x"]) + state["i"]}

        return rf.while_loop(lambda state: state["i"] < 3, body, {"i": 0, "x": x})

    return call, [w.floats(*w.dims())]


@case("scan", "over a ragged dim")
def _scan(w: World) -> Any:
    def call(x: Tensor, start: Tensor) -> Any:
        def body(frame: Tensor, h: Tensor) -> Any:
            h = rf.tanh(frame + h)
            return h * 2, h

        return rf.scan(spatial_dim=w.time, xs=x, initial=start, ys=start, body=body)

    return call, [w.floats(w.batch, w.time, w.feat), w.floats(w.batch, w.feat)]


@case("scan", "until a condition")
def _scan_cond(w: World) -> Any:
    before = bool(w.rng.random() < 0.5)

    def call(limit: Tensor, start: Tensor) -> Any:
        outputs, state, dim = rf.scan(
            cond=lambda _, state: state["i"] < limit,
            cond_dims=[w.batch],
            cond_before_body=before,
            initial={"i": rf.zeros([w.batch], dtype="int32"), "h": start},
            ys=start,
            max_seq_len=4,
            body=lambda _, state: (state["h"], {"i": state["i"] + 1, "h": state["h"] * 0.5}),
        )
        return rf.reduce_sum(outputs, axis=dim), state["h"], dim.dyn_size_ext

    return call, [w.ints(w.batch, low=0, high=6), w.floats(w.batch, w.feat)]


@case("Loop")
def _loop(w: World) -> Any:
    def call(x: Tensor, start: Tensor) -> Any:
        loop = rf.Loop(axis=w.time)
        loop.state.h = start
        for _ in loop:
            loop.state.h = rf.tanh(loop.unstack(x) + loop.state.h)
            out = loop.stack(loop.state.h)
        return out, loop.state.h

    inputs = [w.floats(w.batch, w.time, w.feat), w.floats(w.batch, w.feat)]
    if w.time.extent == 0:
        return lambda x, start: start, inputs
    return call, inputs
