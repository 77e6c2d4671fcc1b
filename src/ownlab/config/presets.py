"""The limits that people know from elsewhere, as data: each figure with its source, and when it was read there."""

from __future__ import annotations

from msgspec import Struct

__all__ = ["PRESETS", "Preset"]


class Preset(Struct, frozen=True):
    """Limits under one name. None: that platform has no such limit, or tells none."""

    name: str
    idle_minutes: float | None = None
    session_hours: float | None = None
    gpu_hours_per_week: float | None = None
    sources: tuple[str, ...] = ()


# What these platforms give for nothing; they change it, and say that they do. A machine of one's own needs none of it.
PRESETS = {
    preset.name: preset
    for preset in (
        Preset("none"),
        Preset(
            "colab",
            idle_minutes=90,
            session_hours=12,
            sources=(
                "idle: the documents of github.com/googlecolab/google-colab-cli, 2026-07",
                "session: research.google.com/colaboratory/faq.html, as cited 2026-05 (24 h with Pro+)",
            ),
        ),
        Preset(
            "kaggle",
            session_hours=12,
            gpu_hours_per_week=30,
            sources=(
                "session: kaggle.com/docs/notebooks, as cited 2025-11",
                "GPU hours: kaggle.com/product-feedback/173129, as cited 2025-11 (it varies from week to week)",
            ),
        ),
    )
}
