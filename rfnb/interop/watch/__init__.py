"""A training of torch seen from inside: see docs/contracts/watch.md."""
