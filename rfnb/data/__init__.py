"""Data sets and metrics that the models and notebooks use."""
