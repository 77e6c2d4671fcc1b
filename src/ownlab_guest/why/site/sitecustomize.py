"""Python imports this at its start, because `ownlab why` has put this folder on PYTHONPATH. It starts the measurement, then
runs the sitecustomize module that Python would have found without it."""

import os
import sys


def _start_measurement(here: str) -> None:
    if not os.path.isdir(os.environ.get("OWNLAB_WHY", "")):
        return  # a process that has outlived the measurement
    try:
        import importlib.util

        root = os.path.dirname(os.path.dirname(here))
        spec = importlib.util.spec_from_file_location(
            "ownlab_guest", os.path.join(root, "__init__.py"), submodule_search_locations=[root]
        )
        if spec is None or spec.loader is None:
            return
        if "ownlab_guest" not in sys.modules:
            package = importlib.util.module_from_spec(spec)
            sys.modules["ownlab_guest"] = package
            spec.loader.exec_module(package)
        importlib.import_module("ownlab_guest.why.session").start()
    except Exception as exc:
        sys.stderr.write("ownlab why: nothing is measured in process %d: %r\n" % (os.getpid(), exc))


def _run_original(here: str) -> None:
    """Run the sitecustomize that this one hides. Its errors are reported by Python as they would be without us."""
    import importlib.machinery
    import importlib.util

    others = [path for path in sys.path if os.path.abspath(path or ".") != here]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", others)
    if spec is None or spec.loader is None:
        return
    original = importlib.util.module_from_spec(spec)
    sys.modules["sitecustomize"] = original
    spec.loader.exec_module(original)


_HERE = os.path.dirname(os.path.abspath(__file__))
_start_measurement(_HERE)
# What the script sees on sys.path is what it would see without us; child processes find this folder by PYTHONPATH.
sys.path[:] = [_path for _path in sys.path if os.path.abspath(_path or ".") != _HERE]
_run_original(_HERE)
