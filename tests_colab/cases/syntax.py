"""The syntax of cells: commands, magics, comments."""

from __future__ import annotations

from tests_colab.cases.case import HTML, TIMES, Case, like

__all__ = ["CASES"]

CASES = (
    Case(
        "shell_cell",
        texts={
            "shell": "in /content as shell\nline 1\nline 2\nline 3\nto stderr\n",
            "tty": "a terminal of 80 columns\n",
            "asks": "no answer\nanswer=<>\n",
            "python_asks": "EOFError: EOF when reading a line\n",
            "fails": "before\nCalledProcessError: Command 'echo before\nexit 3\n' returned non-zero exit status 3.\n",
            "after": "3\n",
            "ignores": "before\n",
            "line": "hello from a line\n(0, 'hello from a line\\n')\n",
            "caught": "failed with True\n",
            "sh": "plain sh\n",
            "colours": "\x1b[32mgreen\x1b[0m é \n",
        },
    ),
    Case(
        "shell_variables",
        texts={
            "ls": "SList ['a.txt', 'b.txt', 'c.txt'] True\nTrue\n",
            "grep": "(['a.txt'], 'a.txt b.txt c.txt', ['a.txt', 'b.txt', 'c.txt'])\n",
            "expand": "hello world 42 HELLO WORLD\n",
            "dollars": "env: GREETING=hi there\nhi there, sample_data, 5\n",
            "terminal": "['yes']\n",
            "exit_code": "0\n7\nTrue []\n",
            "both": "['out', 'err']\n",
            "pipe": "5050\n",
            "continued": "one two\n",
            "inside": "run 0\nrun 1\n'indented'\n",
            "api": "by name\n['x', 'y']\n",
            "unicode": "naïve – 数据 🙂\n",
            "large": "(20000, '20000')\n",
            "not_found": "127\n",
            "bang_bang": "['shown']\n",
            "os_system": "yes\n'yes\\n'\n",
            "bash_out": "('of bash\\n', 'trouble\\n')\n",
        },
    ),
    Case(
        "leading_comments",
        parameters=("amount=5",),
        texts={
            "captured": "'not to be seen\\nnor this\\n' 5\n",
            "time": like(TIMES),
            "writefile": "Writing note.txt\n",
            "bash": "# but this one is\ntext\n",
            "html": HTML,
            "python_only": "'\\n%%time\\n'\n",
            "help": like("GNU bash, version .*"),
            "twice": like(TIMES),
            "latex": "<IPython.core.display.Latex object>\n",
            "stderr": "seen\n",
        },
        displays={"html": "<b>bold</b>", "latex": r"\$x\^2\$"},
    ),
    Case(
        "cd_writefile_run",
        texts={
            "cd": "/content/project\n",
            "pwd": "/content/project\n/content/project\n",
            "cd_shell": "/tmp\n/content/project\n",
            "train": "Writing train.py\n",
            "append": "Appending to train.py\n",
            "python": "epoch 0\nepoch 1\nmain\n",
            "run": "epoch 0\nmain\n[0, 0]\n",
            "import": "'from the repository'\n",
            "edit": "Overwriting lib.py\n",
            "reloaded": "'edited'\n",
            "back": "/content\n'/content/project'\n",
            "home": "/content\nproject\n",
            "sed": "1:def f(): return 'by sed'\n",
            "pushd": "/content/sample_data\n/content\npopd -> /content\n",
            "cat": "def f(): return 'by sed'\n",
        },
    ),
    Case(
        "pip_local",
        texts={
            "install": "Note: you may need to restart the kernel to use updated packages.\n",
            "use": "('0.1', 9)\n",
            "upgrade": "This runtime still uses the old version of: tinyshapes. Restart it to use the installed version.\n",
            "still": "'0.1'\n",
            "other_process": "0.2\n",
            "which": "True\n",
        },
        displays={"upgrade": "pip_warning"},
    ),
    Case(
        "input_headless",
        texts={
            "ask": "StdinNotImplementedError\n",
            "password": "StdinNotImplementedError\n",
            "unattended": like(r"StdinNotImplementedError: [^\n]+\n"),
            "child": "EOFError: EOF when reading a line\n",
            "rm": like(r"rm: [^\n]*old\.txt[^\n]*\? ?\n?old\.txt\n"),
            "more": "y\n",
        },
    ),
    Case(
        "threads",
        texts={
            "thread": "worker 0\nworker 1\nworker 2\n",
            "pool": "[1, 2, 3, 4, 5]\n",
            "processes": "[6, 24, 120]\n",
            "commands": "['0', '1', '2', '3', '4', '5']\n",
            "asyncio": "[1, 2]\n",
            "secret": "['SecretNotFoundError']\n",
            "interrupted": "ended by slow\n",
        },
    ),
)
