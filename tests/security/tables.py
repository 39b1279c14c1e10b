"""Who gets what answer: the tables of `test_matrix.py`.

After the route and the method: no group, Viewer, Operator, Supervisor, superuser; then, where it is
not the usual, who is a stranger: anonymous, an inactive user, a revoked token. A route that is added
needs a line here for each of its methods.
"""

# To a method without the permission 403; strangers 401; a method that is not here 405. The streams
# answer 501 as these requests do not come over ASGI.
REST = """
api-docs                                                GET    403 200 200 200 200 login,login,401
api-docs.json                                           GET    403 200 200 200 200
api/jobs/stream                                         GET    403 501 501 501 501
api/v1/bulk-operations                                  GET    403 200 200 200 200
api/v1/bulk-operations                                  POST   403 400 400 400 400
api/v1/bulk-operations/<str:operation_id>               GET    403 404 404 404 404
api/v1/bulk-operations/<str:operation_id>/abort         POST   403 404 404 404 404
api/v1/bulk-operations/<str:operation_id>/pause         POST   403 404 404 404 404
api/v1/bulk-operations/<str:operation_id>/resume        POST   403 404 404 404 404
api/v1/bulk-operations/preview                          POST   403 400 400 400 400
api/v1/jobs                                             GET    403 200 200 200 200
api/v1/jobs                                             POST   403 403 400 400 400
api/v1/jobs/<str:job_id>                                GET    403 404 404 404 404
api/v1/jobs/<str:job_id>                                PATCH  403 403 400 400 400
api/v1/jobs/<str:job_id>/attempts                       GET    403 404 404 404 404
api/v1/jobs/<str:job_id>/cancel                         POST   403 403 404 404 404
api/v1/jobs/<str:job_id>/logs                           GET    403 404 404 404 404
api/v1/jobs/<str:job_id>/purge                          DELETE 403 403 403 404 404
api/v1/jobs/<str:job_id>/release                        POST   403 403 404 404 404
api/v1/jobs/<str:job_id>/retry                          POST   403 403 404 404 404
api/v1/jobs/<str:job_id>/run-now                        POST   403 403 404 404 404
api/v1/jobs/bulk                                        POST   403 403 400 400 400
api/v1/jobs/dlq                                         GET    403 200 200 200 200
api/v1/jobs/dlq                                         DELETE 403 403 403 200 200
api/v1/jobs/empty-dlq                                   DELETE 403 403 403 200 200
api/v1/jobs/stats                                       GET    403 200 200 200 200
api/v1/jobs/stream                                      GET    403 501 501 501 501
api/v1/live                                             GET    403 400 400 400 400
api/v1/queues                                           GET    403 200 200 200 200
api/v1/queues/<str:name>                                GET    403 404 404 404 404
api/v1/queues/<str:name>/pause                          POST   403 403 200 200 200
api/v1/queues/<str:name>/resume                         POST   403 403 200 200 200
api/v1/ranges                                           GET    403 200 200 200 200
api/v1/ranges                                           POST   403 403 400 400 400
api/v1/ranges/<str:run_id>                              GET    403 404 404 404 404
api/v1/ranges/<str:run_id>/cancel                       POST   403 403 404 404 404
api/v1/ranges/<str:run_id>/coverage                     GET    403 404 404 404 404
api/v1/ranges/<str:run_id>/failures                     GET    403 404 404 404 404
api/v1/ranges/<str:run_id>/failures/<str:failure>       GET    403 404 404 404 404
api/v1/ranges/<str:run_id>/failures/<str:failure>/waive POST   403 403 400 400 400
api/v1/ranges/<str:run_id>/nodes                        GET    403 404 404 404 404
api/v1/ranges/<str:run_id>/pause                        POST   403 403 404 404 404
api/v1/ranges/<str:run_id>/resume                       POST   403 403 404 404 404
api/v1/ranges/<str:run_id>/retry-failed                 POST   403 403 404 404 404
api/v1/ranges/<str:run_id>/retune                       POST   403 403 400 400 400
api/v1/ranges/<str:run_id>/start                        POST   403 403 404 404 404
api/v1/ranges/<str:run_id>/tree                         GET    403 404 404 404 404
api/v1/ranges/<str:run_id>/verify                       POST   403 404 404 404 404
api/v1/ranges/jobs                                      GET    403 200 200 200 200
api/v1/ranges/plan                                      POST   403 403 400 400 400
api/v1/schedules                                        GET    403 200 200 200 200
api/v1/schedules                                        POST   403 403 400 400 400
api/v1/schedules/<str:schedule_id>                      GET    403 404 404 404 404
api/v1/schedules/<str:schedule_id>                      PATCH  403 403 400 400 400
api/v1/schedules/<str:schedule_id>                      DELETE 403 403 404 404 404
api/v1/schedules/<str:schedule_id>/disable              POST   403 403 404 404 404
api/v1/schedules/<str:schedule_id>/enable               POST   403 403 404 404 404
api/v1/schedules/<str:schedule_id>/next-runs            GET    403 404 404 404 404
api/v1/schedules/<str:schedule_id>/run-now              POST   403 403 404 404 404
api/v1/schedules/preview                                POST   403 400 400 400 400
api/v1/workers                                          GET    403 200 200 200 200
api/v1/workers/<str:worker_id>                          GET    403 404 404 404 404
api/v1/workers/<str:worker_id>/stop                     POST   403 403 404 404 404
healthz                                                 GET    200 200 200 200 200 200
metrics                                                 GET    403 200 200 200 200
readyz                                                  GET    200 200 200 200 200 200
"""

# Strangers are sent to the sign-in page. Other methods than POST are answered as GET is.
CONSOLE = """
"""

# The topics of the live feed; strangers 401.
LIVE = """
overview       GET 403 200 200 200 200
jobs           GET 403 200 200 200 200
queues         GET 403 200 200 200 200
workers        GET 403 200 200 200 200
schedules      GET 403 200 200 200 200
runs           GET 403 200 200 200 200
bulk           GET 403 200 200 200 200
log            GET 403 200 200 200 200
job:<id>       GET 403 200 200 200 200
queue:<id>     GET 403 200 200 200 200
worker:<id>    GET 403 200 200 200 200
schedule:<id>  GET 403 200 200 200 200
run:<id>       GET 403 200 200 200 200
bulk:<id>      GET 403 200 200 200 200
"""
