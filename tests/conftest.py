"""Fixtures of all tests."""

import functools
import gc
import importlib
import os
import random
import signal
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, settings
from seed import SEED
from warm import IN_LESSONS, warm_kernels

# Without limits of time: no test may depend on how fast or busy the machine is.
NO_CLOCK = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("same examples in each run", derandomize=not SEED, database=None, **NO_CLOCK)
settings.load_profile("same examples in each run")

# nbformat asks jsonschema for it, which goes without; its grammar is made in more than a second.
sys.modules.setdefault("rfc3987_syntax", None)

# A test makes thousands of small objects and hardly a cycle: by Python's own threshold of 700 a thirtieth of the time is garbage.
gc.set_threshold(20_000, 20, 20)

if "RFNB_TEST_DEVICE" in os.environ:
    sys.modules["simulated"] = importlib.import_module("real_device")


@pytest.fixture(autouse=True, scope="module")
def garbage_of_its_own():
    """Freeze the objects that exist before the first test of a file until its last: garbage collection skips them."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Tests and modules live to the end: collecting garbage among them took a third of the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_runtest_setup(item):
    if item.get_closest_marker("gpu"):
        if not torch.cuda.is_available():
            pytest.skip("needs a GPU: torch.cuda.is_available() is False")
    if item.get_closest_marker("notebook"):
        warm_kernels(*IN_LESSONS)


def drawn_by(node):
    """Seed the random numbers by the test or file, independent of earlier draws."""
    seed = zlib.crc32(node.nodeid.encode()) ^ SEED
    random.seed(seed)
    np.random.seed(seed)
    torch.default_generator.manual_seed(seed)
    if (numpy_backend := module_of("backends.numpy_functions")) is not None:
        numpy_backend.set_random_seed(seed)
    if (of_steps := module_of("ops.random_state")) is not None:
        of_steps._seed[0] = of_steps._DEFAULT_SEED
        of_steps._of_context.set(None)


def pytest_collectstart(collector):
    """For random numbers drawn on the import of a file."""
    if isinstance(collector, pytest.Module):
        drawn_by(collector)


@pytest.fixture(autouse=True, scope="module")
def draws_of_the_file(request):
    """For fixtures of a file that outlive a test."""
    drawn_by(request.node)


@pytest.fixture(autouse=True)
def draws_of_its_own(request, draws_of_the_file):
    drawn_by(request.node)


@pytest.fixture(scope="module")
def one_thread():
    """Use one thread of torch: two threads on tiny arrays wait for each other, 20 times slower on a busy machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(autouse=True)
def step_of_its_own():
    """Reset the running step (`rf.init_train_step_run_ctx()` without `with`) after each test."""
    yield
    run_ctx = sys.modules.get("rfnb.nn.run.run_ctx")
    if run_ctx is not None:
        run_ctx._current.set(run_ctx._INIT)


@functools.cache
def is_file(name):
    return (Path(__file__).parents[1] / "rfnb" / Path(*name.split("."))).with_suffix(".py").is_file()


def module_of(name):
    """A module of rfnb, if it is loaded."""
    assert is_file(name), f"rfnb has no module {name}: it has another name now"
    return sys.modules.get(f"rfnb.{name}")


@pytest.fixture(autouse=True)
def nothing_left_on():
    """Fail a test that leaves `rf.debug`, a recording or a watch active, instead of the tests after it."""
    poison, probe = module_of("debugging.poison"), module_of("trace.probe")
    before = poison._users[0] if poison is not None else 0
    heard = probe._listeners.get() if probe is not None else ()
    yield
    poison, probe = module_of("debugging.poison"), module_of("trace.probe")
    if poison is not None and poison._users[0] > before:
        pytest.fail("rf.debug was left on")
    if probe is not None and (left := [item for item in probe._listeners.get() if item not in heard]):
        for item in left:
            probe._hear_no_more(item)
        pytest.fail(f"these still listen: {left}")


