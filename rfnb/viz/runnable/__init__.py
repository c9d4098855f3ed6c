"""Pages that run a model: the computation of a function call as a program that a page repeats for other inputs (`widgets/src/engine/`).

    notes = noted(spell, "parachute")           # the arguments of each op, and the states of loops
    program = PageProgram.of(spell, "parachute")    # the same for words of any length, with weights

A program consists of named ops: an axis is found by its dim, so sizes are free.
"""
