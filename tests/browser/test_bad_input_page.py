"""Frames with one thing wrong in a real page: a picture or a sentence, and no error, also when it is pointed at, walked and clicked."""

from __future__ import annotations

import base64
import os
import random

import pytest
from seed import SEED
from viz.bad_specs import bad, good

from rfnb.viz.page.output import STATIC
from rfnb.viz.spec import Spec, pack

_SOME = 10 if os.environ.get("RFNB_ALL") != "1" else 10**6  # of a kind; with another RFNB_SEED others

# Shows a frame, and does all that a person can do with it; gives what is on the page, and the errors.
_TRY = """async (frames) => {
    const code = new Blob([window.rfnbCode], {type: 'text/javascript'});
    const {render} = (window.rfnb ??= (await import(URL.createObjectURL(code))).default).initialize();
    const drawn = () => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)));
    const out = [];
    for (const [name, data] of frames) {
        const errors = [], el = document.createElement('div');
        window.onerror = message => { errors.push(String(message)); };
        window.onunhandledrejection = event => { errors.push(String(event.reason)); };
        document.body.append(el);
        const bytes = Uint8Array.from(atob(data), letter => letter.charCodeAt(0));
        let end = () => {};
        try { end = render({model: {get: () => bytes, on() {}, off() {}}, el}); } catch (error) { errors.push('thrown: ' + error); }
        await drawn();
        const there = () => [...el.querySelectorAll('*')].filter(one => one.checkVisibility());
        const press = (target, keys) => keys.forEach(key => target.dispatchEvent(new KeyboardEvent('keydown', {key, bubbles: true})));
        for (const canvas of there().filter(one => one.matches('canvas, svg'))) {
            const box = canvas.getBoundingClientRect();
            for (const share of [0.2, 0.55, 0.9]) {
                const at = {clientX: box.left + box.width * share, clientY: box.top + box.height * share, bubbles: true};
                canvas.dispatchEvent(new PointerEvent('pointermove', at));
                canvas.dispatchEvent(new MouseEvent('click', at));
            }
        }
        for (const one of there().filter(one => one.tabIndex >= 0))
            press(one, ['ArrowDown', 'ArrowRight', 'End', 'ArrowUp', '+', 'Enter', 'Escape']);
        for (const one of there().filter(one => one.matches('button, summary'))) one.click();
        for (const one of there().filter(one => one.matches('select'))) {
            one.selectedIndex = one.options.length - 1;
            one.dispatchEvent(new Event('change', {bubbles: true}));
        }
        for (const one of there().filter(one => one.matches('input'))) {
            one.value = one.max || '1';
            one.dispatchEvent(new Event('input', {bubbles: true}));
        }
        await drawn();
        const root = el.querySelector('.rfnb-root');
        const said = root?.querySelector('.rfnb-failed')?.textContent ?? '';
        out.push({name, errors, said, empty: !root?.innerText.trim(), acts: el.querySelectorAll('script, x').length});
        try { end(); } catch (error) { errors.push('at the end: ' + error); }
        el.remove();
    }
    return out;
}"""


@pytest.fixture(scope="module")
def page(browser):
    opened = browser.new_page(viewport={"width": 900, "height": 700})
    opened.evaluate("code => { window.rfnbCode = code; }", (STATIC / "rfnb.js").read_text(encoding="utf-8"))
    yield opened
    opened.close()


def tried(page, specs: list[tuple[str, Spec]]) -> list[dict]:
    frames = [(f"{spec.kind}: {name}", base64.b64encode(pack(spec)).decode()) for name, spec in specs]
    return [found for start in range(0, len(frames), 20) for found in page.evaluate(_TRY, frames[start : start + 20])]


@pytest.mark.parametrize("spec", good(), ids=lambda spec: f"{spec.kind} {len(spec.blocks)}")
def test_what_is_wrong_is_a_sentence_and_never_an_error(page, spec):
    all_bad = list(bad(spec))
    some = random.Random(len(all_bad) + SEED).sample(all_bad, min(_SOME, len(all_bad)))
    found = tried(page, [("good", spec), *some])
    assert found[0]["said"] == ""
    assert [one for one in found if one["errors"] or one["empty"] or one["acts"]] == []
