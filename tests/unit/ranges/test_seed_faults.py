"""The forty-four faults of the seed Parcelo 1.0.2, and what shows that they are not repeated here.

Each line: what went wrong there, and the tests that would fail if it went wrong here. A test of this
file sees to it that those tests exist.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[2]

UNIT = "unit/ranges"
DATABASE = "database/ranges"
WORKERS = "processes"

FAULTS: dict[int, tuple[str, dict[str, tuple[str, ...]]]] = {
    # Silent data loss
    1: (
        "an error in should_process skipped the whole subtree",
        {
            f"{UNIT}/test_memory_faults": ("a_should_process_that_raises_skips_nothing",),
            f"{UNIT}/test_walking": ("only_false_skips_and_only_what_was_asked_about",),
            f"{DATABASE}/test_lane_trouble": ("only_false_skips_a_block",),
        },
    ),
    2: (
        "a block with migrated ends was skipped with its unmigrated middle",
        {
            f"{UNIT}/test_memory_faults": (
                "an_unmigrated_middle_is_processed_when_both_ends_are_migrated",
            ),
            f"{DATABASE}/test_querying": (
                "finished_first_and_last_keys_say_nothing_about_those_between",
            ),
        },
    ),
    3: (
        "a gap between ids broke the question, and so skipped users",
        {f"{UNIT}/test_memory_faults": ("id_gaps_that_break_the_question_lose_no_user",)},
    ),
    4: (
        "every 10,000th was found four times instead of a hundred, or never",
        {
            f"{UNIT}/test_memory_faults": (
                "every_ten_thousandth_key_is_found_by_a_question_about_the_block",
                "a_rule_for_leaves_alone_is_not_applied_to_inner_blocks",
            )
        },
    ),
    5: (
        "weekdays were lost with a block that began on a weekend, and the last second of the year",
        {
            f"{UNIT}/test_memory_faults": ("weekdays_are_all_processed_and_weekends_are_not",),
            f"{UNIT}/test_axes_faults": (
                "the_last_second_of_a_day_is_not_lost",
                "the_same_bounds_mean_the_same_instants_in_every_zone",
            ),
        },
    ),
    6: (
        "a scan that saw the parent done and the children not yet ended the job too early",
        {
            f"{DATABASE}/test_nodes_machine": (
                "random_work_thefts_failures_and_deaths_never_break_the_chain_or_the_ledger",
            ),
            f"{DATABASE}/test_lane_tables": (
                "nodes_that_do_not_cover_the_range_never_complete_a_run",
            ),
        },
    ),
    7: (
        "reading, changing and writing back undid a pause, a cancel, or the end of a node",
        {
            f"{DATABASE}/test_nodes": ("a_commit_answers_with_the_run_as_it_stands",),
            f"{DATABASE}/test_nodes_races": (
                "thieves_a_committing_victim_and_a_lost_lease_never_overlap",
            ),
            f"{DATABASE}/test_lifecycle": (
                "a_cancelled_run_stays_cancelled_with_its_job_and_lanes",
            ),
        },
    ),
    8: (
        "the last write of statistics could be an old one, and the job never ended",
        {
            f"{DATABASE}/test_progress": ("a_hundred_per_cent_means_that_nothing_is_left",),
            f"{WORKERS}/test_ranges_failpoints": (
                "a_lane_killed_at_any_statement_repeats_no_effect_and_loses_none",
            ),
        },
    ),
    # Crash and distribution
    9: (
        "callbacks and backoff functions were lost on the way through JSON",
        {
            f"{DATABASE}/test_loading": (
                "a_policy_given_to_one_run_is_there_when_the_run_is_loaded_again",
                "code_that_no_run_can_keep_is_refused_when_it_is_made",
            )
        },
    ),
    10: (
        "after a restart nothing went on",
        {
            f"{WORKERS}/test_ranges_control": (
                "a_pause_comes_to_rest_though_all_workers_are_killed",
            ),
            "examples/test_range_jobs": (
                "every_city_gets_its_cell_once_though_workers_are_killed_and_the_run_is_paused",
            ),
        },
    ),
    11: (
        "no second process could take part",
        {
            f"{WORKERS}/test_ranges_chaos": (
                "with_workers_killed_and_frozen_at_random_each_undone_key_is_done_exactly_once",
            )
        },
    ),
    12: (
        "the address of the store was not kept to: always the local one",
        # Each of these tests has a server and a database of its own, which their workers find.
        {
            f"{WORKERS}/test_ranges_outages": (
                "sessions_that_are_ended_and_a_server_that_crashes_repeat_no_key_and_lose_none",
            )
        },
    ),
    13: (
        "the heartbeat came from a timer beside the work, so what hung looked alive",
        {
            f"{WORKERS}/test_ranges": (
                "a_leaf_past_its_hard_time_out_is_taken_away_and_its_late_work_undone",
            )
        },
    ),
    14: (
        "what was stale was queued again under an id that was taken, and so stuck",
        {
            f"{WORKERS}/test_ranges": ("the_strands_of_a_killed_worker_are_taken_over",),
            f"{DATABASE}/test_nodes": ("a_strand_has_one_owner_until_that_owner_is_dead",),
        },
    ),
    15: (
        "a late end of a lost worker overwrote the retry",
        {
            f"{WORKERS}/test_ranges_failpoints": (
                "a_lane_that_comes_back_after_its_strand_was_taken_over_is_rolled_back",
            ),
            f"{DATABASE}/test_nodes": ("the_next_epoch_of_the_same_lane_fences_the_last_one",),
        },
    ),
    16: (
        "a crash between saving the children and the parent left orphans, or split twice",
        {
            f"{WORKERS}/test_ranges_failpoints": (
                "a_lane_killed_at_any_statement_repeats_no_effect_and_loses_none",
                "a_thief_killed_at_its_theft_leaves_the_victims_strand_or_a_strand_of_its_own",
            )
        },
    ),
    17: (
        "attempts were not counted, and retries not told",
        {
            f"{DATABASE}/test_lane_trouble": (
                "the_attempt_of_a_leaf_counts_from_one_on_lanes_too",
            ),
            f"{DATABASE}/test_lifecycle": (
                "events_tell_the_life_of_a_run_and_of_its_nodes_after_the_commit",
            ),
        },
    ),
    # Concurrency, pause, cancel
    18: (
        "with ten slots one leaf ran at a time",
        {
            f"{UNIT}/test_memory_faults": (
                "ten_lanes_are_ten_leaves_at_a_time",
                "ten_tasks_are_ten_leaves_at_a_time_in_an_event_loop",
            ),
            f"{WORKERS}/test_ranges": ("a_cancel_is_seen_inside_a_leaf_whose_work_is_undone",),
        },
    ),
    19: (
        "the entire tree was split at once and every leaf put into the queue",
        {
            f"{WORKERS}/test_ranges": ("a_billion_keys_on_64_lanes_cost_a_few_hundred_rows",),
            f"{UNIT}/test_sizing_and_splitting": (
                "a_run_starts_with_at_most_twice_as_many_strands_as_lanes",
            ),
        },
    ),
    20: (
        "a pause did not stop what was queued, and turned into completed",
        {
            f"{WORKERS}/test_ranges": (
                "a_pause_comes_to_rest_and_a_resume_finishes_with_each_leaf_done_once",
            ),
            f"{DATABASE}/test_lifecycle": (
                "a_paused_run_begins_no_leaf_more_and_goes_on_where_it_stopped",
            ),
        },
    ),
    21: (
        "a cancel did not stop what was queued, and turned into completed",
        {
            f"{UNIT}/test_memory_faults": (
                "a_cancelled_run_stays_cancelled_when_its_running_leaf_ends",
            ),
            f"{WORKERS}/test_ranges_failpoints": (
                "a_run_whose_lanes_were_all_killed_comes_to_rest_when_it_is_told_to",
            ),
        },
    ),
    22: (
        "to resume while an old loop still waited gave two loops",
        {
            f"{UNIT}/test_memory_faults": (
                "resuming_while_a_leaf_still_runs_gives_no_second_lane",
            ),
            f"{DATABASE}/test_lane_trouble": (
                "a_pause_that_is_taken_back_inside_a_leaf_changes_nothing",
            ),
        },
    ),
    23: (
        "the end was told again and again by a loop that never stopped",
        {
            f"{UNIT}/test_memory_faults": ("a_completed_run_says_so_once",),
            f"{DATABASE}/test_lane_trouble": ("a_run_tells_its_end_once",),
        },
    ),
    24: (
        "jobs shared one heap and got in each other's way",
        {
            f"{DATABASE}/test_lane_trouble": ("two_runs_of_one_job_keep_to_their_own_ranges",),
            f"{DATABASE}/test_nodes": (
                "claims_and_commits_read_a_bounded_number_of_rows_among_many_runs",
            ),
        },
    ),
    25: (
        "a slow listener stalled the work, and a listener's error vanished",
        {
            f"{UNIT}/test_memory_faults": (
                "a_listener_that_is_slow_holds_up_its_own_lane_alone",
                "a_listener_that_fails_changes_nothing",
            ),
            "unit/test_events": (
                "a_listener_that_fails_does_not_keep_others_or_the_caller_from_going_on",
            ),
        },
    ),
    # Retry and failure
    26: (
        "three defaults of how often to try",
        {
            f"{UNIT}/test_memory_faults": (
                "the_attempt_counts_from_one_and_the_policy_is_kept_to",
            ),
            f"{DATABASE}/test_loading": ("what_a_run_was_not_given_is_its_classs",),
        },
    ),
    27: (
        "of the kinds of backoff only one was kept to",
        {
            f"{UNIT}/test_memory_runs": (
                "all_four_kinds_of_backoff_are_kept_to_and_the_history_too",
            ),
            f"{DATABASE}/test_loading": (
                "the_wait_that_one_run_was_given_is_the_one_that_is_kept_to",
            ),
        },
    ),
    28: (
        "options that were declared and never used",
        {
            f"{UNIT}/test_memory_faults": (
                "the_largest_depth_is_kept_to",
                "a_run_in_which_everything_fails_stops_early_and_is_never_completed",
            ),
            f"{DATABASE}/test_lane_trouble": ("the_largest_depth_is_kept_to_on_lanes_too",),
            f"{DATABASE}/test_rangejob_command": (
                "it_prints_the_id_of_a_run_with_all_that_was_given",
            ),
        },
    ),
    29: (
        "inner nodes counted as successes, so a run without one was not called failed",
        {
            f"{UNIT}/test_memory_faults": (
                "a_threshold_is_a_share_of_items_not_of_nodes",
                "without_a_threshold_a_run_that_did_nothing_has_failed",
            ),
            f"{DATABASE}/test_lifecycle": (
                "a_run_of_which_nothing_succeeded_has_failed_and_its_job_is_a_dead_letter",
            ),
        },
    ),
    30: (
        "the threshold stopped nothing early, and no failed leaf could be driven again",
        {
            f"{DATABASE}/test_lifecycle": (
                "too_many_failures_stop_the_run_early_and_it_can_be_resumed",
                "one_failure_can_be_retried_while_the_others_stay_open",
            ),
            f"{UNIT}/test_memory_runs": (
                "exactly_the_bad_keys_are_found_in_as_few_runs_as_promised",
            ),
        },
    ),
    31: (
        "the attempt counted from nought here and from one there",
        {
            f"{UNIT}/test_memory_faults": (
                "the_attempt_counts_from_one_and_the_policy_is_kept_to",
            ),
            f"{DATABASE}/test_lane_trouble": (
                "the_attempt_of_a_leaf_counts_from_one_on_lanes_too",
            ),
        },
    ),
    # Statistics
    32: (
        "every event scanned all nodes",
        {
            f"{UNIT}/test_memory_faults": ("statistics_are_kept_not_scanned_for",),
            f"{DATABASE}/test_progress": (
                "progress_reads_its_run_alone_in_three_statements_at_most",
            ),
        },
    ),
    33: (
        "what was skipped in inner blocks counted for nothing, and no run reached 100 %",
        {
            f"{UNIT}/test_memory_faults": (
                "skipped_inner_blocks_count_and_progress_reaches_a_hundred_per_cent",
            ),
            f"{DATABASE}/test_progress": ("processed_skipped_failed_and_left_add_up_to_the_total",),
        },
    ),
    34: (
        "durations were nought, and rates added up",
        {
            f"{UNIT}/test_memory_faults": ("durations_are_measured_and_rates_are_not_cumulative",),
            f"{DATABASE}/test_progress": ("the_rate_is_that_of_active_time_lately",),
        },
    ),
    35: (
        "no time left, and no look at a run after a restart",
        {
            f"{UNIT}/test_memory_faults": ("a_running_run_has_an_estimate_of_its_end",),
            f"{DATABASE}/test_progress": ("a_paused_run_says_why_and_keeps_its_forecast",),
            f"{DATABASE}/test_drawing": ("a_billion_keys_are_drawn_from_a_few_hundred_rows",),
        },
    ),
    # Scale
    36: (
        "a row for each of a hundred thousand nodes, and twice the leaves that were needed",
        {
            f"{UNIT}/test_memory_faults": ("fifty_million_keys_take_as_few_leaves_as_they_can",),
            f"{WORKERS}/test_ranges": ("a_billion_keys_on_64_lanes_cost_a_few_hundred_rows",),
        },
    ),
    37: (
        "sparse keys made leaves without a row",
        {
            f"{DATABASE}/test_querying": (
                "leaves_are_exact_in_rows_that_need_work_whatever_the_gaps_between_keys",
            ),
            f"{DATABASE}/test_querying_runs": ("leaves_are_no_more_than_the_rows_ask_for",),
        },
    ),
    # Types
    38: (
        "ranges of one key were split for ever; large numbers were rounded; sizes were not checked",
        {
            f"{UNIT}/test_axes_faults": (
                "a_range_of_one_key_is_not_split_for_ever",
                "midpoints_beyond_two_to_the_53_are_not_rounded",
                "bounds_the_wrong_way_round_are_refused_not_straightened",
                "equal_bounds_are_an_empty_range_and_no_fault",
                "the_last_key_of_an_inclusive_range_is_not_lost",
            ),
            f"{UNIT}/test_memory_faults": (
                "the_smallest_ranges_end_and_call_work_at_most_once",
                "a_wrong_option_is_refused_by_name",
            ),
        },
    ),
    39: (
        "big numbers were halved towards nought and could not be stored",
        {
            f"{UNIT}/test_axes_faults": (
                "midpoints_below_zero_round_downwards",
                "the_size_of_a_huge_range_is_exact",
                "json_never_holds_a_number_that_a_double_cannot",
            ),
            f"{UNIT}/test_memory_faults": ("ranges_beyond_doubles_and_below_zero_are_exact",),
        },
    ),
    40: (
        "dates came back as text; no calendar, no clock changes",
        {
            f"{UNIT}/test_axes_faults": (
                "bounds_survive_json_and_can_still_be_split",
                "pieces_of_days_follow_the_calendar_not_24_hours",
            ),
            f"{UNIT}/test_axes_zones": ("madrid_has_a_day_of_23_hours_and_one_of_25",),
        },
    ),
    41: (
        "the middle of two texts lay before both, sizes were wrong, and two orders disagreed",
        {
            f"{UNIT}/test_axes_faults": (
                "the_middle_of_texts_is_carried_over_as_in_a_sum",
                "a_range_of_texts_with_room_in_it_has_a_size",
                "texts_are_compared_by_code_point_when_checked_and_when_split",
                "no_middle_of_texts_holds_nul_or_half_of_a_surrogate_pair",
            ),
            f"{DATABASE}/test_querying": (
                "mixed_case_and_accents_are_covered_once_under_the_databases_and_a_languages_collation",
            ),
        },
    ),
    42: (
        "the type was guessed from the first bound alone",
        {
            f"{UNIT}/test_axes_faults": (
                "the_second_bound_is_held_against_the_type_of_the_axis_too",
            ),
            f"{DATABASE}/test_wrong_input": ("wrong_bounds_are_refused_by_every_way_in",),
        },
    ),
    # Claims
    43: (
        "the benchmark counted items and slept once for each leaf",
        {"benchmarks/test_benchmarks": ("a_benchmark_has_figures_and_something_beside_them",)},
    ),
    44: (
        "the documentation promised what the code did not do",
        {
            "database/test_docs_examples": (
                "the_page_about_ranges_runs",
                "what_the_page_about_ranges_says_about_failures_is_so",
                "the_events_that_the_page_about_ranges_names_are_those_of_the_engine",
            ),
            "database/test_docs_commands": (
                "the_page_has_the_command_with_every_action_and_option",
            ),
        },
    ),
}


@cache
def names_in(module: str) -> set[str]:
    tree = ast.parse((TESTS / f"{module}.py").read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_no_fault_is_left_out() -> None:
    assert list(FAULTS) == list(range(1, 45))


@pytest.mark.parametrize("number", FAULTS)
def test_the_tests_that_show_that_a_fault_is_not_repeated_exist(number: int) -> None:
    _, shown_by = FAULTS[number]
    assert shown_by
    for module, names in shown_by.items():
        assert {f"test_{name}" for name in names} <= names_in(module), module
