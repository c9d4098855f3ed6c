"""explore: input fields and sliders that rerun a function when they change.

rf.explore(lambda word, beam_size: pronounce(model, word, beam_size=beam_size), word="phonetics", beam_size=(1, 12))

    inputs.py the type of each field, from its given value
    explorer.py reruns: the newest values win, the previous run is stopped, and the views are updated
    words.py texts
    page.py the fields as ipywidgets, above the views
"""
