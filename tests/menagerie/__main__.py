"""Every class of the installed `transformers`, made tiny and looked at: `PYTHONPATH=tests python -m menagerie [--cache FILE] [names]`.

A run that was stopped goes on from the cache. Each class runs in a process of its own, for at most a minute of computing. Writes
found.json here and docs/menagerie.md; with names, prints their rows.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from pathlib import Path
from typing import Any

SECONDS = 60


def apart(name: str) -> dict[str, Any]:
    """The row of a class, from a process that is ended if it takes too long."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        signal.setitimer(signal.ITIMER_PROF, SECONDS)  # of its own time, whatever else runs
        signal.alarm(10 * SECONDS)  # where it waits for what never comes
        try:
            from menagerie.looked import row

            found = row(name)
        except BaseException as error:
            found = {"built": False, "why": {"built": f"{type(error).__name__}: {error}"[:200]}}
        with os.fdopen(writing, "w") as out:
            out.write(json.dumps(found))
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as got:
        text = got.read()
    usage = os.wait4(child, 0)[2]
    found = json.loads(text) if text else {"built": False, "why": {"built": f"It takes more than {SECONDS} seconds."}}
    return {**found, "seconds": round(usage.ru_utime + usage.ru_stime, 1)}


def main(arguments: list[str]) -> None:
    import torch
    import transformers
    from menagerie import looked, tiny

    import rfnb  # noqa: F401  # loaded once, before processes part

    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    looked.row("GPT2LMHeadModel")  # what is imported and prepared at first use is there in all
    cache = Path(arguments[arguments.index("--cache") + 1]) if "--cache" in arguments else None
    names = [each for each in arguments if re.match("x?[A-Z]", each)]
    known = json.loads(cache.read_text()) if cache and cache.exists() else {}
    for name in names or tiny.classes():
        if name not in known:
            tiny.class_of(name)
            known[name] = apart(name)
            print(name, known[name], flush=True)
            if cache:
                cache.write_text(json.dumps(known))
    if not names:
        from menagerie import table

        table.write(known)


if __name__ == "__main__":
    main(sys.argv[1:])
