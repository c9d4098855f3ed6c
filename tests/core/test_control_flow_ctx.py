"""Graph-mode bookkeeping: it is kept for programs that ask for it, and changes nothing."""

import rfnb as rf
from rfnb.tensor import ControlFlowContext


def test_the_context_is_that_of_the_with_block_around():
    outer = ControlFlowContext(kind=ControlFlowContext.Types.While, identifier="loop")
    inner = ControlFlowContext(kind=ControlFlowContext.Types.Cond, outer_ctx=outer)
    assert rf.get_current_control_flow_ctx() is None
    with rf.control_flow_ctx(outer) as ctx:
        assert ctx is outer is rf.get_current_control_flow_ctx()
        with rf.control_flow_ctx(inner):
            assert rf.get_current_control_flow_ctx() is inner
            with rf.control_flow_ctx():
                assert rf.get_current_control_flow_ctx() is None
        assert rf.get_current_control_flow_ctx() is outer
    assert rf.get_current_control_flow_ctx() is None
    assert repr(inner) == "ControlFlowContext(cond, inside ControlFlowContext(loop))"
