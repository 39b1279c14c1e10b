"""What the environment may say, and what is answered when it is wrong."""

import pytest

from config.environment import Environment, WrongEnvironment, _Reader

SECRET_KEY = "x1y2z3" * 10
PRODUCTION = {
    "ALLOWED_HOSTS": "console.example.org",
    "DATABASE_URL": "postgresql://alice:secret@db.example.org:6432/coppice?sslmode=verify-full",
    "REDIS_URL": "rediss://:secret@redis.example.org:6380/0",
    "SECRET_KEY": SECRET_KEY,
}


def read(**changes: str) -> Environment:
    return _Reader({**PRODUCTION, **changes}).read()


def problems(**changes: str) -> list[str]:
    with pytest.raises(WrongEnvironment) as raised:
        read(**changes)
    return raised.value.problems


def test_production_is_closed_unless_told_otherwise() -> None:
    environment = read()
    assert not environment.debug
    assert not environment.demo
    assert environment.https
    assert environment.cors_allowed_origins == []


def test_an_empty_environment_is_a_checkout_to_try_out() -> None:
    environment = _Reader({}).read()
    assert environment.debug
    assert not environment.https
    assert len(environment.secret_key) >= 50
    assert environment.secret_key == _Reader({}).read().secret_key


def test_an_empty_value_counts_as_not_given() -> None:
    assert read(REDIS_URL="", LOG_LEVEL="").log_level == "INFO"


def test_a_database_alone_is_not_enough_for_production() -> None:
    with pytest.raises(WrongEnvironment) as raised:
        _Reader({"DATABASE_URL": PRODUCTION["DATABASE_URL"]}).read()
    assert [problem.split(":")[0] for problem in raised.value.problems] == [
        "SECRET_KEY",
        "ALLOWED_HOSTS",
    ]


def test_all_problems_are_told_at_once() -> None:
    told = problems(DEBUG="perhaps", LOG_LEVEL="loud", REDIS_URL="http://x", EMAIL_URL="x://y")
    assert len(told) == 4


@pytest.mark.parametrize(
    ("key", "value", "right"),
    [
        ("ALLOWED_HOSTS", "https://console.example.org", "host name"),
        ("CORS_ALLOWED_ORIGINS", "console.example.org", "https://console.example.org"),
        ("CSRF_TRUSTED_ORIGINS", "https://a.example.org/path", "https://console.example.org"),
        ("DATABASE_URL", "mysql://host/name", "postgresql://"),
        ("DATABASE_URL", "postgresql://host:5432", "name is missing"),
        ("DATABASE_URL", "postgresql://host/name?sslmud=require", "sslmud"),
        ("DATABASE_DIRECT_URL", "host", "postgresql://"),
        ("DEBUG", "perhaps", "true or false"),
        ("EMAIL_URL", "carrier-pigeon://loft", "smtp+tls://"),
        ("EMAIL_URL", "smtp://mail:port", "smtp+tls://"),
        ("LOG_LEVEL", "loud", "DEBUG, INFO"),
        ("REDIS_URL", "memcached://host", "redis://"),
        ("SECRET_KEY", "short", "50"),
    ],
)
def test_a_wrong_value_is_answered_with_its_key_and_what_would_be_right(
    key: str, value: str, right: str
) -> None:
    (problem,) = problems(**{key: value})
    assert problem.startswith(key)
    assert right in problem


def test_no_password_or_key_is_repeated_in_a_message() -> None:
    told = problems(
        DATABASE_URL="mysql://alice:hunter2@host/name",
        REDIS_URL="memcached://:hunter2@host",
        EMAIL_URL="pigeon://alice:hunter2@host",
        SECRET_KEY="hunter2",
    )
    assert len(told) == 4
    assert "hunter2" not in "".join(told)


def test_settings_of_the_product_pass_through_as_text() -> None:
    given = {"COPPICE_AGING_MINUTES": "0", "COPPICE_TEST_SYSTEM_POSTGRES": "1"}
    assert read(**given).coppice == {"COPPICE_AGING_MINUTES": "0"}


def test_a_mail_server_becomes_the_default_mailer() -> None:
    mailer = read(EMAIL_URL="smtp+tls://alice:p%40ss@mail.example.org:587").mailer
    assert mailer == {
        "BACKEND": "django.core.mail.backends.smtp.EmailBackend",
        "OPTIONS": {
            "host": "mail.example.org",
            "port": 587,
            "username": "alice",
            "password": "p@ss",
            "use_tls": True,
        },
    }


def test_a_direct_connection_needs_one_to_pass_by() -> None:
    with pytest.raises(WrongEnvironment) as raised:
        _Reader({"DATABASE_DIRECT_URL": PRODUCTION["DATABASE_URL"]}).read()
    assert "DATABASE_URL" in raised.value.problems[0]
