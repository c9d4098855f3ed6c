"""The committed front-end bundle is what its sources give."""

import importlib.util
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from waiting import LONG

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def bundle():
    spec = importlib.util.spec_from_file_location("bundle", ROOT / "widgets" / "bundle.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def built(tmp_path, bundle):
    """A small tree with sources, outputs and a stamp that fit: (widgets, static)."""
    widgets, static = tmp_path / "widgets", tmp_path / "static"
    (widgets / "src").mkdir(parents=True)
    static.mkdir()
    (widgets / "src" / "index.ts").write_text("export {};\n")
    for name in bundle.REQUIRED:
        (static / name).write_text("built\n")
    bundle.write_stamp(widgets, static)
    return widgets, static


def test_the_committed_bundle_fits_its_sources(bundle):
    assert bundle.problem() is None, "run `make build` (or: python widgets/bundle.py) and commit rfnb/viz/static/"


def test_the_bundle_is_committed(bundle):
    run = subprocess.run(["git", "ls-files", "rfnb/viz/static"], cwd=ROOT, capture_output=True, text=True, check=True)
    tracked = {Path(line).name for line in run.stdout.splitlines()}
    assert tracked >= {*bundle.REQUIRED, bundle.STAMP}


def test_building_again_gives_the_committed_bundle(bundle, tmp_path):
    if shutil.which("npm") is None or not (ROOT / "widgets" / "node_modules").is_dir():
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)("needs Node.js and `make setup`")
    command = ["node", "build.mjs", "--outdir", str(tmp_path)]
    subprocess.run(command, cwd=ROOT / "widgets", check=True, capture_output=True, timeout=LONG)
    assert bundle.output_hashes(tmp_path) == bundle.output_hashes()


def test_a_bundle_that_fits_has_no_problem(bundle, built):
    assert bundle.problem(*built) is None


def test_a_changed_source_is_seen(bundle, built):
    (built[0] / "src" / "index.ts").write_text("export const x = 1;\n")
    assert bundle.problem(*built) == "The front-end bundle is older than its sources in widgets/."


def test_a_source_more_is_seen(bundle, built):
    (built[0] / "src" / "more.ts").write_text("")
    assert bundle.problem(*built) == "The front-end bundle is older than its sources in widgets/."


def test_line_ends_do_not_matter(bundle, built):
    (built[0] / "src" / "index.ts").write_bytes(b"export {};\r\n")
    assert bundle.problem(*built) is None


def test_an_edited_output_is_seen(bundle, built):
    (built[1] / "rfnb.js").write_text("edited\n")
    assert bundle.problem(*built) == "The front-end bundle was changed after it was built (merge or edit by hand)."


def test_a_missing_output_is_seen(bundle, built):
    (built[1] / "rfnb.css").unlink()
    assert bundle.problem(*built) == "The front-end bundle lacks rfnb.css."


def test_a_missing_stamp_is_seen(bundle, built):
    (built[1] / "bundle.json").unlink()
    assert bundle.problem(*built) == "The front-end bundle has no stamp (bundle.json)."


@pytest.fixture
def packages(built):
    """The small tree with a lock file of three packages and a node_modules that has those of this system."""
    widgets, _ = built
    versions = {"": "1", "node_modules/esbuild": "2", "node_modules/jsdom": "3"}
    wanted = {name: {"version": version} for name, version in versions.items()}
    wanted["node_modules/@esbuild/other"] = {"version": "2", "optional": True}
    there = {name: package for name, package in wanted.items() if name and "optional" not in package}
    (widgets / "package-lock.json").write_text(json.dumps({"packages": wanted}))
    (widgets / "node_modules").mkdir()
    (widgets / "node_modules" / ".package-lock.json").write_text(json.dumps({"packages": there}))
    return widgets


def edit_lock(widgets, change):
    """Changes the packages of a lock file."""
    lock = json.loads((widgets / "package-lock.json").read_text())
    change(lock["packages"])
    (widgets / "package-lock.json").write_text(json.dumps(lock))


def test_what_the_lock_file_wants_is_installed(bundle, packages):
    assert bundle.is_installed(packages)
    os.utime(packages / "package-lock.json")  # a checkout touches files
    assert bundle.is_installed(packages)


@pytest.mark.parametrize(
    "change",
    [
        lambda wanted: wanted["node_modules/jsdom"].update(version="4"),
        lambda wanted: wanted.update({"node_modules/prettier": {"version": "5"}}),
    ],
    ids=["another version", "one package more"],
)
def test_another_lock_file_is_not_installed(bundle, packages, change):
    edit_lock(packages, change)
    assert not bundle.is_installed(packages)


def test_nothing_is_installed_without_a_list_of_packages(bundle, packages):
    (packages / "node_modules" / ".package-lock.json").unlink()
    assert not bundle.is_installed(packages)


@pytest.fixture
def npm_calls(monkeypatch, bundle):
    """The recorded calls of npm, which does not run."""
    calls = []
    monkeypatch.setattr(bundle.shutil, "which", lambda name: name)
    monkeypatch.setattr(bundle.subprocess, "run", lambda command, **_: calls.append(command))
    return calls


def test_a_build_installs_what_is_missing_and_nothing_else(bundle, built, packages, npm_calls):
    bundle.build(*built)
    edit_lock(packages, lambda wanted: wanted["node_modules/jsdom"].update(version="4"))
    bundle.build(*built)
    assert [command[1] for command in npm_calls] == ["run", "ci", "run"]


def test_a_build_does_not_install_through_a_link(bundle, built, packages, npm_calls):
    elsewhere = packages.rename(packages.with_name("elsewhere"))
    packages.mkdir()
    shutil.copy(elsewhere / "package-lock.json", packages)
    (packages / "node_modules").symlink_to(elsewhere / "node_modules")
    bundle.build(*built)  # the packages fit: nothing to install
    edit_lock(packages, lambda wanted: wanted["node_modules/jsdom"].update(version="4"))
    with pytest.raises(bundle.BundleError) as raised:
        bundle.build(*built)
    assert str(raised.value) == (
        "widgets/node_modules is a link, and has not the packages of package-lock.json. `npm ci` would empty\n"
        "the folder that it leads to. Remove the link (rm widgets/node_modules), then run this again."
    )
    assert [command[1] for command in npm_calls] == ["run"]
