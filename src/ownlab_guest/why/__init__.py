"""The guest side of `ownlab why`: measures a training script from inside its own process, without changing it.

- `site/sitecustomize.py` is found by every Python that the command starts, and calls `session.start`.
- `session` decides whether this process is measured, registers the hooks, and writes the evidence: periodically and at exit.
- `code_session` measures a cell or a call in a process that already runs.
- `post_import` runs a hook when the script itself imports a library; nothing is imported for the measurement alone.
- `recorder` attributes the time of the training thread to phases, and divides it into steps.
- `loader_hooks` measure DataLoaders and what their workers do, `training_hooks` backward, optimizer, copies, synchronisation and
  saving, `library_hooks` logging and garbage collection, `parallel_hooks` DataParallel and DistributedDataParallel.
- `stack_sampler` looks at the stack of the training thread every few milliseconds, for the time that no hook explains.
- `user_frames` finds the line of the user's own code behind a call, `system_counters` reads /proc.
- `trial_session` applies changes to the script from outside (`trial_changes`) for `ownlab why --try`, and records losses and the order of
  samples (`trial_record`), files written and addresses (`side_effects`); `isolated_run` runs a command where nothing of it stays
  (`throw_away_root`).

Everything here must fail silently: an error in a hook ends the measurement, never the script (`session.guarded`).
"""
