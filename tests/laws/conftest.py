import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # laws, table and world are shared by the tests here
