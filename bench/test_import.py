"""What `import rfnb` adds to `import torch`, in fresh interpreters: CPU seconds, and the packages that come with it."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys

LIMIT = 0.15  # seconds
ROUNDS = 7
CODE = "import torch, time; start = time.process_time(); import rfnb, rfnb.backends.torch_backend; print(time.process_time() - start)"


def test_import_adds_little_to_that_of_torch():
    """The median of several: the first one may have to compile the files, whose compiled form is then found by the others."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    command = [sys.executable, "-c", CODE]
    seconds = statistics.median(
        float(subprocess.run(command, capture_output=True, text=True, check=True, env=env).stdout)
        for _ in range(ROUNDS)
    )
    print(f"import rfnb after torch: {seconds * 1e3:.0f} ms")
    assert seconds < LIMIT, f"import rfnb takes {seconds:.3f} s more than import torch, the limit is {LIMIT} s"
