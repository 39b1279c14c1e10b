from __future__ import annotations

import string
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.texts import clean, describe_error, fingerprint, format_traceback, normalise


def is_storable(text: str) -> bool:
    return not any(c == "\x00" or 0xD800 <= ord(c) <= 0xDFFF for c in text)


@settings(deadline=None)
@given(st.text(), st.integers(0, 60), st.booleans())
def test_clean_text_is_storable_within_the_limit_and_stays_as_it_is(
    text: str, limit: int, middle: bool
) -> None:
    cleaned = clean(text, limit, middle=middle)
    assert is_storable(cleaned)
    assert len(cleaned) <= limit
    assert clean(cleaned, limit, middle=middle) == cleaned
    if is_storable(text) and len(text) <= limit:
        assert cleaned == text


def test_nul_and_lone_surrogates_become_replacement_characters() -> None:
    assert clean("a\x00b\ud800c😀", 10) == "a\ufffdb\ufffdc😀"


def test_a_cut_shows() -> None:
    assert clean("abcdefgh", 5) == "abcd…"
    cut = clean("start" + "x" * 1000 + "end", 60, middle=True)
    assert cut.startswith("start")
    assert cut.endswith("end")
    assert "characters" in cut


# Errors


class Broken(Exception):
    def __init__(self, told: Any) -> None:
        self.told = told

    def __str__(self) -> str:
        if isinstance(self.told, Exception):
            raise self.told
        told: str = self.told  # which it need not be
        return told


def endless() -> int:
    return endless() + 1


def raised(error: BaseException) -> BaseException:
    try:
        raise error
    except BaseException as caught:  # noqa: BLE001 - whatever it was handed
        return caught


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("message"), "ValueError: message"),
        (ValueError(), "ValueError"),
        (KeyError("name"), "KeyError: 'name'"),
        (KeyboardInterrupt(), "KeyboardInterrupt"),
        (ValueError("a\x00\udc80"), "ValueError: a\ufffd\ufffd"),
        (Broken(RuntimeError("no")), "Broken: <its message could not be read: RuntimeError>"),
        (Broken(None), "Broken: <its message could not be read: TypeError>"),
        (Broken(b"bytes"), "Broken: <its message could not be read: TypeError>"),
    ],
)
def test_an_error_is_described_whatever_its_message_is(error: BaseException, text: str) -> None:
    assert describe_error(error) == text
    assert text in format_traceback(raised(error), 5000)


def test_an_error_whose_message_never_ends_is_described() -> None:
    class Deep(Exception):
        def __str__(self) -> str:
            return str(self)

    assert describe_error(Deep()).startswith("Deep: <its message")


@settings(deadline=None)
@given(st.text(), st.integers(1, 400))
def test_texts_about_errors_are_storable_and_bounded(message: str, limit: int) -> None:
    error = raised(ValueError(message))
    error.add_note(message)
    for text in (describe_error(error, limit), format_traceback(error, limit)):
        assert is_storable(text)
        assert len(text) <= limit


def test_a_traceback_names_the_line_and_the_error() -> None:
    text = format_traceback(raised(ValueError("message")), 5000)
    assert text.startswith("Traceback (most recent call last):")
    assert "raise error" in text
    assert text.endswith("ValueError: message")


def test_endless_recursion_gives_both_ends_of_the_stack() -> None:
    with pytest.raises(RecursionError) as caught:
        endless()
    text = format_traceback(caught.value, 20_000)
    assert "frames are left out" in text
    assert text.endswith("RecursionError: maximum recursion depth exceeded")
    assert len(text.splitlines()) < 200


def test_causes_come_first_and_suppressed_contexts_do_not_come() -> None:
    cause, context, error = ValueError("first"), KeyError("hidden"), RuntimeError("last")
    error.__context__ = context
    error.__cause__ = cause
    text = format_traceback(error, 5000)
    assert text.index("ValueError: first") < text.index("direct cause") < text.index("last")
    assert "hidden" not in text
    error.__cause__ = None
    assert "hidden" not in format_traceback(error, 5000)
    error.__suppress_context__ = False
    assert "While the exception above was handled" in format_traceback(error, 5000)


