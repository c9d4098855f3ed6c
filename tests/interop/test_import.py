"""Modules that need torch are imported on first use."""

import subprocess
import sys

from waiting import LONG


def test_import_of_rfnb_loads_no_torch():
    script = "import sys, rfnb; assert rfnb.load_torch_checkpoint; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], timeout=LONG).returncode == 0
