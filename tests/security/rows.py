"""A row of every table that the console has pages for."""

from __future__ import annotations

from django.contrib.auth.models import Group, User

from examples.geonames.models import City, CountrySummary
from jobs import tokens
from ranges.models import RangeFailure, RangeRun
from tests.factories import make_job, make_queue, make_schedule, make_worker


def rows() -> dict[str, str]:
    """Keys by "app/model", as addresses have them. The token is another superuser's."""
    token, _ = tokens.create(User.objects.create_superuser("owner"), "of the owner")
    run = RangeRun.objects.create(name="matrix.Job", axis={"type": "int"}, lo=0, hi=10)
    failure = RangeFailure.objects.create(run=run, key="7", attempts=3, error="bad", node=None)
    city = City(id=1, name="Oslo", country="NO", latitude=59.9, longitude=10.7, population=1)
    city.save()
    made = {
        "auth/group": Group.objects.create(name="a group"),
        "auth/user": User.objects.create_user("somebody"),
        "geonames/city": city,
        "geonames/countrysummary": CountrySummary.objects.create(
            code="NO",
            cities=1,
            population=1,
            lowest_offset_minutes=60,
            highest_offset_minutes=120,
        ),
        "jobs/apitoken": token,
        "jobs/job": make_job("dead"),
        "jobs/queue": make_queue(),
        "jobs/schedule": make_schedule(),
        "jobs/worker": make_worker(),
        "ranges/rangefailure": failure,
        "ranges/rangerun": run,
    }
    return {name: str(row.pk) for name, row in made.items()}
