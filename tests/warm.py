"""Python that has loaded torch: `[*warm(), "-c", code]` runs as `[sys.executable, "-c", code]` does, without the seconds that
`import torch` takes.

A process with the slow packages loaded waits, and forks for each command. In the fork these packages are not in `sys.modules`
before they are imported, so that what is loaded when stays as it is; rfnb is loaded anew each time. Between the test and the
fork stands a small process, which hands its standard streams, its folder and its environment on, passes signals on, and ends as
the fork ends. Options of Python itself, as `-W` and `-X`, are not there, and a fork ends without taking modules apart: a test of
either takes `sys.executable`.
"""

import os
import select
import signal
import socket
import sys
from functools import cache

SLOW = ("numpy", "torch", "ipykernel.kernelapp", "ipykernel.ipkernel", "nbformat")
IN_LESSONS = (
    "torch._dynamo",
    "matplotlib.pyplot",
    "anywidget",
    "rfnb",
)  # for kernels that run notebooks; an optimizer imports the first
PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
FROZEN = [sys.executable, "-I", "-S", __file__]  # -I -S: it starts in a hundredth of a second


@cache
def warm(*too: str) -> list[str]:
    """The first words of a command; the process that forks is started, and ends when this one does.

    Args:
        too: Further modules that its forks need not load, also of rfnb.
    """
    import atexit
    import subprocess
    import tempfile

    folder = tempfile.mkdtemp(prefix="warm")
    path = f"{folder}/fork"
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    env |= {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.path.dirname(os.path.dirname(__file__)) if too else ""}
    if too:  # matplotlib reads it as it is loaded: in a kernel, figures are pictures
        env["MPLBACKEND"] = "module://matplotlib_inline.backend_inline"
    server = subprocess.Popen(
        [sys.executable, "-P", __file__, "serve", path, *too],
        env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    assert server.stdout.readline() == b"ready\n"
    atexit.register(lambda: (server.stdin.close(), server.wait()))
    return [*FROZEN, path]


@cache
def warm_kernels(*too: str) -> None:
    """From here on the kernels that this process and its children start are forks."""
    import json

    folder = os.path.dirname(warm(*too)[-1])
    os.makedirs(f"{folder}/kernels/python3")
    argv = [*warm(*too), "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    with open(f"{folder}/kernels/python3/kernel.json", "w") as spec:
        json.dump(
            {"argv": argv, "display_name": "Python 3", "language": "python", "metadata": {"debugger": True}}, spec
        )
    os.environ["JUPYTER_PATH"] = folder


# The process between the test and the fork. It imports little: it is started for each command.


def run_there(path: str, words: list[str]) -> None:
    """Has a command run in a fork, and ends as it ends."""
    signal.pthread_sigmask(signal.SIG_BLOCK, PASSED_ON)
    ignored = signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    environment = {
        name: value for name, value in os.environ.items() if name != "JPY_PARENT_PID"
    }  # a kernel ends without its parent
    asked = repr((words, os.getcwd(), environment, ignored)).encode("utf-8", "surrogatepass")
    server = socket.socket(socket.AF_UNIX)
    server.connect(path)
    socket.send_fds(server, [len(asked).to_bytes(8, "big")], [0, 1, 2])
    server.sendall(asked)
    pid = int.from_bytes(read(server, 8), "big")
    for number in PASSED_ON:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, lambda number, _: os.kill(pid, number))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, PASSED_ON)
    for stream in (0, 1, 2):  # whose reader or writer goes is the matter of the fork alone
        os.close(stream)
    parent = os.getppid()
    while not select.select([server], [], [], 1)[0]:
        if os.getppid() != parent:
            os._exit(1)  # and the fork with it
    status = int.from_bytes(read(server, 8), "big", signed=True)
    if status < 0:
        if -status != signal.SIGKILL:
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    os._exit(status)


def read(connection: socket.socket, count: int) -> bytes:
    """So many bytes; fewer where the other end has gone."""
    found = b""
    while len(found) < count and (more := connection.recv(count - len(found))):
        found += more
    return found


# The process that forks.


class Hidden:
    """The packages that are loaded but not yet imported; a finder that gives them out.

    What one import loaded of a package is given out at once: `import torch` comes without what `import torch._dynamo` would add.
    """

    def __init__(self):
        self.modules = {}
        self.groups = {}
        self.hidden = set()

    def load(self, name):
        """Imports a module, and hides all that this loads."""
        import importlib

        before = set(sys.modules)
        importlib.import_module(name)
        for path in set(sys.modules) - before:
            package = path.partition(".")[0]
            if package not in sys.stdlib_module_names:
                self.modules[path] = sys.modules[path]
                self.groups[path] = (package, name)

    def hide(self):
        """From here on nothing is imported."""
        self.hidden = set(self.modules)
        for path, module in self.modules.items():
            del sys.modules[path]
            if (parent := self._parent_before(path)) and vars(parent[0]).get(parent[1]) is module:
                delattr(*parent)

    def _parent_before(self, path):
        """The package that an earlier import has loaded, and the name of the module in it."""
        above, _, last = path.rpartition(".")
        return (self.modules[above], last) if above and self.groups[above] != self.groups[path] else None

    def find_spec(self, name, path=None, target=None):
        """The spec of a hidden module."""
        from importlib.machinery import ModuleSpec

        if name not in self.hidden:
            return None
        there = self.modules[name].__spec__
        spec = ModuleSpec(name, self, origin=there.origin, is_package=there.submodule_search_locations is not None)
        spec.has_location = there.has_location
        if there.submodule_search_locations is not None:
            spec.submodule_search_locations = there.submodule_search_locations
        return spec

    def create_module(self, spec):
        """The module, loaded long ago. All that came with it comes with it."""
        group = self.groups[spec.name]
        for path in [path for path in self.modules if self.groups[path] == group and path in self.hidden]:
            self.hidden.remove(path)
            module = sys.modules[path] = self.modules[path]
            if parent := self._parent_before(path):
                setattr(*parent, module)
        module = self.modules[spec.name]
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module):
        """Nothing is left to do but to give it its own spec again."""
        module.__spec__ = module.__spec__.loader_state


