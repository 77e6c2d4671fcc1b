"""The language of what notebooks and scripts call: `ownlab.fit`, `ownlab.watch`, `ownlab.why` and `ownlab.data`.

They speak the language that a command would speak here; kernels of a lab get OWNLAB_LANG (lab/runtimes/kernel_variables.py).
`python -m ownlab.notebook_language MODULE …` runs a module for a kernel whose environment has no ownlab, in that language.
"""

from __future__ import annotations

import os
import runpy
import sys
from functools import cache

from ownlab.languages import ENGLISH, environment_language, translations
from ownlab.text import use_translations

__all__ = ["follow_environment"]


@cache
def follow_environment() -> None:
    """Let this process speak the language that its environment names; once, before a module is imported that makes a Text."""
    language = environment_language(os.environ)
    if language == ENGLISH:
        return
    from ownlab_guest.text import speak

    use_translations(translations(language))
    speak(language)


if __name__ == "__main__":
    follow_environment()
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
