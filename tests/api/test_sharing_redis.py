"""Two projects, or two environments of one, with one Redis between them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
import redis

from jobs import conf, version
from jobs.console import kept, sample
from jobs.errors import SettingsError
from jobs.events import Event
from jobs.live import stream
from jobs.live.positions import START
from jobs.metrics import gathering
from jobs.publishing import Publisher
from tests.api.conftest import Api

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _nothing_known() -> Iterator[None]:
    yield
    sample.forget()
    kept.forget()
    gathering.forget()


def use_everything(api: Api, redis_url: str, prefix: str) -> None:
    publisher = Publisher(redis_url, queue_length=1, prefix=prefix)
    publisher.put([Event("job.created")] * publisher.room("job.created", 10))
    assert publisher.flush(30)
    publisher.close()
    sample.forget()
    kept.forget()
    client = api("Viewer")
    for path in ("/api/v1/queues", "/metrics"):
        gathering.forget()
        assert client.get(path).status_code == 200, path
    sample.current()
    kept.kept("told", 1.0, lambda: prefix)


def test_each_with_a_prefix_of_its_own_they_share_no_key(
    api: Api, redis_url: str, settings: Any
) -> None:
    settings.COPPICE_REDIS_URL = redis_url
    with redis.Redis.from_url(redis_url) as client:
        settings.COPPICE_REDIS_PREFIX = "shop:"
        use_everything(api, redis_url, "shop:")
        keys = [key.decode() for key in client.scan_iter("*")]
        assert {"shop:coppice:events", "shop:coppice:events:left-out"} <= {*keys}
        assert {"shop:coppice:live:stats"} <= {*keys}
        assert [key for key in keys if "shop:coppice:" not in key] == []
        assert len(keys) > 5  # the cache's too
        assert stream.end(stream.client()) != START
        [left_out] = [
            metric for metric in gathering.current() if metric.name == "coppice_events_dropped"
        ]
        assert left_out.samples

        settings.COPPICE_REDIS_PREFIX = "post:"
        assert stream.end(stream.client()) == START
        use_everything(api, redis_url, "post:")
        assert kept.recall("told").value == "post:"
        settings.COPPICE_REDIS_PREFIX = "shop:"
        assert kept.recall("told").value == "shop:"


def test_during_a_deploy_no_process_takes_what_another_version_has_read(
    redis_url: str, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.COPPICE_REDIS_URL = redis_url
    for number in ("1.0", "1.1"):
        monkeypatch.setattr(version, "ours", partial(str, number))
        kept.forget("told")
        sample.forget()
        assert kept.kept("told", 60.0, partial(str, number)) == number
        assert "at" in sample.current()
    monkeypatch.setattr(version, "ours", lambda: "1.0")
    assert kept.recall("told").value == "1.0"


@pytest.mark.parametrize("prefix", ["a b", "\n", "*", "x" * 101])
def test_a_prefix_that_a_cache_would_refuse_is_refused_at_start(prefix: str) -> None:
    with pytest.raises(SettingsError, match="COPPICE_REDIS_PREFIX"):
        conf.load({"COPPICE_REDIS_PREFIX": prefix}.get)
