"""The list of jobs: what the address asks for, the page that answers, and what is done to many.

`search.py` reads the search box, `asking.py` the whole address, `reading.py` gets the rows,
`columns.py` says what a row shows, `acting.py` changes what is selected, `exporting.py` streams.
"""
