"""Tensor, Dim and related names, in the module where the documentation has them.

from rfnb.tensor import Tensor, Dim, TensorDict, batch_dim
"""

from rfnb.core.control_flow_ctx import ControlFlowContext as ControlFlowContext
from rfnb.core.dim import Dim as Dim
from rfnb.core.dim import batch_dim as batch_dim
from rfnb.core.dim import single_step_dim as single_step_dim
from rfnb.core.marked_dim import ImplicitDim as ImplicitDim
from rfnb.core.marked_dim import ImplicitDynSizeDim as ImplicitDynSizeDim
from rfnb.core.marked_dim import ImplicitSparseDim as ImplicitSparseDim
from rfnb.core.marked_dim import MarkedDim as MarkedDim
from rfnb.core.marked_dim import OptionalDim as OptionalDim
from rfnb.core.tensor import Tensor as Tensor
from rfnb.core.tensor import VerifyOutShapeException as VerifyOutShapeException
from rfnb.core.tensor_dict import TensorDict as TensorDict
from rfnb.tensor import utils as utils
