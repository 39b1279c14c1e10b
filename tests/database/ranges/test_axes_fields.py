"""The axis of a model field is found by the type of its column."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest
from django.db import models
from django.test.utils import isolate_apps

from jobs.errors import InvalidInput
from jobs.models import Attempt, Job
from ranges.axes import (
    Axis,
    DataAxis,
    DateAxis,
    DateTimeAxis,
    DecimalAxis,
    FloatAxis,
    IntAxis,
    TextAxis,
    UUIDAxis,
    axis_for_field,
)

BIGINT = IntAxis(sql_type="bigint")


class CitextField(models.TextField):  # type: ignore[type-arg]
    def db_type(self, connection: Any) -> str:
        return "citext"


@pytest.mark.parametrize(
    ("field", "axis"),
    [
        (models.AutoField(primary_key=True), BIGINT),
        (models.BigAutoField(primary_key=True), BIGINT),
        (models.SmallIntegerField(), BIGINT),
        (models.PositiveBigIntegerField(), BIGINT),
        (models.DateField(), DateAxis()),
        (models.DateTimeField(), DateTimeAxis()),
        (models.UUIDField(), UUIDAxis()),
        (models.DecimalField(max_digits=9, decimal_places=3), DecimalAxis(decimal_places=3)),
        (models.FloatField(), FloatAxis()),
        (models.CharField(max_length=9), TextAxis()),
        (models.CharField(max_length=9, db_collation="de-x-icu"), TextAxis()),
        (models.TextField(), TextAxis()),
        (models.SlugField(), TextAxis()),
        (models.EmailField(), TextAxis()),
        (CitextField(), DataAxis(sql_type="citext")),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_field_has_the_axis_of_its_column(field: models.Field[Any, Any], axis: Axis[Any]) -> None:
    assert axis_for_field(field) == axis


def test_text_can_be_walked_in_the_collation_of_its_index() -> None:
    field: models.CharField[Any, Any] = models.CharField(max_length=9)

    assert axis_for_field(field, collation="POSIX") == TextAxis(collation="POSIX")
    assert axis_for_field(field, collation="de-x-icu") == DataAxis(collation="de-x-icu")


def test_a_foreign_key_has_the_axis_of_its_target() -> None:
    target = axis_for_field(Job._meta.get_field("id"))

    assert axis_for_field(Attempt._meta.get_field("job")) == target == UUIDAxis()


@isolate_apps("ranges")
def test_a_chain_of_foreign_keys_is_followed_to_its_end() -> None:
    class Country(models.Model):  # noqa: DJ008
        code: ClassVar = models.CharField(max_length=2, unique=True)

        class Meta:
            app_label = "ranges"

    class Capital(models.Model):  # noqa: DJ008
        country: ClassVar = models.OneToOneField(
            Country, models.CASCADE, to_field="code", primary_key=True
        )

        class Meta:
            app_label = "ranges"

    class Visit(models.Model):  # noqa: DJ008
        capital: ClassVar = models.ForeignKey(Capital, models.CASCADE)

        class Meta:
            app_label = "ranges"

    assert axis_for_field(Visit.capital.field) == TextAxis()


@pytest.mark.parametrize(
    ("field", "reason"),
    [
        (models.DurationField(), "is a duration, which cannot be cut into ranges"),
        (models.DecimalField(), "needs decimal_places"),
        (models.BooleanField(), "has the column type boolean"),
        (models.JSONField(), "has the column type jsonb"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_field_that_has_no_axis_is_refused_by_its_name(
    field: models.Field[Any, Any], reason: str
) -> None:
    field.set_attributes_from_name("since")

    with pytest.raises(InvalidInput, match=f"^since: {reason}"):
        axis_for_field(field)
