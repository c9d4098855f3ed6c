"""explore: fields and sliders whose change runs a function anew.

rf.explore(lambda word, beam_size: pronounce(model, word, beam_size=beam_size), word="phonetics", beam_size=(1, 12))

    inputs.py      what a field takes, from the value that is given for it
    explorer.py    the newest values win: the run before is stopped, and the views are brought up to date
    words.py       what is shown as text
    page.py        the fields as ipywidgets, over the views
"""
