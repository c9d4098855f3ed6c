"""The way in which a recording sees models of torch: see docs/contracts/seen.md."""
