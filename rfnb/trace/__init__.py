"""Trace: the events that a run sends by `probe`, kept by `record`, looked up by kind, path and step."""
