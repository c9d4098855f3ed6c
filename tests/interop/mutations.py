"""Values of JSON with one thing changed, at random: other types, other numbers, keys that are missing, parts that have changed places."""

from __future__ import annotations

import copy
import json
import struct

ODD = [
    None, True, False, 0, 1, -1, 2, 7, 10**6, 2**31, 2**63, 10**30, -(10**30), 0.5, -0.5, 1e308, "", "x", "nan", "-1", "../../x",
    "\ud83d\ude00", "a" * 5000,
    [], [None], [1, 2, 3], [[[]]], {}, {"a": 1}, {"list": []}, {"tuple": [1]}, {"float": "nan"}, {"float": "x"}, {"float": "1e999"},
    {"dim": 0},
    {"dim": 10**9}, {"dim": -1}, {"array": "0"}, {"array": "x"}, {"array": 0}, {"tensor": {}}, {"dict": [[1]]},
    {"dict": [[{"list": []}, 1]]},
    {"list": {}},
]  # fmt: skip


def nodes(value, found=None):
    """All places in a value: (container, key)."""
    found = [] if found is None else found
    keys = value.keys() if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        found.append((value, key))
        nodes(value[key], found)
    return found


def mutated(value, rng):
    """A copy with one change, and its words."""
    value = copy.deepcopy(value)
    places = nodes(value)
    container, key = rng.choice(places)
    how = rng.randrange(8)
    if how == 0:
        del container[key]
        return value, f"without {key!r}"
    if how == 1 and isinstance(container, list):
        container.insert(key, copy.deepcopy(container[key]))
        return value, f"{key!r} twice"
    if how == 2:
        other, its = rng.choice(places)
        container[key], odd = copy.deepcopy(other[its]), f"that of {its!r}"
        return value, f"{key!r} is {odd}"
    if how == 3 and isinstance(container[key], (int, float)) and not isinstance(container[key], bool):
        container[key] += rng.choice([-2, -1, 1, 2, 100])
        return value, f"{key!r} is {container[key]!r}"
    if how == 4 and isinstance(container[key], list):
        rng.shuffle(container[key])
        return value, f"{key!r} in another order"
    container[key] = copy.deepcopy(rng.choice(ODD))
    return value, f"{key!r} is {container[key]!r:.40}"


def mutated_often(value, rng):
    """A copy with one change to four, and their words."""
    words = []
    for _ in range(rng.choice((1, 1, 2, 3, 4))):
        if nodes(value):
            value, what = mutated(value, rng)
            words.append(what)
    return value, "; ".join(words)


def damaged(data, rng):
    """Bytes with one change, and its words."""
    begin, how = rng.randrange(len(data)), rng.randrange(5)
    if how == 0:
        return data[:begin], "cut off"
    if how == 1:
        return data[:begin] + rng.randbytes(rng.randrange(1, 16)) + data[begin + 16 :], "noise"
    if how == 2:
        return data[:begin] + data[begin + rng.randrange(1, 60) :], "a piece missing"
    changed = bytearray(data)
    changed[begin] ^= 1 << rng.randrange(8)
    return bytes(changed), "a flipped bit"


def header_of(data):
    """The header of a safetensors file and what follows."""
    (size,) = struct.unpack("<Q", data[:8])
    return json.loads(data[8 : 8 + size]), data[8 + size :]


def with_header(header, data):
    """A safetensors file."""
    text = json.dumps(header).encode("utf-8", "surrogatepass")
    return struct.pack("<Q", len(text)) + text + data
