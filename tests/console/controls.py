"""Every button of the console that changes something, and the lowest of the shipped groups that has it:
see `test_every_control.py`. The name of the address that it posts to, what it does there, and who.
"""

from __future__ import annotations

type Control = tuple[str, str]

LADDER = ("anybody", "Viewer", "Operator", "Supervisor")

TABLE = """
jobs_apitoken_add              -               Viewer
jobs_apitoken_add              _addanother     Viewer
jobs_apitoken_add              _continue       Viewer
jobs_apitoken_changelist       revoke_tokens   Viewer
jobs_bulkoperation_act         abort           Operator
jobs_bulkoperation_act         pause           Operator
jobs_bulkoperation_act         resume          Operator
jobs_bulkoperation_again       retry           Operator
jobs_job_act                   cancel          Operator
jobs_job_act                   change          Operator
jobs_job_act                   copy            Operator
jobs_job_act                   mark_lost       Operator
jobs_job_act                   purge           Supervisor
jobs_job_act                   release         Operator
jobs_job_act                   retry           Operator
jobs_job_act                   run_now         Operator
jobs_job_add                   another         Operator
jobs_job_add                   check           Operator
jobs_job_add                   create          Operator
jobs_job_add                   form            Operator
jobs_job_add                   json            Operator
jobs_job_bulk                  cancel          Operator
jobs_job_bulk                  change_priority Operator
jobs_job_bulk                  move_queue      Operator
jobs_job_bulk                  purge           Supervisor
jobs_job_bulk                  retry           Operator
jobs_job_bulk                  run_now         Operator
jobs_job_changelist            cancel          Operator
jobs_job_changelist            change_priority Operator
jobs_job_changelist            move_queue      Operator
jobs_job_changelist            purge           Supervisor
jobs_job_changelist            retry           Operator
jobs_job_changelist            run_now         Operator
jobs_job_columns               -               Viewer
jobs_job_dead                  purge           Supervisor
jobs_job_dead                  retry           Operator
jobs_job_payload               retry           Operator
jobs_job_payload               save            Operator
jobs_queue_act                 pause           Operator
jobs_queue_act                 resume          Operator
jobs_schedule_act              delete          Operator
jobs_schedule_act              disable         Operator
jobs_schedule_act              enable          Operator
jobs_schedule_act              run             Operator
jobs_schedule_act              skip            Operator
jobs_schedule_add              preview         Operator
jobs_schedule_add              save            Operator
jobs_schedule_edit             preview         Operator
jobs_schedule_edit             save            Operator
jobs_webhook_change            delete          Supervisor
jobs_webhook_change            disable         Supervisor
jobs_webhook_change            enable          Supervisor
jobs_webhook_change            redeliver       Supervisor
jobs_webhook_change            save            Supervisor
jobs_webhook_change            secret          Supervisor
jobs_webhook_change            test            Supervisor
jobs_webhook_changelist        add             Supervisor
jobs_webhook_changelist        create          Supervisor
jobs_webhook_changelist        remove          Supervisor
jobs_worker_act                quiet           Operator
jobs_worker_act                recover         Operator
jobs_worker_stop               -               Operator
ranges_rangefailure_changelist retry           Operator
ranges_rangefailure_changelist waive           Operator
ranges_rangerun_act            again           Operator
ranges_rangerun_act            cancel          Operator
ranges_rangerun_act            pause           Operator
ranges_rangerun_act            resume          Operator
ranges_rangerun_act            retry_failed    Operator
ranges_rangerun_act            retry_one       Operator
ranges_rangerun_act            retune          Operator
ranges_rangerun_act            start           Operator
ranges_rangerun_act            waive           Operator
ranges_rangerun_act            waive_all       Operator
ranges_rangerun_changelist     cancel_runs     Operator
ranges_rangerun_changelist     pause_runs      Operator
ranges_rangerun_changelist     resume_runs     Operator
ranges_rangerun_changelist     retry_failed    Operator
settings                       -               anybody
settings                       reset           anybody
settings                       theme           anybody
"""

INCOMPLETE: frozenset[Control] = frozenset(
    {
        ("jobs_job_add", "another"),
        ("jobs_job_add", "create"),
        ("jobs_schedule_add", "save"),
        ("jobs_webhook_change", "save"),
        ("jobs_webhook_changelist", "add"),
        ("jobs_webhook_changelist", "create"),
    }
)
"""Forms that want to be filled in: sent as they are, they say what is missing."""


def _read() -> dict[Control, str]:
    found = {}
    for line in TABLE.strip().splitlines():
        page, what, lowest = line.split()
        found[page, "" if what == "-" else what] = lowest
    return found


LOWEST = _read()
