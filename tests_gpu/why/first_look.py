"""A first look at loops that nobody of the rules has seen: each one measured as it is and with its change, and then asked about, on one machine.

    python3 -m tests_gpu.why.first_look FOLDER … --out OUT [--steps 50] [--budget SECONDS] [--only NAME …] [--part planted|tuned]

A folder has cases.json and cases/, as tests_gpu/why/held_back. OUT/first_look.json says of each loop what was found and predicted, and what
was measured; OUT/evidence.tar.xz has the evidence.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
import tarfile
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent / "held_back"))
import collect  # type: ignore[import-not-found]  # beside the loops
import measure


def entries_of(folders: list[Path], parts: list[str]) -> list[tuple[Path, dict[str, Any]]]:
    """The loops of some folders, the planted ones of all folders first."""
    found = []
    for part in parts:
        for folder in folders:
            listed = json.loads((folder / "cases.json").read_text())
            found += [(folder, {**entry, "part": part}) for entry in listed[part]]
    return found


def versions(folder: Path, entry: dict[str, Any], into: Path) -> dict[str, Path]:
    """The script, and its changed version."""
    script = folder / "cases" / entry["file"]
    if "diff" not in entry:
        return {"slow": script}
    fixed = into / script.name
    fixed.write_text(measure.changed(script.read_text(), (folder / "cases" / entry["diff"]).read_text()))
    return {"slow": script, "fixed": fixed}


def forget_compiled(scratch: Path) -> None:
    """Give what torch.compile makes a new folder: with the code of the run before, compiling takes a tenth of its time."""
    for name in ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR"):
        os.environ[name] = tempfile.mkdtemp(dir=scratch)


def look(
    folder: Path, entry: dict[str, Any], options: argparse.Namespace, evidence: Path, scratch: Path
) -> dict[str, Any]:
    """One loop: how long its steps take, and what is said of it."""
    name = f"{folder.name}-{Path(entry['file']).stem}"
    row: dict[str, Any] = {key: entry.get(key) for key in ("part", "group", "also_accepted", "cause", "what", "lines")}
    row["name"] = name
    scripts = versions(folder, entry, scratch)
    plain = argparse.Namespace(steps=options.steps, tiny=options.tiny, preload=True, limit=options.limit)
    for version, script in scripts.items() if entry["part"] == "planted" else ():
        forget_compiled(scratch)
        ran = measure.run(script, plain, scratch / "log")
        row[version] = ran.get("step_ms")
        row[f"{version}_seconds"] = ran["seconds"]
        if "output" in ran:
            row[f"{version}_output"] = ran["output"][-600:]
    forget_compiled(scratch)
    why = collect.explain(scripts["slow"], options, evidence / f"{name}.json", options.limit)
    document = why.pop("document", None) or {}
    row["why"] = why
    row["sentence"], row["notes"] = document.get("sentence"), document.get("notes")
    step = (document.get("step") or {}).get("step_ms")
    row["why_step_ms"] = step
    row["findings"] = [
        {
            **{key: each[key] for key in ("code", "share", "step_ms_after", "where")},
            "gain": step / max(1e-6, sum(each["step_ms_after"]) / 2) if step and each["step_ms_after"] else None,
        }
        for each in document.get("findings", ())
    ]
    if row.get("slow") and row.get("fixed"):
        row["gain"] = row["slow"] / row["fixed"]
    return row


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--budget", type=float, default=3600, help="no loop begins after so many seconds")
    parser.add_argument("--limit", type=float, default=45, help="seconds for one run of a loop")
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--part", nargs="*", default=["planted", "tuned"])
    parser.add_argument("--tiny", action="store_true", help="small sizes, to try the loops on a CPU")
    options = parser.parse_args()
    began = time.monotonic()
    for library in ("numpy", "torch"):
        importlib.import_module(library)
    rows = []
    options.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        scratch = Path(temporary)
        evidence = scratch / "evidence"
        evidence.mkdir()
        for folder, entry in entries_of(options.folders, options.part):
            name = Path(entry["file"]).stem
            if options.only and name not in options.only:
                continue
            if time.monotonic() - began > options.budget:
                rows.append({"name": f"{folder.name}-{name}", "left_out": "no time was left"})
                continue
            try:
                row = look(folder.resolve(), entry, options, evidence, scratch)
            except Exception as exc:  # noqa: BLE001  # the other loops go on
                row = {"name": f"{folder.name}-{name}", "error": repr(exc)[:500]}
            rows.append(row)
            codes = [(each["code"], round(each["gain"] or 0, 2)) for each in row.get("findings", ())[:3]]
            took = round(time.monotonic() - began)
            sys.stdout.write(
                f"{took} s {row['name']} {row.get('slow')} {row.get('fixed')} {row.get('gain')} {row.get('why_step_ms')} {codes}\n"
            )
            sys.stdout.flush()
            (options.out / f"first_look-{'-'.join(options.part)}.json").write_text(json.dumps(rows, indent=1))
            with tarfile.open(
                options.out / f"evidence-{'-'.join(options.part)}.tar.gz", "w:gz", compresslevel=3
            ) as archive:
                archive.add(evidence, "evidence")
    return 0


if __name__ == "__main__":
    sys.exit(main())
