"""Recurrent units and the modules that run them: by name, over a sequence in either direction, or step by step."""
