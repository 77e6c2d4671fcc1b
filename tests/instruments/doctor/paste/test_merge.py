"""Two reports of one machine are merged."""

from __future__ import annotations

from ownlab.instruments.doctor.paste.reader import merge
from ownlab.machine.facts import NOT_READ, Known, Unknown, value_of
from ownlab.machine.records import Card, Framework, Host, Interpreter, Machine, Nvidia, Package


def known(value: str, source: str = "a") -> Known[str]:
    return Known(value, source)


def cards(*each: Card, source: str = "a") -> Machine:
    return Machine(origin="pasted", cards=Known(each, source))


def test_known_wins_and_the_first_of_two_known() -> None:
    first = Machine(origin="pasted", nvidia=Nvidia(driver=Unknown("not collected"), cuda=known("12.4")))
    second = Machine(
        origin="pasted", nvidia=Nvidia(driver=known("550", "b"), cuda=known("12.2", "b"), smi=Unknown("failed"))
    )
    nvidia = merge(first, second).nvidia
    assert (nvidia.driver, nvidia.cuda, nvidia.smi) == (known("550", "b"), known("12.4"), Unknown("failed"))
    assert merge(second, first).nvidia.cuda == known("12.2", "b")


def test_a_reason_wins_over_not_read() -> None:
    first, second = Machine(), Machine(nvidia=Nvidia(driver=Unknown("no answer")))
    assert merge(first, second).nvidia.driver == Unknown("no answer")
    assert merge(second, first).nvidia.driver == Unknown("no answer")


def test_cards_are_merged_by_uuid_then_bus_id_then_index() -> None:
    listed = cards(Card("nvidia", 0, uuid=known("GPU-a1")), Card("nvidia", 1, uuid=known("GPU-b2")))
    placed = cards(
        Card("nvidia", 0, uuid=known("GPU-b2"), bus_id=known("00000000:02:00.0"), name=known("T4")),
        Card("nvidia", 1, uuid=known("GPU-a1"), bus_id=known("00000000:01:00.0"), name=known("H200")),
        source="b",
    )
    both = merge(listed, placed)
    assert [value_of(card.name) for card in value_of(both.cards) or ()] == ["H200", "T4"]
    place = cards(Card("nvidia", 7, bus_id=known("0000:02:00.0"), temperature=Known(40, "c")), source="c")
    assert [value_of(card.temperature) for card in value_of(merge(both, place).cards) or ()] == [None, 40]
    index = cards(Card("nvidia", 1, persistence=Known(True, "d")), Card("amd", 1), source="d")
    merged = merge(both, index).cards
    assert isinstance(merged, Known)
    assert merged.source == "a, b, d"
    assert [(card.vendor, card.index, value_of(card.persistence)) for card in merged.value] == [
        ("amd", 1, None),
        ("nvidia", 0, None),
        ("nvidia", 1, True),
    ]


def test_blanked_uuids_do_not_identify_cards() -> None:
    blank = known("GPU-00000000-0000-0000-0000-000000000000")
    first = cards(Card("nvidia", 0, uuid=blank), Card("nvidia", 1, uuid=blank))
    second = cards(Card("nvidia", 0, uuid=blank, name=known("T4")), Card("nvidia", 1, uuid=blank, name=known("H200")))
    assert [value_of(card.name) for card in value_of(merge(first, second).cards) or ()] == ["T4", "H200"]


def test_a_truncated_name_is_replaced_by_the_full_name() -> None:
    cut, whole = (
        cards(Card("nvidia", 0, name=known("Tesla P100..."))),
        cards(Card("nvidia", 0, name=known("Tesla P100-PCIE-16GB"))),
    )
    for merged in (merge(cut, whole), merge(whole, cut)):
        assert [value_of(card.name) for card in value_of(merged.cards) or ()] == ["Tesla P100-PCIE-16GB"]


def test_lists_with_names_and_logs() -> None:
    first = Machine(
        host=Host(kernel_log=Known(("one", "two"), "a")),
        interpreter=Interpreter(
            packages=Known((Package("torch", "2.1"),), "a"),
            frameworks=Known((Framework("torch", version=known("2.1")),), "a"),
        ),
    )
    second = Machine(
        host=Host(kernel_log=Known(("two", "three"), "a")),
        interpreter=Interpreter(
            packages=Known((Package("torch", "9"), Package("jax", "0.4")), "a"),
            frameworks=Known((Framework("torch", version=known("9"), cuda=known("12.1")), Framework("jax")), "a"),
        ),
    )
    merged = merge(first, second)
    assert value_of(merged.host.kernel_log) == ("one", "two", "three")
    assert value_of(merged.interpreter.packages) == (Package("torch", "2.1"), Package("jax", "0.4"))
    torch, jax = value_of(merged.interpreter.frameworks) or ()
    assert (value_of(torch.version), value_of(torch.cuda), jax.name) == ("2.1", "12.1", "jax")
    assert merge(Machine(), Machine()) == Machine()
    assert merge(Machine(), Machine()).cards == NOT_READ
