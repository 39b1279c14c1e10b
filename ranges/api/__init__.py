"""REST of range runs, under `/api/v1/ranges`.

- `views.py`: list, create, plan, one run.
- `acting.py`: what may be done to a run.
- `pictures.py`: its tree, its coverage, its nodes.
- `failures.py`: what failed in it.
"""
