"""The number of threads for a course notebook: as many as the machine grants, not as many as it has.

On a hub, in a container or beside thirty other kernels torch starts a thread for each core that it sees, and most of them wait.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

# If one of these is set, the user has decided.
VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
_CGROUP = Path("/sys/fs/cgroup")


def cores(cgroup: Path = _CGROUP) -> int:
    """The number of cores available to this process, by its affinity, the quota of its container, and the limit of a hub (CPU_LIMIT)."""
    known = [float(os.cpu_count() or 1)]
    if hasattr(os, "sched_getaffinity"):
        known.append(len(os.sched_getaffinity(0)))
    known += [share for share in (_quota(cgroup), _number(os.environ.get("CPU_LIMIT", ""))) if share]
    return max(1, int(min(known)))


def for_a_kernel() -> int:
    """The number of threads for one kernel: the models of the course are small, so on few cores another thread costs more than it saves."""
    return max(1, cores() // 4)


def limit_threads(most: int | None = None) -> None:
    """Limit torch to the number of free cores, or to the number that the user has set if that is lower."""
    if any(name in os.environ for name in VARIABLES):
        return
    torch = sys.modules.get("torch")
    count = most or for_a_kernel()
    if torch is None:  # rfnb imports it in a later cell, and it then reads this variable
        os.environ[VARIABLES[0]] = str(count)
    elif torch.get_num_threads() > count:
        torch.set_num_threads(count)


def _quota(cgroup: Path) -> float | None:
    """The cores that a container may use, from cgroups version 2 or 1; None without a limit."""
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
