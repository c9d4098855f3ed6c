"""Solutions of 08_errors: when decoding goes wrong."""

from rfnb.models import load_g2p, score

PREDICTIONS = {
    "share": "fewer than 1 of 10",
    "wide": "nothing: only <end>",
    "loops": "q",
    "skip": 24,
    "why_curse": "A wider beam finds what the model likes best, and that may be short or empty; a narrow one misses it by luck.",
    "why_cure": "The model prefers the wrong output, and a better search finds it more surely: change the model or its score.",
}

model = load_g2p()


def classify(output, output_score, references):
    if output in references:
        return "right"
    if max(references.values()) > output_score:
        return "search error"
    return "model error"


# (score of <end> - score of the pronunciation) / (9 - 1), rounded up
gamma = 0.68


def ends_in_loop(labels, times=4):
    for size in range(1, len(labels) // times + 1):
        piece = labels[-size:]
        if labels[-size * times :] == piece * times:
            return True
    return False


culprits = {"A": "the end label is not final", "B": "the length is off by one", "C": "states do not follow"}


def check_search(search):
    for word in ("cat", "parachute", "vertebrae"):
        found = search(word, beam_size=4)
        own = score(model, [word], [found.phonemes])[0]
        assert abs(found.score - own) < 1e-3, f"{word}: it says {found.score:.3f}, the model {own:.3f}"
