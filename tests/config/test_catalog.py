"""The sections in which settings are listed."""

from __future__ import annotations

from rookery.config.catalog import ALGORITHMS, sections, select_sections
from rookery.config.run import Config


def test_every_section_has_a_summary_and_settings_with_a_meaning() -> None:
    for section in sections():
        assert section.summary.endswith(".")
        assert section.rows
        assert all(row.description for row in section.rows), section.name


def test_there_is_a_section_for_every_group_of_settings() -> None:
    names = [section.name for section in sections()]

    assert names[0] == "run"
    assert set(names[1:]) <= set(Config.model_fields)
    assert len(names) == len(set(names))


def test_every_algorithm_with_shared_settings_leads_to_sections() -> None:
    for name, expected in ALGORITHMS.items():
        assert tuple(section.name for section in select_sections(name)) == expected
