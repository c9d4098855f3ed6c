"""Trace: what a run offers by `probe`, kept by `record`, looked up by kind, path and step."""
