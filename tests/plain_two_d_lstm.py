"""A two-dimensional LSTM in raw torch, cell by cell, as the equations say it."""

import torch


def grid(x, y, lengths, W_re, Vh_re, Vv_re):
    """x [batch, width, in], y [batch, height, in] -> h [batch, height, width, out]."""
    batch, width, _ = x.shape
    zero = x.new_zeros(batch, Vh_re.shape[0])
    above = [(zero, zero)] * width
    rows = []
    for row in range(y.shape[1]):
        left, here = (zero, zero), []
        for column in range(width):
            source = torch.cat((x[:, column], y[:, row]), -1)
            gates = source @ W_re + left[0] @ Vh_re + above[column][0] @ Vv_re
            i, f, mix, o, j = gates.chunk(5, -1)
            mix = mix.sigmoid()
            c = i.sigmoid() * j.tanh() + f.sigmoid() * (mix * above[column][1] + (1 - mix) * left[1])
            h = o.sigmoid() * c.tanh()
            real = (column < lengths)[:, None].to(x.dtype)
            left = (h * real, c * real)
            here.append(left)
        above = here
        rows.append(torch.stack([h for h, _ in here], 1))
    return torch.stack(rows, 1)
