"""Which functions are ops: everything in `ops/` that a body may call, and what in other rooms looks into a Tensor."""

import ast
import functools
import importlib
import inspect
import pathlib
import pkgutil
import types

from asserting import raises_message

import rfnb as rf
import rfnb.ops
from rfnb.core.op import all_ops, op, op_of

PACKAGE = pathlib.Path(rf.__file__).parent
# Public functions of files in `ops/` that are no ops.
EXEMPT = {
    "inside of ops only": """conv_dims.check_window conv_dims.make_windows conv_dims.per_dim conv_dims.settle_out_dims
        conv_filter.apply_filter conv_filter.check_bias conv_filter.filter_order conv_filter.hashable conv_layout.check_spatial
        conv_layout.from_kernel conv_layout.to_kernel index_range.check_integers index_range.check_not_negative
        index_range.check_range index_range.explain_indices index_range.mended index_range.on_host loss.warn_below_zero
        mel.mel_matrix operands.as_tensor operands.check_devices operands.check_dtypes operands.check_number operands.common_backend
        operands.need_tensors operands.need_values out_dim.check_movable
        out_dim.check_size out_dim.define_size out_dim.dim_and_lengths out_dim.settle_size random_state.generator_for
        random_state.update_state reduce.refuse_distributed sequence_pairs.common_batch sequence_pairs.flat_batch
        sequence_pairs.flat_lengths sequence_pairs.volume transposed_conv.make_expansions""",
    "look at dims and dtypes only": "ctc.blank_of conv_filter.filter_in_dim defaults.has_fractions defaults.is_float_dtype",
    "bound once, when the package is loaded": "operators.bind",
    "about a word, and no tensor": "math.kind_of",
    "what is current: settings, and scopes of them": """amp.get_amp_policy amp.set_amp_policy amp.set_amp_policy_ctx
        defaults.device_of_new defaults.get_default_array_index_dtype defaults.get_default_device defaults.get_default_dim_size_device
        defaults.get_default_float_dtype defaults.get_default_int_dtype defaults.set_default_device
        defaults.set_default_device_ctx defaults.set_default_float_dtype defaults.set_default_float_dtype_ctx
        dims.use_mask_default gradient.gradient_checkpoint_scope gradient.stop_gradient_scope amp.in_float32
        random_state.get_random_state random_state.own_step_seeds random_state.put_back""",
}
# Functions of layers that look into a Tensor and are no ops.
INSIDE = {
    "inside of ops only": "appended _apart _KernelCall.run",
    "for pickles of earlier versions": "_TransposedConv.__setstate__",
    "for models of n-grams, which look things up on the host": "flat_on_host",
    "for `rf.beam_search`, whose steps get and give raw arrays": "NGramLM.step",
    "for the outputs of a run context, which gets raw arrays": "of_raw check_lengths",
    "for optimizers and users of parameters": "warn_of_lost_parts _Parameters.__iter__"
    " Parameter.trainable Parameter.requires_grad Parameter.grad",
}


def functions_of(module):
    """Its public functions, by name; what is imported from elsewhere is not its own."""
    return {
        name: inspect.unwrap(value)
        for name, value in vars(module).items()
        if not name.startswith("_") and isinstance(value, types.FunctionType) and value.__module__ == module.__name__
    }


def not_declared(modules):
    """`file.function` of the public functions of `ops/` that are no ops."""
    return {
        f"{module.__name__.rpartition('.')[2]}.{name}"
        for module in modules
        for name, fn in functions_of(module).items()
        if op_of(fn) is None
    }


def looks_inside(source):
    """Names of the functions and methods in a file that read the raw array of something, and are not declared as ops."""
    found = []

    def visit(node, scope):
        for child in ast.iter_child_nodes(node):
            inner = scope
            if isinstance(child, ast.FunctionDef | ast.ClassDef):
                inner = f"{scope}.{child.name}".removeprefix(".")
            if isinstance(child, ast.FunctionDef):
                decorators = {ast.unparse(each).partition("(")[0] for each in child.decorator_list}
                body = [each for line in child.body for each in ast.walk(line)]
                if "op" in decorators:
                    continue
                if any(isinstance(each, ast.Attribute) and each.attr in ("_raw", "raw_tensor") for each in body):
                    found.append(inner)
                    continue
            visit(child, inner)

    visit(ast.parse(source), "")
    return found


