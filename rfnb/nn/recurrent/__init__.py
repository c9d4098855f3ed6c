"""Recurrent units, and what runs them: by name, over a sequence in either direction, or step by step."""
