"""Live events for browsers and programs: from the Redis stream to sockets, streams and pollers.

    coppice:events --> hub --> receivers --> console (WebSocket), events (server-sent events)
                         one reader per web process that has a client

- `positions`, `entries`, `topics`, `batches`, `owed`, `window`, `messages`: pure; what is told to whom.
- `stream`: the Redis stream, read. `sample`: the stats, counted once a second for all processes.
- `hub`: reads and hands on in memory. `receiver`: one client's side of it.
- `gate`: who may connect. `connections`: who is connected, and who is sent away.
- `console`, `events`, `polling`: the three ways in. `routing`: how a project mounts them.

docs/live.md is the protocol.
"""
