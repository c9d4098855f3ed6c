"""The observation of torch models by a recording: see docs/contracts/seen.md."""
