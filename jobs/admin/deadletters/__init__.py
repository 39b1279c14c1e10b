"""Dead letters: what went wrong, how often and since when, and what to do about it.

Above: how many, how many new by hour, and groups of one type and one kind of error. Below: the jobs
themselves, as the ledger lists them.
"""
