"""Each recurrent unit with small options and random parameters, and a state of it."""

from asserting import randn

import rfnb as rf
from rfnb import Dim

batch, d_in, out = Dim(3, name="batch"), Dim(2, name="in"), Dim(4, name="out")
UNITS = {
    "NativeLstm2": {},
    "StandardLSTMCell": {},
    "GRUCell": {},
    "TorchGRUCell": {},
    "BasicRNNCell": {},
    "RHNCell": {"depth": 3},
    "LayerNormVariantsLSTMCell": {},
    "ZoneoutLSTMCell": {"zoneout_factor_cell": 0.2, "zoneout_factor_output": 0.1},
    "BlocksparseLSTMCell": {"block_size": 2, "connectivity": 1},
    "BlocksparseMultiplicativeMultistepLSTMCell": {"block_size": 2, "connectivity": 1, "depth": 3},
}


def make(name, in_dim=d_in, out_dim=out, **options):
    unit = getattr(rf, name)(in_dim, out_dim, **{**UNITS.get(name, {}), **options})
    for seed, parameter in enumerate(unit.parameters()):
        if parameter.dtype == "float32":
            parameter.assign(randn(*parameter.dims, seed=seed) * 0.5)
    return unit


def some_state(unit, *dims):
    return rf.State((part, randn(*dims, out, seed=10 + i)) for i, part in enumerate(unit.state_parts))
