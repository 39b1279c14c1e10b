"""Range runs in the console.

`run.py` has the addresses; `listing.py` and `rows.py` make the list, `page.py` the page of a run,
`scale.py` and `pictures.py` what its drawing is made of, `lanes.py` and `log.py` two of its parts,
`acting.py` what may be done and does it, `neighbours.py` what other pages show of runs, `failures.py` the keys that would not be processed.
"""

from ranges import console_panel  # noqa: F401  it registers itself
from ranges.admin.failures import RangeFailureAdmin
from ranges.admin.run import RangeRunAdmin

__all__ = ["RangeFailureAdmin", "RangeRunAdmin"]
