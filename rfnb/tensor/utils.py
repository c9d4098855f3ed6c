"""The documented module of the functions that make random test data, which are in `rfnb/core/random_data.py`."""

from rfnb.core.random_data import get_random_seq_lens_for_dyn_dims as get_random_seq_lens_for_dyn_dims
from rfnb.core.random_data import tensor_dict_dims_random_seq_len_min_max as tensor_dict_dims_random_seq_len_min_max
from rfnb.core.random_data import tensor_dict_fill_random_numpy_ as tensor_dict_fill_random_numpy_
from rfnb.core.random_data import tensor_fill_random_numpy_ as tensor_fill_random_numpy_
