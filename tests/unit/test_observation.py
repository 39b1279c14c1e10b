"""Who is called dead, and above all who is not."""

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from worker.observation import Observer, OrphanWatch, Sighting, Verdict

DEAD_AFTER, LOCK_FREE, LOOK = 15.0, 3.0, 0.5
SERVER = "started at noon"


@dataclass
class Watcher:
    """An observer with a clock that the test moves."""

    observer: Observer = field(
        default_factory=lambda: Observer(
            dead_after=DEAD_AFTER, lock_free=LOCK_FREE, longest_gap=2 * LOOK
        )
    )
    now: float = 100.0
    server: str = SERVER

    def look(self, *sightings: Sighting, after: float = LOOK) -> list[Verdict]:
        self.now += after
        return self.observer.look(self.now, self.server, sightings)

    def seconds_until_dead(self, sighting: Sighting, limit: float = 60.0) -> float:
        """Look on and on at a worker that does not change."""
        start = self.now
        while self.now - start < limit:
            if self.look(sighting):
                return self.now - start
        return limit


def worker(beats: int = 7, *, free: bool = False, id: str = "w") -> Sighting:
    return Sighting(worker_id=id, beats=beats, lock_is_free=free)


def test_a_worker_whose_beat_stands_still_for_the_whole_time_is_dead() -> None:
    watcher = Watcher()

    assert DEAD_AFTER <= watcher.seconds_until_dead(worker()) <= DEAD_AFTER + 2 * LOOK


def test_a_free_session_lock_shortens_the_wait() -> None:
    watcher = Watcher()

    assert LOCK_FREE <= watcher.seconds_until_dead(worker(free=True)) <= LOCK_FREE + 2 * LOOK


def test_a_verdict_names_the_beats_it_rests_on() -> None:
    watcher = Watcher()
    watcher.seconds_until_dead(worker(beats=41))

    (verdict,) = watcher.look(worker(beats=41))

    assert (verdict.worker_id, verdict.beats) == ("w", 41)
    assert "no beat" in verdict.reason


def test_a_worker_that_beats_lives_although_its_lock_is_free() -> None:
    watcher = Watcher()

    for beats in range(200):
        assert watcher.look(worker(beats=beats // 4, free=True)) == []


def test_a_lock_that_was_free_for_one_look_only_does_not_shorten_the_wait() -> None:
    watcher = Watcher()
    for _ in range(20):
        watcher.look(worker())

    assert watcher.look(worker(free=True)) == []
    assert watcher.look(worker(free=False)) == []
    assert watcher.look(worker(free=True)) == []
    assert watcher.look(worker(free=True)) != []


def test_a_new_observer_gives_everybody_the_full_time() -> None:
    watcher = Watcher()

    assert watcher.look(worker(beats=0), after=10_000.0) == []


def test_a_server_restart_begins_observation_anew() -> None:
    watcher = Watcher()
    for _ in range(int(DEAD_AFTER / LOOK) - 1):
        assert watcher.look(worker(free=True, id="other"), worker()) is not None
    watcher.server = "started later"

    assert watcher.seconds_until_dead(worker()) >= DEAD_AFTER


def test_a_reconnect_begins_observation_anew() -> None:
    watcher = Watcher()
    for _ in range(int(DEAD_AFTER / LOOK)):
        watcher.look(worker())
    watcher.observer.begin_anew()

    assert watcher.seconds_until_dead(worker()) >= DEAD_AFTER


def test_an_observer_that_was_frozen_has_seen_nothing_meanwhile() -> None:
    watcher = Watcher()
    watcher.look(worker())

    assert watcher.look(worker(), after=3_600.0) == []


def test_workers_are_judged_one_by_one() -> None:
    watcher = Watcher()

    dead: set[str] = set()
    for turn in range(40):
        dead |= {
            verdict.worker_id
            for verdict in watcher.look(worker(id="still"), worker(id="alive", beats=turn))
        }

    assert dead == {"still"}


def test_a_worker_that_went_away_and_came_back_starts_anew() -> None:
    watcher = Watcher()
    for _ in range(int(DEAD_AFTER / LOOK) - 1):
        watcher.look(worker())
    watcher.look()

    assert watcher.seconds_until_dead(worker()) >= DEAD_AFTER


@given(
    st.lists(
        st.tuples(
            st.floats(min_value=0.0, max_value=100.0),  # seconds since the last look
            st.booleans(),  # whether the worker has beaten since
            st.booleans(),  # whether its lock is free
            st.sampled_from(["look", "look", "look", "reconnect", "restart"]),
        ),
        max_size=200,
    )
)
def test_nobody_is_dead_whose_beat_moved_within_the_shorter_time(
    story: list[tuple[float, bool, bool, str]],
) -> None:
    watcher = Watcher()
    beats, still_since = 0, watcher.now
    for gap, has_beaten, is_free, happening in story:
        if happening == "reconnect":
            watcher.observer.begin_anew()
        if happening == "restart":
            watcher.server += "."
        if has_beaten:
            beats += 1
        verdicts = watcher.look(worker(beats=beats, free=is_free), after=gap)
        if has_beaten or happening != "look":
            still_since = watcher.now
        if verdicts:
            assert watcher.now - still_since >= LOCK_FREE - 1e-6


def test_an_owner_is_an_orphans_only_after_it_was_seen_for_long_enough() -> None:
    watch = OrphanWatch(after=3.0)

    assert watch.look(0.0, ["a"]) == []
    assert watch.look(2.0, ["a", "b"]) == []
    assert watch.look(3.0, ["a", "b"]) == ["a"]


def test_an_owner_that_was_gone_in_between_is_watched_anew() -> None:
    watch = OrphanWatch(after=3.0)
    watch.look(0.0, ["a"])
    watch.look(2.0, [])

    assert watch.look(4.0, ["a"]) == []
    assert watch.look(7.0, ["a"]) == ["a"]
