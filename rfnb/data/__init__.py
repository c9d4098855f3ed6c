"""Data sets and metrics for the models and notebooks."""
