"""Who may come in, and what a browser is told to allow.

- `csp.py`: the Content-Security-Policy, and the two exceptions to it.
- `logins.py`: signing in, made slow for those who guess; `tries.py` counts them.

What a person may do is in `jobs.permissions`, keys for programs are in `jobs.tokens`, what readers
see of payloads in `jobs.masking`, and the middleware of the above in `jobs.middleware`.
"""
