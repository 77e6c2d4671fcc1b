"""For scripts that run in the interpreter that has torch: the guest, as its launcher finds it."""

import importlib.util


def register_guest(launch: str) -> None:
    """From here on `ownlab_guest` can be imported."""
    spec = importlib.util.spec_from_file_location("launch", launch)
    assert spec is not None
    assert spec.loader is not None
    launcher = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(launcher)
    launcher.register_package()
