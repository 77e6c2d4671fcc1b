"""Files that are beside a notebook, read by cells that work in /content."""

from __future__ import annotations

import ast
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from jupyter_client.blocking.client import BlockingKernelClient
from tests.guest.colab.test_content_kernel import kernel_of, printed
from tests.guest.colab.users import User, make_user

from ownlab_guest.colab import named_files
from ownlab_guest.colab.notebook_files import NotebookFiles

COPIED = "Copied from the notebook's folder into /content: "


@pytest.fixture(params=["root", "user"])
def person(request: pytest.FixtureRequest) -> Iterator[User]:
    with make_user(request.param) as each:
        yield each


class Lab:
    """A notebook's folder with files, and its kernel."""

    def __init__(self, person: User, client: BlockingKernelClient) -> None:
        self.folder, self.content, self._client = person.home / "lab", person.content, client

    def run(self, code: str) -> str:
        """Run a cell; return what it prints, without the note on what was copied."""
        self.copied = ""
        lines = printed(self._client, code).splitlines(keepends=True)
        for line in lines:
            if line.startswith(COPIED):
                self.copied = line[len(COPIED) :].partition(". What")[0]
        return "".join(line for line in lines if not line.startswith(COPIED))


def write(folder: Path, **files: str) -> None:
    for name, content in files.items():
        path = folder / name.replace("__", "/").replace("_dot_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)


@pytest.fixture
def lab(person: User, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    folder = person.home / "lab"
    write(
        folder, data_dot_csv="1,2\n", images__a_dot_txt="a", images__deep__b_dot_txt="b", results__old_dot_txt="old\n"
    )
    write(folder, train_dot_py="import helper\nprint(helper.x, open('data.csv').read())\n", helper_dot_py="x = 5\n")
    notebook = str(folder / "n.ipynb")
    original = User.environment
    monkeypatch.setattr(User, "environment", lambda self, **more: original(self, JPY_SESSION_NAME=notebook, **more))
    with kernel_of(person) as (client, _):
        yield Lab(person, client)


def test_what_python_reads(lab: Lab) -> None:
    assert lab.run("name = 'data'; print(open(name + '.csv').read())") == "1,2\n\n"
    assert lab.copied == "data.csv"
    assert lab.run("print(open('/content/data.csv').read())") == "1,2\n\n"
    assert lab.copied == ""
    assert lab.run("import os; print(sorted(os.listdir('images')), sorted(os.listdir('images/deep')))") == (
        "['a.txt', 'deep'] ['b.txt']\n"
    )
    assert lab.copied == "images/"
    assert lab.run("import glob; print(glob.glob('h*.py'), sorted(glob.glob('**/b.txt', recursive=True)))") == (
        "['helper.py'] ['images/deep/b.txt']\n"
    )
    assert "FileNotFoundError" in lab.run("open('nowhere.csv')")
    assert "FileNotFoundError" in lab.run("open('../n.ipynb')")


def test_what_a_cell_names_is_there_for_libraries_that_open_it_themselves(lab: Lab) -> None:
    # os.stat announces nothing, as libraries in C.
    assert lab.run("import os; print(os.stat('images/a.txt').st_size, os.path.exists('data.csv'))") == "1 True\n"
    assert lab.copied == "data.csv and images/a.txt"
    # The folder that was made for it is completed when it is listed.
    assert lab.run("print(sorted(os.listdir('images')))") == "['a.txt', 'deep']\n"


def test_names_that_a_cell_computes(lab: Lab) -> None:
    # A library in C announces nothing: posix.stat stands for it.
    write(lab.folder, frame0_dot_txt="0", frame1_dot_txt="1", other_dot_txt="", few__a0_dot_txt="")
    assert lab.run("from posix import stat; print([stat('frame%d.txt' % n).st_size for n in range(2)])") == "[1, 1]\n"
    assert lab.copied == "frame0.txt and frame1.txt"
    assert lab.run("import os\nFEW = 'few'\nprint(os.getcwd())") == "/content\n"
    assert lab.copied == ""
    assert lab.run("n = 0; print(stat(os.path.join(FEW, f'a{n}.txt')).st_size)") == "0\n"
    assert lab.copied == "few/"


def test_questions_whether_something_exists(lab: Lab) -> None:
    ask = "import os; from pathlib import Path; n = 'other'; print(os.path.exists(n + '.txt'), Path(n).is_dir())"
    assert lab.run(ask) == "False False\n"
    write(lab.folder, other_dot_txt="", other__big_dot_txt="")
    assert lab.run(ask) == "True True\n"
    assert lab.run("print(os.path.exists('o' + 'ther/big.txt'), os.stat in os.supports_dir_fd)") == "True True\n"
    assert lab.run("import shutil; shutil.rmtree(n); os.remove(n + '.txt'); print(os.path.exists(n))") == "False\n"
    assert lab.run(ask) == "False False\n"  # what the notebook has deleted stays away
    assert (lab.folder / "other.txt").exists()


def test_a_listing_of_the_working_folder(lab: Lab) -> None:
    assert lab.run("import glob; print(glob.glob('*.csv'))") == "['data.csv']\n"
    assert lab.copied == "data.csv"
    assert lab.run("import os; print(sorted(os.listdir('/content')))") == "['.config', 'data.csv', 'sample_data']\n"
    everything = ["data.csv", "helper.py", "images", "results", "train.py"]
    assert lab.run("print(sorted(set(os.listdir()) - {'.config', 'sample_data'}))") == f"{everything}\n"
    write(lab.folder, other_dot_ipynb="{}")
    assert lab.run("print([name for name in os.listdir() if name.endswith('ipynb')])") == "[]\n"
    assert lab.run("print(os.path.exists('other.ipynb'))") == "True\n"
    assert lab.run("print(len([1 for _, _, names in os.walk('.') for name in names if name == 'b.txt']))") == "1\n"


def test_modules_of_folders_that_a_cell_adds_to_the_path(lab: Lab) -> None:
    write(lab.folder, lib__inlib_dot_py="x = 3\n", src__proj_____init___dot_py="")
    (lab.folder / "src" / "proj").mkdir(parents=True, exist_ok=True)
    (lab.folder / "src" / "proj" / "core.py").write_text("y = 4\n")
    assert lab.run("import sys; sys.path.append('lib'); import inlib; print(inlib.x)") == "3\n"
    assert lab.run("sys.path.insert(0, './src'); from proj.core import y; print(y)") == "4\n"


def test_scripts_whose_configuration_names_files(lab: Lab) -> None:
    write(lab.folder, base_dot_cfg="input = late.csv\n", late_dot_csv="7")
    write(lab.folder, show_dot_py="import sys; print(open(open(sys.argv[1]).read().split()[-1]).read())\n")
    assert lab.run("!python show.py base.cfg") == "7\n"


def test_what_commands_read(lab: Lab) -> None:
    assert lab.run("!cat data.csv | head -1") == "1,2\n"
    assert lab.run("!python train.py") == "5 1,2\n\n"
    assert lab.run("!cat images/*.txt; ls images/deep") == "ab.txt\n"
    assert lab.run("%%bash\ncat results/old.txt") == "old\n"
    assert lab.run("%cd images\n!cat a.txt").splitlines()[-1] == "a"
    assert lab.run("%cd /content\n!find . -name 'b.txt'").splitlines()[-1] == "./images/deep/b.txt"


def test_what_a_notebook_creates_does_not_meet_what_is_beside_it(lab: Lab) -> None:
    code = "import os; os.makedirs('results'); open('results/new.txt', 'w').write('new'); print(os.listdir('results'))"
    assert lab.run(code) == "['new.txt']\n"
    assert lab.run("!mkdir images && echo fresh > images/c.txt && ls images") == "c.txt\n"
    assert lab.run("open('data.csv', 'w').write('mine')\nprint(open('data.csv').read())") == "mine\n"
    lab.run("!rm -rf /content/* ; rm -f train.py")
    assert (lab.folder / "data.csv").read_text() == "1,2\n"
    assert sorted(each.name for each in lab.folder.iterdir()) == [
        "data.csv",
        "helper.py",
        "images",
        "results",
        "train.py",
    ]


def test_writing_to_a_copy_leaves_the_original(lab: Lab) -> None:
    lab.run("file = open('data.csv', 'r+'); file.write('9'); file.close()")
    assert lab.copied == "data.csv"
    assert lab.run("print(open('data.csv').read())") == "9,2\n\n"
    assert (lab.folder / "data.csv").read_text() == "1,2\n"
    # What the notebook has changed is not replaced.
    (lab.folder / "data.csv").write_text("changed beside it\n")
    assert lab.run("print(open('data.csv').read())") == "9,2\n\n"


def test_a_file_that_changes_beside_the_notebook_is_read_anew(lab: Lab) -> None:
    assert "FileNotFoundError" in lab.run("print(open('late.txt').read())")
    (lab.folder / "late.txt").write_text("uploaded")
    assert lab.run("print(open('late.txt').read())") == "uploaded\n"
    (lab.folder / "late.txt").write_text("uploaded once more")
    assert lab.run("print(open('late.txt').read())") == "uploaded once more\n"
    # What the notebook has deleted stays away.
    assert "FileNotFoundError" in lab.run("import os; os.remove('late.txt'); open('late.txt')")


@pytest.fixture
def files(tmp_path: Path) -> NotebookFiles:
    (tmp_path / "content").mkdir()
    (tmp_path / "lab").mkdir()
    return NotebookFiles(str(tmp_path / "content"), str(tmp_path / "lab"))


def test_only_regular_files_of_the_folder_are_copied(files: NotebookFiles, tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("not beside the notebook")
    lab = tmp_path / "lab"
    (lab / "out.txt").symlink_to(tmp_path / "secret.txt")
    os.mkfifo(lab / "pipe")
    (lab / "real.txt").write_text("x")
    (lab / "link.txt").symlink_to("real.txt")
    (lab / "loop").symlink_to(".")
    for name in ("out.txt", "pipe", "nowhere", "loop", "a" * 300):
        assert not files.bring_file(name)
    files.bring_folder("loop")
    assert files.bring_file("link.txt")
    assert sorted(os.listdir(tmp_path / "content")) == [".config", "link.txt"]
    assert not (tmp_path / "content" / "link.txt").is_symlink()


def test_a_notebook_whose_folder_contains_its_content(tmp_path: Path) -> None:
    content = tmp_path / "home" / "content"
    content.mkdir(parents=True)
    (content / "x").write_text("x")
    files = NotebookFiles(str(content), str(tmp_path))
    files.bring_folder("home")
    assert os.listdir(content) == ["x"]


def test_what_is_too_large_is_left(files: NotebookFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ownlab_guest.colab.notebook_files.MAX_BYTES", 10)
    (tmp_path / "lab" / "big.bin").write_bytes(b"x" * 11)
    (tmp_path / "lab" / "many").mkdir()
    for number in range(3):
        (tmp_path / "lab" / "many" / str(number)).write_bytes(b"x" * 5)
    assert not files.bring_file("big.bin")
    files.bring_folder("many")
    assert os.listdir(tmp_path / "content") == []


def test_what_is_only_perhaps_read_is_copied_if_it_is_little(
    files: NotebookFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ownlab_guest.colab.notebook_files.MAYBE_BYTES", 10)
    (tmp_path / "lab" / "many").mkdir()
    for number in range(3):
        (tmp_path / "lab" / "many" / str(number)).write_bytes(b"x" * 5)
        (tmp_path / "lab" / f"{number}.bin").write_bytes(b"x" * 5)
    files.bring_folder("many", maybe=True)
    files.bring_matching("*.bin", maybe=True)
    assert os.listdir(tmp_path / "content") == []
    (tmp_path / "lab" / "other.ipynb").write_text("{}")
    files.bring_all()
    assert sorted(os.listdir(tmp_path / "content")) == ["many"]  # made for the listing, and completed when it is listed
    files.bring_folder("many")
    assert sorted(os.listdir(tmp_path / "content" / "many")) == ["0", "1", "2"]


def test_the_next_kernel_knows_the_copies(files: NotebookFiles, tmp_path: Path) -> None:
    source, copy = tmp_path / "lab" / "a.txt", tmp_path / "content" / "a.txt"
    source.write_text("one")
    assert files.bring_file("a.txt")
    source.write_text("another")
    following = NotebookFiles(str(tmp_path / "content"), str(tmp_path / "lab"))
    assert following.bring_file("a.txt")
    assert copy.read_text() == "another"
    record = tmp_path / "content" / ".config" / "notebook_files.json"
    for damage in ("", "[]", "{", json.dumps({"folder": str(tmp_path / "lab"), "files": {"a.txt": 1}, "folders": 2})):
        record.write_text(damage)
        assert not NotebookFiles(str(tmp_path / "content"), str(tmp_path / "lab")).bring_file("a.txt")


@pytest.mark.parametrize(
    ("code", "patterns", "composes"),
    [
        ("f'img_{n:03d}.png'", ["img_*.png"], True),
        ("'frame%02d.png' % n", ["frame*.png"], True),
        ("'data/' + str(n) + '.png'", ["data/*.png", "data/*"], True),
        ("'{}_{kind}.csv'.format(n, kind=k)", ["*_*.csv"], True),
        ("os.path.join(base, name)", [], True),
        ("Path('data') / 'x'", [], True),
        ("sys.path.append('lib')", [], True),
        ("', '.join(names)", [], False),
        ("total / 2 + 1", [], False),
        ("f'{n}'", [], False),
        ("f'{job}_{n:05d}'", [], False),
        ("f'epoch {n}: {loss}'", [], False),
        ("print('data', 'x.csv')", [], False),
    ],
)
def test_names_composed_in_code(code: str, patterns: list[str], composes: bool) -> None:
    tree = ast.parse(code)
    assert list(named_files.patterns_in_code(tree)) == patterns
    assert named_files.composes_paths(tree) is composes


@pytest.mark.parametrize(
    ("command", "files", "folders", "modules"),
    [
        ("cat a.txt b.txt > c.txt", ["cat", "a.txt", "b.txt"], True, []),
        ("python -m helper --data=a.csv", ["python", "a.csv"], True, ["helper"]),
        ("sudo mkdir x && unzip a.zip -d b", ["unzip", "a.zip"], False, []),
        ("git clone https://github.com/a/b c", [], False, []),
        ("wget -O a.csv https://a.b/c", [], False, []),
        ("cp -r images backup", ["cp", "images"], True, []),
        ("A=1 python 'my script.py' \\\n  data", ["python", "my script.py", "data"], True, []),
        ("echo 'open quote", ["echo", "'open", "quote"], True, []),
        ("", [], False, []),
        ("; && |", [], False, []),
    ],
)
def test_words_of_commands(command: str, files: list[str], folders: bool, modules: list[str]) -> None:
    words = named_files.words_of(command)
    assert [word for word in words.files if word] == files
    assert bool(words.folders) is folders
    assert words.modules == modules
