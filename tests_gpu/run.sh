#!/bin/sh
# Runs the tests that need a real GPU, with the Python that has the frameworks (PYTHON=…, default python3).
# What ownlab itself needs may lie unpacked in .gpu-site, for machines on which nothing can be installed.
set -eu
cd "$(dirname "$0")/.."
PYTHONPATH="$PWD/src:$PWD/.gpu-site${PYTHONPATH:+:$PYTHONPATH}"
export PYTHONPATH
# Some wait for minutes of work on the card.
exec "${PYTHON:-python3}" -m pytest -q -p no:cacheprovider -o timeout=580 tests_gpu "$@"
