"""The output of cells as `ownlab run` prints it: on a terminal as it comes, elsewhere in whole lines."""

from __future__ import annotations

import io

import pytest

from ownlab.lab.terminal.cell_output import CellOutput, OverwrittenLines, clean


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def stream(text: str, name: str = "stdout") -> dict[str, str]:
    return {"output_type": "stream", "name": name, "text": text}


@pytest.mark.parametrize(
    ("printed", "lines"),
    [
        ("a\nb\n", ["a", "b"]),
        ("a\r\nb\r\n", ["a", "b"]),
        ("10 %\r20 %\r100 %\n", ["100 %"]),
        ("long text\rshort\n", ["shorttext"]),  # as a terminal shows it
        ("ab\bc\n", ["ac"]),
        ("\b\bx\n", ["x"]),
        ("ab\rc\n\rd\n", ["cb", "d"]),
    ],
)
def test_a_line_is_what_a_terminal_would_show_in_the_end(printed: str, lines: list[str]) -> None:
    assert OverwrittenLines().add(printed) == lines
    piecewise = OverwrittenLines()
    assert [line for char in printed.replace("\r\n", "\n") for line in piecewise.add(char)] == lines


@pytest.mark.parametrize("colours", [False, True])
def test_only_colours_can_reach_a_terminal(colours: bool) -> None:
    printed = "\x1b[31mred\x1b[0m \x1b[2J\x1b]0;title\x07\x1b]8;;http://x\x1b\\link \x1bc\x07\x9b31m\rend\b"
    cleaned = clean(printed, colours=colours)
    assert (
        cleaned.replace("\x1b[31m", "").replace("\x1b[0m", "")
        == "red link \N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}31m\rend\b"
    )
    assert cleaned.count("\x1b") == (2 if colours else 0)


def test_a_pipe_gets_whole_lines_and_a_terminal_everything_at_once() -> None:
    pipe, terminal = io.StringIO(), Terminal()
    both = [CellOutput(pipe, io.StringIO()), CellOutput(terminal, io.StringIO())]
    for output in both:
        output.show(stream("0 %\r50 %\r"))
    assert (pipe.getvalue(), terminal.getvalue()) == ("", "0 %\r50 %\r")
    for output in both:
        output.show(stream("100 %"))
        output.finish()
    assert pipe.getvalue() == "100 %\n"
    assert terminal.getvalue() == "0 %\r50 %\r100 %\x1b[0m\n"


def test_a_log_shows_the_state_of_a_progress_bar_from_time_to_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("ownlab.lab.terminal.cell_output.time.monotonic", lambda: now[0])
    pipe = io.StringIO()
    output = CellOutput(pipe, io.StringIO())
    for percent in range(41):
        output.show(stream(f"\r{percent} %"))
        output.tick()
        now[0] += 1
    assert pipe.getvalue() == "10 %\n20 %\n30 %\n40 %\n"
    output.finish()  # this state is there already
    assert pipe.getvalue() == "10 %\n20 %\n30 %\n40 %\n"


def test_streams_stay_apart_and_rich_output_is_one_line() -> None:
    stdout, stderr = io.StringIO(), io.StringIO()
    output = CellOutput(stdout, stderr)
    output.show(stream("no line end"))
    output.show(stream("a warning\n", "stderr"))
    output.show({"output_type": "display_data", "data": {"image/png": "A" * 4000, "text/plain": "<Figure>"}})
    output.show({"output_type": "execute_result", "data": {"text/html": "<b>1</b>", "text/plain": "1"}})
    assert stdout.getvalue().splitlines() == ["no line end", "[image/png, 2.9 KiB]", "1"]
    assert stderr.getvalue() == "a warning\n"
