"""Random ops: their values differ by design. What is drawn is tested in tests/ops/test_random.py and test_random_choice.py."""

from __future__ import annotations

from table import exempt

exempt("random: the values differ by design", "random_choice_with_replacement random_choice_without_replacement")
exempt("the state of the generator", "get_static_step_based_seed reset_step_random_state")