@pytest.fixture(autouse=True)
def watches_of_its_own():
    """Close the watches that a test leaves open: until collected, they would observe backward passes of other tests and keep functions of
    torch replaced."""
    training = module_of("interop.watch.forward")
    before = list(training._watchers) if training is not None else []
    yield
    training = module_of("interop.watch.forward")
    if training is not None:
        for own in [own for own in training._watchers if own not in before]:
            training._no_more(own)


def surroundings():
    """Process state outside rfnb that tests share, by name: a change affects what other tests compute or print."""
    found = {f"os.environ[{name!r}]": value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}
    found |= {
        "os.getcwd()": os.getcwd(),
        "signal.SIGINT": signal.getsignal(signal.SIGINT),
        "sys.ps1": getattr(sys, "ps1", None),
        "sys.getprofile()": sys.getprofile(),
        "sys.gettrace()": sys.gettrace(),
        "sys.getswitchinterval()": sys.getswitchinterval(),
        "gc.isenabled()": gc.isenabled(),
        "np.geterr()": np.geterr(),
        "np.get_printoptions()": np.get_printoptions(),
        "torch.get_default_dtype()": torch.get_default_dtype(),
        "torch.get_default_device()": torch.get_default_device(),
        "torch.get_num_threads()": torch.get_num_threads(),
        "torch.is_grad_enabled()": torch.is_grad_enabled(),
        "torch.are_deterministic_algorithms_enabled()": torch.are_deterministic_algorithms_enabled(),
        "function modes of torch": len(torch.overrides._get_current_function_mode_stack()),
    }
    if (default := module_of("ops.defaults")) is not None:
        found["rf.get_default_float_dtype()"] = default.get_default_float_dtype()
        found["rf.get_default_int_dtype()"] = default.get_default_int_dtype()
        found["rf.get_default_device()"] = default.get_default_device()
    if (registry := module_of("backends.registry")) is not None:
        found["rf.get_selected_backend()"] = registry.get_selected_backend()
    if "matplotlib" in sys.modules:
        set_there = dict.items(sys.modules["matplotlib"].rcParams)  # to ask for the backend would choose it
        found |= {f"matplotlib.rcParams[{name!r}]": value for name, value in set_there if name != "backend"}
    return found


@pytest.fixture(autouse=True, scope="module")
def surroundings_as_they_were():
    """Fail a file that leaves shared process state changed, instead of the files after it."""
    before = surroundings()
    yield
    after = surroundings()
    # What is new is of something that is loaded only now.
    if left := {name: (value, after.get(name)) for name, value in before.items() if after.get(name) != value}:
        pytest.fail(f"these were left changed (before, after): {left}")


REPLACING = [
    "watch.forward",
    "sweep",
    "lens",
    "seen.attach",
    "seen.hf_cache",
    "seen.hf_attention",
    "seen.function_calls",
    "seen.generate",
]


def replaced_functions():
    """Functions that recordings replace, such as `torch.autograd.backward`."""
    modules = [module for name in REPLACING if (module := module_of(f"interop.{name}")) is not None]
    kept = [own for module in modules for own in vars(module).values() if type(own).__name__ == "Replaced"]
    return {
        f"{put.owner.__name__}.{put.name}"
        for own in kept
        for put in list(own._put.values())
        if hasattr(put.owner, "__name__")
    }


@pytest.fixture(autouse=True, scope="module")
def torch_as_it_was():
    """Fail a file that leaves a function of torch replaced, instead of the files after it."""
    before = replaced_functions()
    yield
    if left := sorted(replaced_functions() - before):
        pytest.fail(f"these are still replaced: {left}")


@pytest.fixture(autouse=True, scope="module")
def runs_of_its_own(torch_as_it_was):
    """Stop the held runs of a file at its end: while one records, modules have another path, also in other threads."""
    probe = module_of("trace.probe")
    before = set(probe._open) if probe is not None else set()
    yield
    of_run, probe = module_of("control.live_runs"), module_of("trace.probe")
    if of_run is not None:
        of_run.stop_all()
    if probe is not None and (left := [item for key, item in probe._open.items() if key not in before]):
        probe._open.clear()
        pytest.fail(f"these still listen: {left}")
