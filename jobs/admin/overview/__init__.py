"""The first page of the console: is all well, how fast does it go, and what needs a person.

`panels.py` puts the parts onto the page; each reads what it shows in a bounded number of indexed
reads, which all open pages share (`jobs.console.kept`): `numbers.py` the cards, `health.py` the line
above them, `figures.py` the charts, `active.py` what runs, `flows.py` queues, `fleet.py` workers,
`letters.py` groups of dead letters, `log.py` what happened last.
"""
