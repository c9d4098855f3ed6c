"""Public names that read networks of others."""

from table import exempt

exempt("a network from its description; what it computes are other ops (tests/interop/)", "net_from_dict")
exempt(
    "reads models of others; what it computes are other ops (tests/interop/speech/)",
    "ctc_output transducer_lattice transducer_output",
)
exempt("a module in the notation of torch; what it computes are other ops (tests/interop/)", "as_torch from_torch")
exempt("asks other processes; in one it is the mean (tests/interop/test_ddp.py)", "mean_over_processes")
