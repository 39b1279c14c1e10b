"""The page of one job: how it stands, why, what it did, what it holds, and what may be done.

`reading.py` gathers it, `timeline.py`, `tracebacks.py`, `trees.py` and `graph.py` prepare its parts,
`buttons.py` says what may be done, `acting.py` does it, `editing.py` changes a payload.
"""