def names_in(reasons):
    return {name for names in reasons.values() for name in names.split()}


def test_every_public_function_of_ops_is_an_op_or_exempt_with_a_reason():
    modules = [importlib.import_module(f"rfnb.ops.{each.name}") for each in pkgutil.iter_modules(rfnb.ops.__path__)]
    assert not_declared(modules) == names_in(EXEMPT)


def test_what_looks_into_a_tensor_in_a_layer_is_an_op_or_exempt_with_a_reason():
    rooms = [path for room in ("nn", "lm") for path in PACKAGE.glob(f"{room}/**/*.py")]
    assert {name for path in rooms for name in looks_inside(path.read_text())} == names_in(INSIDE)


def test_copies_of_tensors_are_ops():
    methods = {name: value for scope in rf.Tensor.__mro__ for name, value in vars(scope).items()}
    copies = {
        name for name, value in methods.items() if name.startswith("copy") and isinstance(value, types.FunctionType)
    }
    copies = {name for name in copies if "template" not in name and not name.endswith("raw")}
    assert {name for name in copies if op_of(methods[name]) is None} == set()
    assert {"copy", "copy_transpose", "copy_masked", "copy_as_batch_major"} <= copies


SOURCE = """
def forgotten(x):
    return x.raw_tensor

class Layer:
    def also_forgotten(self, x):
        return [part._raw for part in x]

    @op(draws=True)
    def noted(self, x):
        return x._raw

    def plain(self, x):
        return x.dims
"""


def test_a_new_op_that_everybody_has_forgotten_is_found():
    assert looks_inside(SOURCE) == ["forgotten", "Layer.also_forgotten"]
    module = types.ModuleType("rfnb.ops.new")
    exec(compile(SOURCE.replace("@op(draws=True)", ""), "new.py", "exec"), vars(module))
    assert not_declared([module]) == {"new.forgotten"}


def private_parts(name):
    return [part for part in name.split(".") if part.startswith("_") and not part.startswith("__")]


def test_the_name_of_an_op_in_messages_and_plans_is_no_private_one():
    """A method `__call__` has the name of the class that it is called on."""
    names = [one.name for one in all_ops() if one.fn.__name__ != "__call__"]
    assert [name for name in names if private_parts(name)] == []
    assert private_parts("LSTM._step") and private_parts("_where") and not private_parts("Dim.__add__")


def test_a_plan_says_which_module_an_op_is_of():
    batch, units, time = rf.Dim(2, name="batch"), rf.Dim(3, name="units"), rf.Dim(4, name="time")
    linear, norm = rf.Linear(units, units), rf.LayerNorm(units)
    loop = rf.Loop(axis=time)
    loop.state.h = rf.zeros([batch, units])
    with loop:
        loop.state.h = norm(linear(loop.state.h))
    assert [node.name for node in loop.plan.inside] == ["Linear", "linear", "LayerNorm"]


def test_an_op_is_the_function_itself():
    def double(x):
        return x + x

    assert op(double) is double and op_of(double).fn is double
    assert op(draws=True)(double) is double and op_of(double).draws
    assert op_of(len) is None and op_of(rf.Tensor) is None
    lstm = inspect.unwrap(rf.LSTM.__call__)  # loads it
    assert [each.name for each in all_ops() if each.fn in (rf.tanh, lstm)] == ["tanh", "LSTM"]


def test_an_op_is_a_function_that_def_has_made():
    with raises_message(
        TypeError,
        """
        op: this is no function that `def` has made.
          got  a partial
        Calls of an op are seen wherever it is referred to, which Python allows for such functions only.
        Below other decorators, directly above the `def`:
            @op
        """,
    ):
        op(functools.partial(print))
