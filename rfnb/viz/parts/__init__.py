"""The parts that views are composed of, each in the forms that kinds share: a graph and a matrix."""
