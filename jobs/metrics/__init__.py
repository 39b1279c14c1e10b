"""What Prometheus reads at `/metrics`: about all of Coppice, not about this process.

    metrics.read_from("ranges.metrics")             # in an app's `ready`

    @part("ranges")                                 # in that module, from jobs.metrics.gathering
    def runs(database) -> Iterator[Metric]: ...     # bounded work, bounded labels

Everything is read from the database and from Redis, so every web process answers alike: one of them
is enough to scrape. What is read is kept for a second, so that a storm of scrapes costs what one
does. A part that took too long is left out, and `coppice_metrics_incomplete` says so.

- `figures.py`: the parts about jobs, queues, workers and events.
- `gathering.py`: reads all parts, and keeps them.
- `view.py`: who may ask, and in which form.
"""

modules = ["jobs.metrics.figures"]
"""Imported at the first scrape: other processes have no use for them."""


def read_from(module: str) -> None:
    if module not in modules:
        modules.append(module)
