"""A themed application for every window test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from PySide6.QtWidgets import QApplication

from kvarn.domain.settings import ThemeChoice
from kvarn.services.paths import resources_dir
from kvarn.views.theme import Theme


@pytest.fixture
def themed(qapp: QApplication) -> Iterator[Theme]:
    theme = Theme(resources_dir() / "icons")
    theme.apply(qapp, ThemeChoice.LIGHT)
    theme.dress()
    yield theme
    theme.choose(ThemeChoice.SYSTEM)
    qapp.setStyleSheet("")
