"""What stands beside the code for those who deploy it: .env.example, Dockerfile and compose.yaml."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import yaml

from jobs import conf
from worker.options import Options

CHECKOUT = Path(__file__).resolve().parents[2]
OURS = {f"COPPICE_{field.name.upper()}" for field in fields(conf.Settings)}


def text_of(name: str) -> str:
    return (CHECKOUT / name).read_text(encoding="utf-8")


def services() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(text_of("compose.yaml"))["services"]
    return found


def documented() -> set[str]:
    """The variables of the page, which another test compares with the code."""
    page = text_of("docs/operating.md").partition("\n## Environment\n")[2].partition("\n## ")[0]
    return set(re.findall(r"^\| `([A-Z_]+)`", page, re.MULTILINE))


def test_the_example_names_each_variable_that_is_read_and_no_other() -> None:
    named = set(re.findall(r"^#?([A-Z_]+)=", text_of(".env.example"), re.MULTILINE))
    of_compose = set(re.findall(r"\$\{([A-Z_]+)", text_of("compose.yaml"))) - documented()
    assert named - OURS == documented() | of_compose


def test_no_variable_of_a_developer_reaches_the_checks() -> None:
    (clean,) = re.findall(r"^CLEAN_ENV := ((?:.*\\\n)*.*)$", text_of("Makefile"), re.MULTILINE)
    assert set(re.findall(r"\b([A-Z_]+)=(?:\s|$)", clean)) == documented()


def test_what_compose_sets_is_read() -> None:
    for name in ("migrate", "web", "worker"):
        service = services()[name]
        assert set(service["environment"]) <= documented()
        assert service["env_file"] == ".env"


def test_a_container_has_longer_to_stop_than_its_worker_takes() -> None:
    seconds = int(services()["worker"]["stop_grace_period"].removesuffix("s"))
    assert seconds > Options.graceful_timeout + conf.Settings.grace_seconds + 10


def test_the_image_has_all_that_the_wheel_has_and_runs_as_nobody_in_particular() -> None:
    image = text_of("Dockerfile")
    copied = {
        word for line in re.findall(r"^COPY (.+)$", image, re.MULTILINE) for word in line.split()
    }
    allowed = set(re.findall(r"^!(\S+)$", text_of(".dockerignore"), re.MULTILINE))
    assert {"LICENSE", "config", "jobs", "ranges", "static", "templates", "worker"} <= copied
    assert {name.partition("/")[0] for name in copied if not name.startswith(".")} == allowed
    assert f"FROM python:{text_of('.python-version').strip()}-" in image
    (user,) = re.findall(r"^USER (\S+)$", image, re.MULTILINE)
    assert int(user) > 0
    assert re.findall(r"^(?:CMD|ENTRYPOINT) (.)", image, re.MULTILINE) == ["["]