def test_a_long_or_circular_chain_is_cut() -> None:
    error: BaseException = ValueError("oldest")
    for number in range(50_000):
        error, older = RuntimeError(f"error {number}"), error
        error.__cause__ = older
    text = format_traceback(error, 20_000)
    assert "older exceptions of the chain are left out" in text
    assert text.endswith("RuntimeError: error 49999")
    assert len(text) < 3000

    one, two = ValueError("one"), ValueError("two")
    one.__cause__, two.__cause__ = two, one
    assert format_traceback(one, 5000).count("ValueError: one") == 1


def test_a_group_shows_its_members_and_is_bounded() -> None:
    members: list[Exception] = [ValueError("a"), KeyError("b")]
    text = format_traceback(raised(ExceptionGroup("both", members)), 5000)
    assert "--- 2 of 2 ---" in text
    assert "ValueError: a" in text
    assert "KeyError: 'b'" in text

    wide = ExceptionGroup("wide", [ValueError(str(number)) for number in range(10_000)])
    assert "9992 more exceptions are left out" in format_traceback(wide, 20_000)
    deep: Exception = ValueError("bottom")
    for _ in range(500):
        deep = ExceptionGroup("deep", [deep])
    assert "deeper in the group are left out" in format_traceback(deep, 20_000)


def test_notes_are_shown_whatever_they_are() -> None:
    error: Any = ValueError("message")
    error.__notes__ = ["see the log", 7]
    assert "see the log" in format_traceback(error, 500)
    error.__notes__ = 7
    assert format_traceback(error, 500) == "ValueError: message"


# Grouping


@pytest.mark.parametrize(
    ("message", "normal"),
    [
        ("row 17 of 20 is bad", "row <n> of <n> is bad"),
        ("took 1.5e-3 s, limit 1,000", "took <n> s, limit <n>"),
        ("no user 6f1c2f0e-9a53-4d0e-8f0e-3d1c5b7a9e10", "no user <uuid>"),
        ("at 2026-03-29T02:30:00.123+01:00 it broke", "at <time> it broke"),
        ("at 2026-03-29 02:30:00 it broke", "at <time> it broke"),
        ("on 2026-03-29 it broke", "on <time> it broke"),
        ("object at 0x7f3a2b1c", "object at <hex>"),
        ("commit deadbeef01 is unknown", "commit <hex> is unknown"),
        ("can't open 'my file.txt'", "can't open <text>"),
        ("can't open 'it's.txt' or \"b\"", "can't open <text> or <text>"),
        ("cannot read /var/lib/app/7.json", "cannot read <path>"),
        ("GET https://example.org/a?b=1 failed", "GET <path> failed"),
        ("cannot read C:\\temp\\x.txt, sorry", "cannot read <path>, sorry"),
        ("ids 1, 2, 3 are gone", "ids <n>, … are gone"),
        ("read and/or write", "read and/or write"),
        ("many\n   lines\there", "many lines here"),
        ("", ""),
    ],
)
def test_what_varies_in_a_message_is_replaced_by_its_kind(message: str, normal: str) -> None:
    assert normalise(message) == normal


@settings(deadline=None)
@given(st.text(max_size=200) | st.text(string.printable + "…", max_size=200))
def test_any_message_has_a_storable_normal_form_and_a_fingerprint(message: str) -> None:
    assert is_storable(normalise(message))
    assert len(fingerprint("ValueError", message)) == 16


@settings(deadline=None)
@given(
    st.text(string.ascii_lowercase + " ", min_size=1),
    st.integers(min_value=0),
    st.integers(min_value=0),
    st.uuids(),
    st.uuids(),
)
def test_errors_that_differ_only_in_values_have_one_fingerprint(
    words: str, first: int, second: int, one: Any, two: Any
) -> None:
    assert fingerprint("KeyError", f"{words} {first} '{one}' {one} x") == fingerprint(
        "KeyError", f"{words} {second} '{two}' {two} x"
    )


@settings(deadline=None)
@given(st.text(string.ascii_lowercase), st.text(string.ascii_lowercase))
def test_errors_of_other_words_or_classes_have_other_fingerprints(one: str, two: str) -> None:
    assert (fingerprint("E", one) == fingerprint("E", two)) == (normalise(one) == normalise(two))
    assert fingerprint("KeyError", one) != fingerprint("ValueError", one)


def test_a_message_made_of_quotes_or_digits_is_normalised_without_delay() -> None:
    for part in ("'", '"', "'a", "1,", "a-", "/", "0x", "12:", "a" * 10 + "-", "'a'b"):
        assert normalise(part * 1_000_000) is not None
