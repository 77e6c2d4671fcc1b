"""The matrix in Chromium, with the real page: `python -m tests_survival.chromium --runs N`."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tests.lab.server.conftest import LabServer, environ_for
from tests_survival import browser
from tests_survival.edits import browser as edits

__all__: list[str] = []


class Ours:
    """Our server, as the browser runs need it."""

    name, kernel = "ownlab", "python3"

    def __init__(self, root: Path) -> None:
        (root / "work").mkdir(parents=True)
        self.lab = LabServer(root / "work", environ_for(root))
        self.folder, self.url, self.token = self.lab.folder, self.lab.url, self.lab.token

    def start(self) -> None:
        self.lab.start()

    def end(self, signum: int) -> None:
        self.lab.end(signum)


def main() -> int:
    """The command line. Return 1 if something differed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--edits", action="store_true", help="the notebooks are edited, too")
    parser.add_argument("--kind", choices={*browser.KINDS, *edits.KINDS}, help="this interruption alone")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        ours = Ours(Path(folder) / "lab")
        try:
            ours.start()
            seeds = range(options.seed, options.seed + options.runs)
            runner = edits if options.edits else browser
            outcomes = runner.run_all(ours, seeds, [options.kind] if options.kind else runner.KINDS)
        finally:
            ours.lab.clear()
    wrong = [outcome.seed for outcome in outcomes if outcome.wrong or outcome.unjudged]
    print(
        f"{len(outcomes)} runs in Chromium, {len(wrong)} wrong or not judged{': seeds ' + str(wrong) if wrong else ''}"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
