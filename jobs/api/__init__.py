"""The REST API under `/api/v1`. Views translate; what may be done is decided in `lifecycle`.

- `base.py`: who is asked for, how an error becomes an answer. Every view builds on it.
- `urls.py`: the routes.
"""