def load(too: list[str]) -> None:
    """Loads the slow packages and hides them."""
    sys.modules["rfc3987_syntax"] = None  # jsonschema goes without; its grammar is made in more than a second
    hidden = Hidden()
    for name in (*SLOW, *too):
        hidden.load(name)
    hidden.hide()
    sys.meta_path.insert(0, hidden)


def serve(path: str, too: list[str]) -> None:
    """Forks for each command until standard input ends; returns in each fork, which then has to run its command."""
    sys.argv = []
    load(too)
    woken, wakes = os.pipe()
    os.set_blocking(wakes, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
    server = socket.socket(socket.AF_UNIX)
    server.bind(path)
    server.listen(64)
    os.write(1, b"ready\n")
    running: dict[socket.socket, int] = {}
    while True:
        ready, _, _ = select.select([0, woken, server, *running], [], [])
        if 0 in ready:
            break
        for connection in running.keys() & ready:  # the process between has been killed
            kill(running.pop(connection))
            connection.close()
        if woken in ready:
            os.read(woken, 4096)
            for connection, pid in list(running.items()):
                ended, status = os.waitpid(pid, os.WNOHANG)
                if ended:
                    del running[connection]
                    answer(connection, os.waitstatus_to_exitcode(status))
                    connection.close()
        if server in ready:
            connection, _ = server.accept()
            size, streams, _, _ = socket.recv_fds(connection, 8, 3)
            asked = read(connection, int.from_bytes(size, "big"))
            if pid := os.fork():
                running[connection] = pid
                answer(connection, pid)
                for stream in streams:
                    os.close(stream)
                continue
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for own in (woken, wakes):
                os.close(own)
            for own in (server, connection, *running):
                own.close()
            return become(asked, streams)
    for pid in running.values():
        kill(pid)
    import shutil

    shutil.rmtree(os.path.dirname(path), ignore_errors=True)
    os._exit(0)


def kill(pid: int) -> None:
    """Ends a fork and all that it has started."""
    import contextlib

    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, 0)


def answer(connection: socket.socket, number: int) -> None:
    """Tells the process between a number, if it is still there."""
    import contextlib

    with contextlib.suppress(OSError):
        connection.sendall(number.to_bytes(8, "big", signed=True))


# The fork.


def become(asked: bytes, streams: list[int]) -> None:
    """Take over the streams, the folder and the environment of the client, and run the command as `python` does."""
    import ast
    import runpy
    import types

    words, folder, environment, ignored = ast.literal_eval(asked.decode("utf-8", "surrogatepass"))
    os.setsid()
    signal.signal(signal.SIGINT, signal.SIG_IGN if ignored else signal.default_int_handler)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    if "tempfile" in sys.modules:
        sys.modules["tempfile"].tempdir = None  # that of this environment
    open_streams()
    kind, *more = words
    first = {"-c": "", "-m": folder}.get(kind, os.path.dirname(os.path.abspath(kind)))
    sys.path[:0] = [first, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    sys.path_importer_cache.clear()
    sys.argv = words if kind not in ("-c", "-m") else ["-c", *more[1:]] if kind == "-c" else [*more]
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    main.__builtins__ = __builtins__
    code: object = 0
    try:
        if kind == "-c":
            exec(compile(more[0], "<string>", "exec"), vars(main))
        elif kind == "-m":
            runpy._run_module_as_main(more[0])
        elif kind.startswith("-"):
            code = f"{__file__} has no option {kind}: take sys.executable"
        else:
            main.__file__ = os.path.abspath(kind)
            with open(kind, "rb") as script:
                source = script.read()
            exec(compile(source, main.__file__, "exec"), vars(main))
    except SystemExit as asked_for:
        code = asked_for.code
    except BaseException as error:
        # As Python says it: without the line above.
        error.__traceback__ = error.__traceback__.tb_next
        sys.excepthook(type(error), error, error.__traceback__)
        code = 130 if isinstance(error, KeyboardInterrupt) else 1
    end(code)


def end(code: object) -> None:
    """Ends as Python does, but takes nothing apart: that would take longer than most of these commands."""
    import atexit
    import threading

    if not (code is None or isinstance(code, int)):
        print(code, file=sys.stderr)
        code = 1
    threading._shutdown()
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        code = 120
    os._exit((code or 0) & 0xFF)


def open_streams() -> None:
    """New objects for the standard streams."""
    import io

    at_once = bool(os.environ.get("PYTHONUNBUFFERED"))
    sys.stdin = sys.__stdin__ = io.TextIOWrapper(open(0, "rb", closefd=False), encoding="utf-8", errors="strict")
    for name, number, errors in (("stdout", 1, "strict"), ("stderr", 2, "backslashreplace")):
        raw = open(number, "wb", 0 if at_once else -1, closefd=False)
        stream = io.TextIOWrapper(
            raw, encoding="utf-8", errors=errors, line_buffering=number == 2 or os.isatty(number), write_through=at_once
        )
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    sys.stdin.mode, sys.stdout.mode, sys.stderr.mode = "r", "w", "w"


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(sys.argv[2], sys.argv[3:])
    else:
        run_there(sys.argv[1], sys.argv[2:])
