"""`rf.audio`: the documented place of the ops on audio."""

from rfnb.nn.specaugment import specaugment as specaugment
from rfnb.ops.mel import log_mel_filterbank_from_raw as log_mel_filterbank_from_raw
from rfnb.ops.mel import mel_filterbank as mel_filterbank
from rfnb.ops.random_mask import mask as mask
from rfnb.ops.random_mask import random_mask as random_mask
