"""Make token texts safe and fully visible: escape sequences, direction changes, broken surrogates.

visible(" a\\x1b")   # "␣a␛"      a token
line("a\\nb c")      # "a⏎b c"    a text on one line
safe("a\\nb\\u202e")  # "a\\nb⟨U+202E⟩"

`widgets/src/visible_text.ts` is the same in TypeScript; both are tested with `tests/viz/fixtures/visible.json`.
"""

from __future__ import annotations

import re

# Control characters except \t and \n; zero-width characters; direction changes; line separators; surrogates and noncharacters.
_UNSEEN = (
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164"
    "\ud800-\udfff\ufeff\uffa0\ufff9-\ufffb\ufffe\uffff\U000e0000-\U000e007f]"
)
_SPACES = "^ +| +$|  +"
_OTHER_SPACES = "[\u00a0\u2000-\u200a\u202f\u205f\u3000]"


def safe(text: str) -> str:
    """The text with marks for characters that are invisible or affect their surroundings; lines and tabs are kept."""
    return re.sub(_UNSEEN, _mark, text)  # which caches the compiled pattern; `import rfnb` does not compile it


def line(text: str) -> str:
    """The same on one line."""
    return safe(text.replace("\n", "⏎").replace("\t", "⇥"))


def visible(token: str) -> str:
    """A token with visible spaces at its ends, in runs, and of unusual kinds; the empty token is "∅"."""
    if not token:
        return "∅"
    marked = re.sub(_SPACES, lambda found: "␣" * len(found[0]), line(token))
    return re.sub(_OTHER_SPACES, _mark, marked)


def _mark(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code < 0x20:
        return chr(0x2400 + code)
    return {0x7F: "␡", 0xA0: "⍽"}.get(code, f"⟨U+{code:04X}⟩")
