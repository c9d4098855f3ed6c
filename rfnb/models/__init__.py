"""Models made with rfnb, and the scripts that trained them.

from rfnb.models import load_g2p, pronounce

pronounce(load_g2p(), "phonetics")
"""

from rfnb.models.g2p import G2P as G2P
from rfnb.models.g2p import SMALL as SMALL
from rfnb.models.g2p import G2PConfig as G2PConfig
from rfnb.models.g2p_checkpoint import load_g2p as load_g2p
from rfnb.models.g2p_checkpoint import save_g2p as save_g2p
from rfnb.models.g2p_live import train_live as train_live
from rfnb.models.g2p_search import Pronunciation as Pronunciation
from rfnb.models.g2p_search import beam_search as beam_search
from rfnb.models.g2p_search import evaluate as evaluate
from rfnb.models.g2p_search import greedy as greedy
from rfnb.models.g2p_search import pronounce as pronounce
from rfnb.models.g2p_search import score as score
from rfnb.nn.module.checkpoint import CheckpointError as CheckpointError
