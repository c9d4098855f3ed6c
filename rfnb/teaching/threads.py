"""The number of threads that a notebook of the course computes with: as many as the machine gives, not as many as it has.

On a hub, in a container or beside thirty other kernels torch takes a thread for each core that it sees, and most of them wait.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

# As soon as one of these is set, somebody has decided.
VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
_CGROUP = Path("/sys/fs/cgroup")


def cores(cgroup: Path = _CGROUP) -> int:
    """The number of cores that this process may use, by its affinity, the quota of its container, and what a hub says (CPU_LIMIT)."""
    known = [float(os.cpu_count() or 1)]
    if hasattr(os, "sched_getaffinity"):
        known.append(len(os.sched_getaffinity(0)))
    known += [share for share in (_quota(cgroup), _number(os.environ.get("CPU_LIMIT", ""))) if share]
    return max(1, int(min(known)))


def for_a_kernel(cgroup: Path = _CGROUP) -> int:
    """The threads of one kernel: the models of the course are small, so more than one thread costs more than it gives on few cores."""
    return max(1, cores(cgroup) // 4)


def limit_threads(most: int | None = None) -> None:
    """Let torch use as many threads as there are free cores, unless the user has set a number, which is then the maximum."""
    if any(name in os.environ for name in VARIABLES):
        return
    torch = sys.modules.get("torch")
    count = most or for_a_kernel()
    if torch is None:  # rfnb loads it when it is needed, in a later cell: then it reads this
        os.environ[VARIABLES[0]] = str(count)
    elif torch.get_num_threads() > count:
        torch.set_num_threads(count)


def _quota(cgroup: Path) -> float | None:
    """The cores that a container may use, of version 2 of cgroups or of 1; None if there is no limit."""
    try:
        if (cgroup / "cpu.max").is_file():
            quota, period = (cgroup / "cpu.max").read_text(encoding="utf-8").split()[:2]
        else:
            quota, period = (
                (cgroup / "cpu" / f"cpu.cfs_{name}_us").read_text(encoding="utf-8").strip()
                for name in ("quota", "period")
            )
        share = float(quota) / float(period) if quota != "max" else 0.0
    except (OSError, ValueError, ZeroDivisionError):
        return None
    return share if share > 0 else None


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
