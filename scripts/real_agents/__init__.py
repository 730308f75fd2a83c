"""Real agents, and the strict scripted upstreams that they work with: see ``scripts/try_agents.py``.

The doubles of the tests serve here too.
"""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "tests"))
