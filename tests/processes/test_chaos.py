"""Over many kills at random moments no job is lost, and one that is atomic takes effect once."""

from __future__ import annotations

import pytest

from tests.processes.chaos import JOBS_PER_KILL, run_chaos
from tests.processes.harness import World
from tests.processes.running import amount

KILLS = amount(10, thorough=100)


@pytest.mark.parametrize("kills", [KILLS])
def test_no_job_is_lost_and_atomic_ones_take_effect_exactly_once(world: World, kills: int) -> None:
    report = run_chaos(world.url, kills=kills, seed=kills)

    for fate in report.fates.values():
        assert fate.created == fate.completed == kills * JOBS_PER_KILL // 2
        assert fate.without_effect == 0
    assert report.fates["prove.atomic"].with_repeated_effects == 0
    assert report.outcomes["lost"] > 0  # else nobody was hit
    world.history_is_consistent()
    # Nothing is left behind: no lease, no edge, no live row of a dead worker.
    assert world.one("SELECT count(*) FROM jobs_job WHERE worker_id IS NOT NULL") == 0
