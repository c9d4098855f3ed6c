"""Observe a torch training: see docs/contracts/watch.md."""
