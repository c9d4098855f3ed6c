"""A training that is killed from outside: it prints each logged update, and continues until it is killed.

python killed_training.py FILE
"""

import itertools
import sys

import torch
from interop.watch.watched_models import Tagger, batches, loss_of, made

import rfnb as rf

model = made(Tagger)
optimizer = torch.optim.Adam(model.parameters())
data = batches(6)
watch = rf.watch(model, optimizer, example=data[0], save=sys.argv[1])
for update in itertools.count(1):
    optimizer.zero_grad()
    loss = loss_of(model, data[update % 6])
    loss.backward()
    optimizer.step()
    watch.log(loss=loss)
    if update % 5 == 0:
        watch.epoch()
    print(update, loss.item().hex(), flush=True)
