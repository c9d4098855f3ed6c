"""Switches of core/ and ops/ that compute nothing."""

from table import exempt

exempt("looks for mistakes while others compute; tests/debugging/test_debug.py", "Debug debug")
exempt("says how programs of loops are compiled; tests/rec/test_compiled.py", "compile_loops")
exempt(
    "runs a function whose loops wait, computes nothing; tests/control",
    "Atlas Run RunStopped WhyNot atlas explore gate run why_not",
)
exempt("looks at trainings, computes nothing; tests/interop/watch", "watch")
exempt("asks questions in notebooks, computes nothing; tests/teaching", "lesson")
exempt("compares recordings; tests/trace", "Diff compare_runs diff")
exempt("runs whole models; tests/interop", "BatchCheck CodeDiff check_batch")
