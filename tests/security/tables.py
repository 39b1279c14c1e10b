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

# Strangers are sent to the sign-in page. Forms are empty: who may send one is told what is missing.
# The token is another superuser's. Django's own pages for adding, changing and deleting are for none.
CONSOLE = """
admin/                                                  GET    200 200 200 200 200
admin/                                                  POST   200 200 200 200 200
admin/<app_label>/                                      GET    404 200 200 200 200
admin/<app_label>/                                      POST   404 200 200 200 200
admin/<url>                                             GET    404 404 404 404 404
admin/<url>                                             POST   404 404 404 404 404
admin/auth/group/                                       GET    403 403 403 403 200
admin/auth/group/                                       POST   403 403 403 403 200
admin/auth/group/<path:object_id>/                      GET    302 302 302 302 302
admin/auth/group/<path:object_id>/                      POST   302 302 302 302 302
admin/auth/group/<path:object_id>/change/               GET    403 403 403 403 200
admin/auth/group/<path:object_id>/change/               POST   403 403 403 403 200
admin/auth/group/<path:object_id>/delete/               GET    403 403 403 403 200
admin/auth/group/<path:object_id>/delete/               POST   403 403 403 403 200
admin/auth/group/<path:object_id>/history/              GET    403 403 403 403 200
admin/auth/group/<path:object_id>/history/              POST   403 403 403 403 200
admin/auth/group/add/                                   GET    403 403 403 403 200
admin/auth/group/add/                                   POST   403 403 403 403 200
admin/auth/user/                                        GET    403 403 403 403 200
admin/auth/user/                                        POST   403 403 403 403 200
admin/auth/user/<id>/password/                          GET    403 403 403 403 200
admin/auth/user/<id>/password/                          POST   403 403 403 403 200
admin/auth/user/<path:object_id>/                       GET    302 302 302 302 302
admin/auth/user/<path:object_id>/                       POST   302 302 302 302 302
admin/auth/user/<path:object_id>/change/                GET    403 403 403 403 200
admin/auth/user/<path:object_id>/change/                POST   403 403 403 403 200
admin/auth/user/<path:object_id>/delete/                GET    403 403 403 403 200
admin/auth/user/<path:object_id>/delete/                POST   403 403 403 403 200
admin/auth/user/<path:object_id>/history/               GET    403 403 403 403 200
admin/auth/user/<path:object_id>/history/               POST   403 403 403 403 200
admin/auth/user/add/                                    GET    403 403 403 403 200
admin/auth/user/add/                                    POST   403 403 403 403 200
admin/autocomplete/                                     GET    403 403 403 403 403
admin/autocomplete/                                     POST   405 405 405 405 405
admin/badges/                                           GET    403 200 200 200 200
admin/badges/                                           POST   403 405 405 405 405
admin/events/                                           GET    403 200 200 200 200
admin/events/                                           POST   403 405 405 405 405
admin/events/export/                                    GET    403 200 200 200 200
admin/events/export/                                    POST   403 405 405 405 405
admin/events/lines/                                     GET    403 200 200 200 200
admin/events/lines/                                     POST   403 405 405 405 405
admin/figures/                                          GET    403 200 200 200 200
admin/figures/                                          POST   403 405 405 405 405
admin/geonames/city/                                    GET    403 403 403 403 200
admin/geonames/city/                                    POST   403 403 403 403 200
admin/geonames/city/<path:object_id>/                   GET    302 302 302 302 302
admin/geonames/city/<path:object_id>/                   POST   302 302 302 302 302
admin/geonames/city/<path:object_id>/change/            GET    403 403 403 403 200
admin/geonames/city/<path:object_id>/change/            POST   403 403 403 403 200
admin/geonames/city/<path:object_id>/delete/            GET    403 403 403 403 200
admin/geonames/city/<path:object_id>/delete/            POST   403 403 403 403 200
admin/geonames/city/<path:object_id>/history/           GET    403 403 403 403 200
admin/geonames/city/<path:object_id>/history/           POST   403 403 403 403 200
admin/geonames/city/add/                                GET    403 403 403 403 200
admin/geonames/city/add/                                POST   403 403 403 403 200
admin/geonames/countrysummary/                          GET    403 403 403 403 200
admin/geonames/countrysummary/                          POST   403 403 403 403 200
admin/geonames/countrysummary/<path:object_id>/         GET    302 302 302 302 302
admin/geonames/countrysummary/<path:object_id>/         POST   302 302 302 302 302
admin/geonames/countrysummary/<path:object_id>/change/  GET    403 403 403 403 200
admin/geonames/countrysummary/<path:object_id>/change/  POST   403 403 403 403 200
admin/geonames/countrysummary/<path:object_id>/delete/  GET    403 403 403 403 200
admin/geonames/countrysummary/<path:object_id>/delete/  POST   403 403 403 403 200
admin/geonames/countrysummary/<path:object_id>/history/ GET    403 403 403 403 200
admin/geonames/countrysummary/<path:object_id>/history/ POST   403 403 403 403 200
admin/geonames/countrysummary/add/                      GET    403 403 403 403 200
admin/geonames/countrysummary/add/                      POST   403 403 403 403 200
admin/jobs/apitoken/                                    GET    403 200 200 200 200
admin/jobs/apitoken/                                    POST   403 200 200 200 200
admin/jobs/apitoken/<path:object_id>/                   GET    302 302 302 302 302
admin/jobs/apitoken/<path:object_id>/                   POST   302 302 302 302 302
admin/jobs/apitoken/<path:object_id>/change/            GET    403 302 302 302 200
admin/jobs/apitoken/<path:object_id>/change/            POST   403 302 302 302 403
admin/jobs/apitoken/<path:object_id>/delete/            GET    403 403 403 403 403
admin/jobs/apitoken/<path:object_id>/delete/            POST   403 403 403 403 403
admin/jobs/apitoken/<path:object_id>/history/           GET    302 302 302 302 200
admin/jobs/apitoken/<path:object_id>/history/           POST   302 302 302 302 200
admin/jobs/apitoken/add/                                GET    403 200 200 200 200
admin/jobs/apitoken/add/                                POST   403 200 200 200 200
admin/jobs/auditentry/                                  GET    403 403 403 200 200
admin/jobs/auditentry/                                  POST   403 403 403 200 200
admin/jobs/auditentry/export/                           GET    403 403 403 200 200
admin/jobs/auditentry/export/                           POST   403 403 403 200 200
admin/jobs/bulkoperation/                               GET    403 200 200 200 200
admin/jobs/bulkoperation/                               POST   403 200 200 200 200
admin/jobs/bulkoperation/<uuid:id>/                     GET    403 404 404 404 404
admin/jobs/bulkoperation/<uuid:id>/                     POST   403 404 404 404 404
admin/jobs/bulkoperation/<uuid:id>/act/                 GET    403 302 302 302 302
admin/jobs/bulkoperation/<uuid:id>/act/                 POST   403 404 404 404 404
admin/jobs/bulkoperation/<uuid:id>/again/               GET    403 404 404 404 404
admin/jobs/bulkoperation/<uuid:id>/again/               POST   403 404 404 404 404
admin/jobs/job/                                         GET    403 200 200 200 200
admin/jobs/job/                                         POST   403 403 403 403 403
admin/jobs/job/<uuid:id>/                               GET    403 200 200 200 200
admin/jobs/job/<uuid:id>/                               POST   403 200 200 200 200
admin/jobs/job/<uuid:id>/<slug:name>.json               GET    403 404 404 404 404
admin/jobs/job/<uuid:id>/<slug:name>.json               POST   403 404 404 404 404
admin/jobs/job/<uuid:id>/act/                           GET    403 302 302 302 302
admin/jobs/job/<uuid:id>/act/                           POST   403 403 403 403 403
admin/jobs/job/<uuid:id>/change/                        GET    302 302 302 302 302
admin/jobs/job/<uuid:id>/change/                        POST   302 302 302 302 302
admin/jobs/job/<uuid:id>/payload/                       GET    403 403 200 200 200
admin/jobs/job/<uuid:id>/payload/                       POST   403 403 422 422 422
admin/jobs/job/add/                                     GET    403 403 200 200 200
admin/jobs/job/add/                                     POST   403 403 422 422 422
admin/jobs/job/bulk/                                    GET    403 403 403 403 403
admin/jobs/job/bulk/                                    POST   403 403 403 403 403
admin/jobs/job/columns/                                 GET    403 302 302 302 302
admin/jobs/job/columns/                                 POST   403 302 302 302 302
admin/jobs/job/dead-letters/                            GET    403 200 200 200 200
admin/jobs/job/dead-letters/                            POST   403 403 403 403 403
admin/jobs/job/export/                                  GET    403 200 200 200 200
admin/jobs/job/export/                                  POST   403 200 200 200 200
admin/jobs/queue/                                       GET    403 200 200 200 200
admin/jobs/queue/                                       POST   403 200 200 200 200
admin/jobs/queue/<name>/                                GET    403 404 404 404 404
admin/jobs/queue/<name>/                                POST   403 404 404 404 404
admin/jobs/queue/<name>/act/                            GET    403 302 302 302 302
admin/jobs/queue/<name>/act/                            POST   403 403 302 302 302
admin/jobs/schedule/                                    GET    403 200 200 200 200
admin/jobs/schedule/                                    POST   403 200 200 200 200
admin/jobs/schedule/<uuid:id>/                          GET    403 200 200 200 200
admin/jobs/schedule/<uuid:id>/                          POST   403 200 200 200 200
admin/jobs/schedule/<uuid:id>/act/                      GET    403 302 302 302 302
admin/jobs/schedule/<uuid:id>/act/                      POST   403 403 403 403 403
admin/jobs/schedule/<uuid:id>/edit/                     GET    403 403 200 200 200
admin/jobs/schedule/<uuid:id>/edit/                     POST   403 403 200 200 200
admin/jobs/schedule/add/                                GET    403 403 200 200 200
admin/jobs/schedule/add/                                POST   403 403 200 200 200
admin/jobs/webhook/                                     GET    403 403 403 200 200
admin/jobs/webhook/                                     POST   403 403 403 302 302
admin/jobs/webhook/<uuid:id>/                           GET    403 403 403 404 404
admin/jobs/webhook/<uuid:id>/                           POST   403 403 403 404 404
admin/jobs/worker/                                      GET    403 200 200 200 200
admin/jobs/worker/                                      POST   403 200 200 200 200
admin/jobs/worker/<uuid:id>/                            GET    403 200 200 200 200
admin/jobs/worker/<uuid:id>/                            POST   403 200 200 200 200
admin/jobs/worker/<uuid:id>/stop/                       GET    403 302 302 302 302
admin/jobs/worker/<uuid:id>/stop/                       POST   403 403 200 200 200
admin/jsi18n/                                           GET    200 200 200 200 200
admin/jsi18n/                                           POST   405 405 405 405 405
admin/login/                                            GET    302 302 302 302 302 200,200,200
admin/login/                                            POST   200 200 200 200 200 200,200,200
admin/logout/                                           GET    405 405 405 405 405 302,302,302
admin/logout/                                           POST   200 200 200 200 200 302,302,302
admin/overview/                                         GET    403 200 200 200 200
admin/overview/                                         POST   403 405 405 405 405
admin/password_change/                                  GET    200 200 200 200 200
admin/password_change/                                  POST   200 200 200 200 200
admin/password_change/done/                             GET    200 200 200 200 200
admin/password_change/done/                             POST   405 405 405 405 405
admin/r/<path:content_type_id>/<path:object_id>/        GET    404 404 404 404 404
admin/r/<path:content_type_id>/<path:object_id>/        POST   404 404 404 404 404
admin/ranges/rangefailure/                              GET    403 200 200 200 200
admin/ranges/rangefailure/                              POST   403 200 200 200 200
admin/ranges/rangefailure/<path:object_id>/             GET    302 302 302 302 302
admin/ranges/rangefailure/<path:object_id>/             POST   302 302 302 302 302
admin/ranges/rangefailure/<path:object_id>/change/      GET    403 200 200 200 200
admin/ranges/rangefailure/<path:object_id>/change/      POST   403 403 403 403 403
admin/ranges/rangefailure/<path:object_id>/delete/      GET    403 403 403 403 403
admin/ranges/rangefailure/<path:object_id>/delete/      POST   403 403 403 403 403
admin/ranges/rangefailure/<path:object_id>/history/     GET    403 200 200 200 200
admin/ranges/rangefailure/<path:object_id>/history/     POST   403 200 200 200 200
admin/ranges/rangefailure/add/                          GET    403 403 403 403 403
admin/ranges/rangefailure/add/                          POST   403 403 403 403 403
admin/ranges/rangerun/                                  GET    403 200 200 200 200
admin/ranges/rangerun/                                  POST   403 403 302 302 302
admin/ranges/rangerun/<uuid:id>/                        GET    403 200 200 200 200
admin/ranges/rangerun/<uuid:id>/                        POST   403 200 200 200 200
admin/ranges/rangerun/<uuid:id>/act/                    GET    403 302 302 302 302
admin/ranges/rangerun/<uuid:id>/act/                    POST   403 403 302 302 302
admin/ranges/rangerun/<uuid:id>/change/                 GET    302 302 302 302 302
admin/ranges/rangerun/<uuid:id>/change/                 POST   302 302 302 302 302
admin/ranges/rangerun/<uuid:id>/picture.json            GET    403 200 200 200 200
admin/ranges/rangerun/<uuid:id>/picture.json            POST   403 200 200 200 200
admin/settings/                                         GET    200 200 200 200 200
admin/settings/                                         POST   422 422 422 422 422
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
