"""The doctor: checks a machine (live, recorded, or rebuilt from pasted text) and says whether GPU work will run.

In the order in which `ownlab doctor` uses them:

- `cli.py` parses the command and chooses the machine to check.
- `paste/` rebuilds a machine from text that somebody pasted (`--from`).
- `records.py` defines a `Case` (a machine and the messages printed on it), a `Finding` and the `Diagnosis`.
- `diagnosis.py` makes the case, runs every rule over it, sorts the findings and decides the verdict.
- `rule.py` is the base class of a rule; `rules/` holds the rules, one class each, and the order in which they run:
  `rules/drivers` (driver version, kernel module, initialisation), `rules/devices` (permissions, visibility, health,
  memory, Xid errors, other vendors), `rules/software` (framework builds, CUDA libraries, toolkit, Python, program
  errors) and `rules/environment` (containers, WSL, the host's resources).
- `decoding.py` adds the names of errors that are given as numbers, and translates messages of systems in other languages.
- `situations/` finds causes that only several signs of a pasted text show together.
- `differential/` adds the other causes that a pasted message can have, each with its check, and recognises the kind of an unknown message.
- `safety.py` leaves out steps that do not belong to the text's system, and lets drastic ones wait for the checks.
- `searched_text.py` makes one text of messages and facts, in which signs are searched.
- `queries.py` answers questions about a machine that several rules ask, and formats facts as evidence.
- `remedies.py` builds the commands that fix a problem on this system.
- `verification.py` multiplies matrices on every device (`--verify`).
- `terminal.py` prints the diagnosis and the rules' pages.
"""
