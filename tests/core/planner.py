"""Planner: a cache of plans as an op has one."""

from rfnb.core.layout import PlanCache


class Planner:
    """A cache whose plans are made by a function of dims.

    Attributes:
        made: How often it was called.
    """

    def __init__(self, make):
        self.cache, self.make_plan, self.made = PlanCache(), make, 0

    def make(self, *dims):
        self.made += 1
        return self.make_plan(*dims)

    def __call__(self, *dims):
        try:
            return self.cache["op", dims]
        except KeyError:
            return self.cache.make(("op", dims), self.make, *dims)

    def has(self, *dims):
        return ("op", dims) in self.cache
