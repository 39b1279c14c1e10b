"""The page of events: the log of all jobs, to be searched, followed and downloaded.

`asking.py` reads the address, `reading.py` walks the log, `lines.py` says what somebody sees of a
line, `exporting.py` streams, `showing.py` has the pages.
"""

from jobs.admin.events import showing  # noqa: F401  it registers its pages
