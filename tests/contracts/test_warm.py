"""Code run by `warm()` ends, prints and loads like code run by Python."""

import os
import signal
import subprocess
import sys

import pytest
from waiting import LONG, wait_until
from warm import SLOW, warm

PROGRAMS = {
    "ends": "pass",
    "an error": "def fails():\n    raise ValueError('no')\nfails()",
    "a status": "import sys; sys.exit(7)",
    "a sentence": "import sys; sys.exit('no')",
    "a signal": "import os; os.kill(os.getpid(), 15)",
    "killed": "import os; os.kill(os.getpid(), 9)",
    "input": "import sys; print([line for line in sys.stdin], file=sys.stderr)",
    "where it is": "import os, sys; print(os.getcwd(), sys.argv, os.environ['OWN'], sys.path, sorted(os.environ))",
    "at its end": "import atexit, threading; atexit.register(print, 'last'); threading.Thread(target=print, args=['ä']).start()",
    "loaded": f"import sys; print([name for name in {SLOW} if name in sys.modules])",
    "loads": "import sys, numpy.linalg as l, numpy; print(numpy.__spec__.name, numpy.linalg is l, 'torch' in sys.modules)",
    "looked for": "import importlib.util as u; print(u.find_spec('torch').origin, u.find_spec('numpy.linalg').origin); import torch",
    "not there": "import sys; sys.modules['torch'] = None; import torch",
    "reads itself": "import __main__; print(__name__, vars() is vars(__main__))",
}


def ran(python, *words, folder):
    run = subprocess.run(
        [*python, *words], cwd=folder, env={**os.environ, "OWN": "1"}, input="cat\nä\n", capture_output=True, text=True, timeout=LONG
    )  # fmt: skip
    return run.returncode, run.stdout, run.stderr


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_does_what_it_does_in_python(program, tmp_path):
    (tmp_path / "own.py").write_text(f"{PROGRAMS[program]}\n")
    ways = (["-c", PROGRAMS[program], "a", "b"], ["-m", "own", "a"], ["own.py", "a"])
    for words in ways if program != "looked for" else ways[:1]:  # that one imports torch
        assert ran(warm(), *words, folder=tmp_path) == ran([sys.executable], *words, folder=tmp_path)


def test_what_is_loaded_too_is_there_when_it_is_imported_and_not_before(tmp_path):
    program = "import sys; print('rfnb' in sys.modules); import rfnb.models as m, rfnb; print(m.__spec__.origin, rfnb.ones([]).raw_tensor)"
    later = (
        "import sys, numpy; print('numpy.testing' in sys.modules, 'testing' in vars(numpy))\n"
        "import numpy.testing.overrides as o; print(o is numpy.testing.overrides)"
    )
    for words in (["-c", program], ["-c", "import rfnb.nothing"], ["-c", later]):
        assert ran(warm("rfnb", "rfnb.models", "numpy.testing"), *words, folder=tmp_path) == ran(
            [sys.executable], *words, folder=tmp_path
        )


def test_signals_go_on_and_the_fork_ends_with_who_asked(tmp_path):
    waits = "import os, threading; open('began', 'w').write(str(os.getpid())); threading.Event().wait()"
    began = tmp_path / "began"
    for number, status in ((signal.SIGTERM, -15), (signal.SIGKILL, -9)):
        process = subprocess.Popen([*warm(), "-c", waits], cwd=tmp_path)
        assert wait_until(lambda: began.exists() and began.read_text() != "")
        pid = int(began.read_text())
        began.unlink()
        process.send_signal(number)
        assert process.wait(LONG) == status
        assert wait_until(lambda pid=pid: not os.path.exists(f"/proc/{pid}"))
