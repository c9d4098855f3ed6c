"""The error of a command that failed."""


class CommandError(Exception):
    """A message for the user of the command: what failed, and what to type next."""
