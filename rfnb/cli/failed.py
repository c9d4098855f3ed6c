"""The error of a command that could not be carried out."""


class Failed(Exception):
    """A sentence for whoever typed the command: what failed, and what to type next."""
