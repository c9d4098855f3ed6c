"""The answers to 03_loops.ipynb."""

import torch

import rfnb as rf

PREDICTIONS = {
    "steps": 9,
    "gates": "the gate that is called reset, times its part of the state",
    "edited": 9,
    "forget_one": "6 or 7",
    "forget_half": 2,
    "carried": 7,
    "stops": "cat and knight",
    "learns": "only the LSTM with the bias",
    "clipping": "only the one that is clipped",
    "bound": "only in the LSTM",
    "explain": (
        "With forget and input gates at 1 the memory of an LSTM is a sum, which grows without bound by the same amount in each step. "
        "The states of the others lie between -1 and 1, so each further count has to fit into what is left."
    ),
}


def rnn_step(add, x, h):
    return rf.tanh(add(x, h))


def lstm_step(gate, x, h, c):
    keep, take, show = (rf.sigmoid(gate[name](x, h)) for name in ("forget", "input", "output"))
    c = keep * c + take * rf.tanh(gate["new"](x, h))
    return show * rf.tanh(c), c


def gru_step(gate, new_of_x, new_of_h, x, h):
    reset, update = rf.sigmoid(gate["reset"](x, h)), rf.sigmoid(gate["update"](x, h))
    new = rf.tanh(new_of_x(x) + reset * new_of_h(h))
    return (1 - update) * new + update * h


def read(step, x, time, start):
    loop = rf.Loop(axis=time, name="read")
    loop.state.h = start
    for _ in loop:
        loop.state.h = step(loop.unstack(x), loop.state.h)
        states = loop.stack(loop.state.h)
    return states, loop.state.h


counting_unit = 2


def results_of(follow, start, words):
    return [follow(word, start)[0] for word in words]


def final_state(step, x, lengths, start):
    h = start
    for position, frame in enumerate(x.unbind(1)):
        h = torch.where((position < lengths)[:, None], step(frame, h), h)
    return h


def reach(step, x, start, loss):
    h, states = start, []
    for frame in x:
        h = step(frame, h)
        states.append(h)
    return [gradient.norm() for gradient in torch.autograd.grad(loss(h), states)]


def clipped(gradients, limit):
    norm = sum((gradient**2).sum() for gradient in gradients) ** 0.5
    return [gradient * limit / norm if norm > limit else gradient for gradient in gradients]


class PortedGRU(torch.nn.Module):
    def __init__(self, theirs):
        super().__init__()
        self.units = theirs.hidden_size
        self.of_x, self.bias_x = theirs.weight_ih_l0, theirs.bias_ih_l0
        self.of_h, self.bias_h = theirs.weight_hh_l0, theirs.bias_hh_l0

    def forward(self, x):
        h, states = x.new_zeros(len(x), self.units), []
        for frame in x.unbind(1):
            of_x = (frame @ self.of_x.T + self.bias_x).chunk(3, -1)
            of_h = (h @ self.of_h.T + self.bias_h).chunk(3, -1)
            reset = torch.sigmoid(of_x[0] + of_h[0])
            update = torch.sigmoid(of_x[1] + of_h[1])
            new = torch.tanh(of_x[2] + reset * of_h[2])
            h = (1 - update) * new + update * h
            states.append(h)
        return torch.stack(states, 1)
