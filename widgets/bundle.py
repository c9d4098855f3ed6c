"""Knows whether the committed front-end bundle is what the sources give, and builds it when it is not.

The one place that knows the sources, the outputs and the stamp. Used by the packaging hook, `make build` and the tests.
Standard library only: it runs before anything is installed.

    python widgets/bundle.py            # build if the stamp does not fit
    python widgets/bundle.py --force    # build always
    python widgets/bundle.py --check    # exit 1 with a sentence if the stamp does not fit
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

WIDGETS = Path(__file__).resolve().parent
STATIC = WIDGETS.parent / "rfnb" / "viz" / "static"
STAMP = "bundle.json"
VIEWS = WIDGETS / "src" / "views.ts"  # lists the kinds; a source distribution without the sources has only what it has
KINDS = re.findall(r"^  (\w+)(?:: \w+)?,$", VIEWS.read_text("utf-8"), re.MULTILINE) if VIEWS.is_file() else []
ALONE = [kind for kind in KINDS if kind not in ("group", "branches")]  # these have views of all kinds in them
REQUIRED = (
    "rfnb.js",
    "rfnb-static.js",
    *(f"rfnb-static-{kind}.js" for kind in ALONE),
    "rfnb-page.js",
    "rfnb-engine.js",
    "rfnb.css",
    "rfnb-drawn.css",
)


class BundleError(RuntimeError):
    """The bundle is missing or stale and cannot be built here."""


def source_hash(widgets: Path = WIDGETS) -> str:
    """SHA-256 over everything that decides the bundle: sources, locked dependencies, compiler and build settings."""
    files = sorted(p for p in (widgets / "src").rglob("*") if p.is_file())
    files += [
        widgets / name
        for name in ("package.json", "package-lock.json", "tsconfig.json", "build.mjs", "private.mjs", "self.mjs")
    ]
    digest = hashlib.sha256()
    for file in files:
        # Line ends are normalised: a Windows checkout has the same hash.
        content = file.read_bytes().replace(b"\r\n", b"\n") if file.is_file() else b""
        digest.update(file.relative_to(widgets).as_posix().encode() + b"\0" + content + b"\0")
    return digest.hexdigest()


def output_hashes(static: Path = STATIC) -> dict[str, str]:
    """SHA-256 of each built file by name."""
    files = sorted(p for p in static.glob("rfnb*") if p.suffix in (".js", ".css")) if static.is_dir() else []
    return {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in files}


def write_stamp(widgets: Path = WIDGETS, static: Path = STATIC) -> None:
    """Notes that the outputs lying there come from the sources lying there."""
    stamp = {"source": source_hash(widgets), "outputs": output_hashes(static)}
    (static / STAMP).write_text(json.dumps(stamp, indent=1) + "\n", encoding="utf-8", newline="\n")


def problem(widgets: Path = WIDGETS, static: Path = STATIC) -> str | None:
    """What is wrong with the bundle, as a sentence; None when it is what the sources give."""
    outputs = output_hashes(static)
    missing = [name for name in REQUIRED if name not in outputs]
    if missing:
        return f"The front-end bundle lacks {', '.join(missing)}."
    if not (static / STAMP).is_file():
        return f"The front-end bundle has no stamp ({STAMP})."
    stamp = json.loads((static / STAMP).read_text(encoding="utf-8"))
    if stamp.get("outputs") != outputs:
        return "The front-end bundle was changed after it was built (merge or edit by hand)."
    if (widgets / "src").is_dir() and stamp.get("source") != source_hash(widgets):
        return "The front-end bundle is older than its sources in widgets/."
    return None  # no sources: a source distribution without them, nothing to compare


def is_installed(widgets: Path = WIDGETS) -> bool:
    """Whether node_modules has the packages of the lock file, in its versions (optional ones may be of another system)."""
    try:
        there = json.loads((widgets / "node_modules" / ".package-lock.json").read_text(encoding="utf-8"))["packages"]
    except (OSError, ValueError, KeyError):
        return False
    wanted = json.loads((widgets / "package-lock.json").read_text(encoding="utf-8"))["packages"]
    return all(
        there[name].get("version") == package.get("version") if name in there else package.get("optional", False)
        for name, package in wanted.items()
        if name
    )


def build(widgets: Path = WIDGETS, static: Path = STATIC) -> None:
    """Builds the bundle with npm and stamps it.

    Raises:
        BundleError: If Node.js is missing, node_modules is a link to other packages, or the build fails or leaves out
            a file.
    """
    npm = shutil.which("npm")
    if npm is None:
        raise BundleError("npm was not found: install Node.js >= 20, or take a commit whose bundle is up to date.")
    env = dict(os.environ, npm_config_update_notifier="false", npm_config_fund="false", npm_config_audit="false")
    commands = [["run", "--silent", "build"]]
    if not (widgets / "package-lock.json").is_file():
        raise BundleError("widgets/package-lock.json is missing.")
    if not is_installed(widgets):
        if (widgets / "node_modules").is_symlink():
            raise BundleError(
                "widgets/node_modules is a link, and has not the packages of package-lock.json. `npm ci` would empty\n"
                "the folder that it leads to. Remove the link (rm widgets/node_modules), then run this again."
            )
        commands.insert(0, ["ci", "--ignore-scripts", "--loglevel=error"])
    for command in commands:
        try:
            subprocess.run([npm, *command], cwd=widgets, check=True, env=env, stdout=sys.stderr)
        except (OSError, subprocess.CalledProcessError) as e:
            raise BundleError(f"`npm {' '.join(command)}` failed in widgets/.") from e
    missing = [name for name in REQUIRED if not (static / name).is_file()]
    if missing:
        raise BundleError(f"widgets/build.mjs left out {', '.join(missing)}.")
    write_stamp(widgets, static)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="only say whether the bundle fits its sources")
    parser.add_argument("--force", action="store_true", help="build even when the stamp fits")
    args = parser.parse_args()
    found = problem()
    if args.check:
        print(found or "The front-end bundle is what its sources give.")
        return 1 if found else 0
    if not found and not args.force:
        return 0
    if found:
        print(found, "Building it.", flush=True)
    try:
        build()
    except BundleError as e:
        print(f"bundle: {e}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
