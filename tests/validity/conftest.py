"""Makes the evidence of these tests, the toy worker and the report's builder importable."""

import sys
from pathlib import Path

TESTS = Path(__file__).parent.parent
sys.path[:0] = [str(TESTS / name) for name in ("validity", "toy", "reports")]
