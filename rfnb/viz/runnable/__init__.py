"""Pages that run a model: what a call of a function computed, as a program that a page repeats for other inputs (`widgets/src/engine/`).

    notes = noted(spell, "parachute")           # what each op was given, and what the loops carried
    program = PageProgram.of(spell, "parachute")    # the same for words of any length, with weights

A program is one of named ops: an axis is found by its dim, so sizes are free.
"""
