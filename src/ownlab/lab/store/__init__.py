"""The store: a machine's record of runtimes, leases and usage, in SQLite (WAL mode) and lock files.

- `location`: which store is used: OWNLAB_STORE, the machine's shared one, or the user's own.
- `layout`: its files and their permissions, the administrator's policy; `setup`: create a shared store, repair any.
- `store`: the `Store` class: enqueue, acquire, update, release, reap. `locks_only`: what can be known without the database.
- `lease_scheduler`: which devices a request gets, whose turn it is, and why a request waits. Pure functions.
- `rows`: the records; `columns`: their values, checked; `tables`: SQL statements; `schema`: the tables and their migrations.
- `locks`: a runtime lives as long as its lock file is locked; `lock_records`: what it writes there, its row and its leases.
- `orphans`: processes that outlived their runtime.
- `errors`: turns errors of SQLite and the file system into StoreError.

Supervisors use the store, so everything except `location` imports only the standard library and small ground modules.
"""
