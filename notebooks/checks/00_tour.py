"""Check of the tour: a branch of a search that was kept by dragging a weight."""

from rfnb.teaching import exercise, wrong

SAID = "EH R AH CH UW T"


def _is_by_weights(branch):
    return all(change.words.startswith("attention") for change in branch.changes)


@exercise(
    "parachute without its P",
    hints=[
        "Each row of the map writes one sound, from what it looks at. Which row wrote the P?",
        "Which sound is the first one without the P, and from which letter did the model write it?",
    ],
)
def without_p(branches):
    for branch in branches:
        branch.wait()  # the weight may just have been dragged
    tree = branches[0].tree()
    kept = [branch for name, branch in tree.items() if name != tree.root.name]
    said = {branch.name: " ".join(branch.outcome.seqs[0]) if branch.outcome.seqs else "" for branch in kept}
    found = [branch for branch in kept if said[branch.name] == SAID]
    if any(map(_is_by_weights, found)):
        return
    last = (found or kept)[-1]
    rows = [
        ("kept", said[last.name] or "nothing yet"),
        ("wanted", SAID),
        *(("change", str(change)) for change in last.changes),
    ]
    if found:
        wrong("That is the word, but a label was forced or banned.", rows, "Drag a weight of the map instead.")
    if last.state != "done":
        wrong("The branch is not at its end yet.", rows, "Resume it.")
    if not _is_by_weights(last):
        wrong("A label was forced or banned, and no weight was dragged.", rows, "Drag a weight of the map.")
    if said[last.name].startswith("P "):
        wrong("The P is still there.", rows, "A row writes one sound: the P comes from the first row, of step 0.")
    wrong(
        "The P is gone, and more has changed.",
        rows,
        "The first row is right. Let it look at the letter from which the EH was written.",
    )
