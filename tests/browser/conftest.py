"""Fixtures of the browser tests: `server`, `browser` and `profile` live for the session, `lab` is one page of JupyterLab per test:
that of the test before it, as it was when it was opened."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from pathlib import Path

import pytest
from browser.jupyter import LOADED, SIZE, Lab, Server
from waiting import ms
from warm import warm_kernels

# The shell is the same engine without what is around a page: half of the work.
PROGRAMS = ("chromium-headless-shell", "chromium", "chromium-browser")
CHROMIUM = os.environ.get("RFNB_CHROMIUM") or next(filter(None, map(shutil.which, PROGRAMS)), None)
# --no-sandbox: root in a container has none. Hinting: of the letters, as the whole browser has it. The rest: nothing is asked of a
# network in the background.
CHROMIUM_ARGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--font-render-hinting=slight",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
]  # fmt: skip
SHOTS = Path(os.environ.get("RFNB_SHOTS", "test-shots"))
HERE = Path(__file__).parent
MOST_USES = 30  # of a page of JupyterLab
FAILED = pytest.StashKey[bool]()
# What takes longest begins first: at the end no process is alone with it.
LONGEST = "site tour what_if course keys twenty_words bad_input_page matrix_states_page held_run access looks running_page".split()


def pytest_collection_modifyitems(items):
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.browser)
    order = {f"test_{name}": number for number, name in enumerate(LONGEST)}
    items.sort(key=lambda item: order.get(item.path.stem, len(order)) if item.path.is_relative_to(HERE) else -1)


@pytest.fixture(scope="session")
def chromium():
    """Chromium as playwright starts it, and the options to start it with."""
    if CHROMIUM is None:
        missing = "no Chromium: apt-get install chromium, or set RFNB_CHROMIUM"
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(missing)
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=ms(30))
    with sync_playwright() as playwright:
        yield playwright.chromium, {"executable_path": CHROMIUM, "headless": True, "args": CHROMIUM_ARGS}


@pytest.fixture(scope="session")
def browser(chromium):
    kind, options = chromium
    started = kind.launch(**options)
    yield started
    started.close()


@pytest.fixture(scope="session")
def profile(chromium, tmp_path_factory):
    """A context that keeps what it has compiled of JupyterLab: a fifth of the work of a page."""
    kind, options = chromium
    folder = tmp_path_factory.mktemp("profile")
    context = kind.launch_persistent_context(str(folder), **options, viewport=SIZE)
    yield context
    context.close()


@pytest.fixture(scope="session", autouse=True)
def kernels():
    """Also those of notebooks that are run without a page."""
    warm_kernels(*LOADED)


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    running = Server(tmp_path_factory.mktemp("jupyter"))
    yield running
    running.stop()


@pytest.fixture(scope="session")
def kept():
    """The page that the tests go on with, each with notebooks and kernels of its own: to start JupyterLab is most of a test."""
    found: list[Lab] = []
    yield found
    for lab in found:
        lab.page.close()


def taken(kept, server, profile) -> Lab:
    """The page that is kept, or a new one."""
    return kept.pop() if kept else Lab(profile.new_page(), server)


def left(lab, kept) -> None:
    """Keeps the page for the next test, if it is as it was; after many tests it has had its day."""
    with contextlib.suppress(Exception):  # of a page that has crashed
        lab.uses += 1
        if lab.leave() and lab.uses < MOST_USES:
            kept.append(lab)
            return
    lab.page.close()


@pytest.fixture(scope="module")
def lab_of_file(server, profile):
    """One page of JupyterLab for all tests of a file."""
    server.usual_settings()
    driver = Lab(profile.new_page(), server)
    yield driver
    with contextlib.suppress(Exception):
        driver.leave()
    driver.page.close()


@pytest.fixture
def own_page():
    """For a test that changes more of its page than notebooks and theme, or asks what another page makes of it: no other test has it."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if report.failed:
        item.stash[FAILED] = True
    return report


@pytest.fixture
def lab(server, profile, kept, request):
    blank, alone = profile.pages[0], "own_page" in request.fixturenames
    driver = Lab(profile.new_page(), server) if alone else taken(kept, server, profile)
    others = {*profile.pages} - {driver.page}
    before = {*server.root.iterdir()}
    server.usual_settings()
    yield driver
    if FAILED in request.node.stash or "RFNB_SHOTS" in os.environ:  # a picture takes as long as a small test
        with contextlib.suppress(Exception):  # a page that has crashed must not hide the test's own failure
            driver.screenshot(SHOTS / (re.sub(r"[^\w.-]+", "_", request.node.name) + ".png"))
    left(driver, [] if alone else kept)
    forget = profile.new_cdp_session(blank)  # what a page has stored, but not what is compiled
    forget.send("Storage.clearDataForOrigin", {"origin": server.url, "storageTypes": "cookies,local_storage,indexeddb"})
    forget.detach()
    for opened in {*profile.pages} - others - {lab.page for lab in kept}:
        opened.close()
    for written in {*server.root.iterdir()} - before:  # what one test has written is not read by the next
        shutil.rmtree(written) if written.is_dir() else written.unlink(missing_ok=True)
