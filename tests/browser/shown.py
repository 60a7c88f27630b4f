"""A panel on a page, looked at and used as by hand."""

from __future__ import annotations

import time
from typing import Any


class Shown:
    """The panel of one run on a page.

    Args:
        page: Of a browser.
        place: Which panel of the page, from the top.
    """

    def __init__(self, page: Any, place: int = 0):
        self.page = page
        self.root = page.locator(".nitro-panel").nth(place)
        self._view = f"document.querySelectorAll('.nitro-panel')[{place}]"

    def wait(self) -> Shown:
        """Wait until it shows a run."""
        self.root.locator(".nitro-body").wait_for(timeout=60_000)
        return self

    def ask(self, script: str) -> Any:
        """What a script says of its `view`."""
        return self.page.evaluate(
            f"(() => {{ const view = {self._view}.parentElement.nitro; {script} }})()"
        )

    def until(self, script: str) -> None:
        """Wait until a script says true of its `view`."""
        self.page.wait_for_function(
            f"(() => {{ const view = {self._view}?.parentElement?.nitro;"
            f" if (!(view?.panel ?? view?.link)?.state) return false; {script} }})()",
            timeout=60_000,
        )

    def press(self, name: str) -> float:
        """Click a button; the time of it."""
        button = self.root.get_by_role("button", name=name, exact=True)
        button.scroll_into_view_if_needed()
        begun = time.monotonic()
        button.click()
        return begun

    def until_phase(self, phase: str) -> float:
        """Wait for a phase; the time when it came."""
        self.until(
            "return view.element.querySelector('.nitro-phase').textContent"
            f" === '{phase}'"
        )
        return time.monotonic()

    def until_step(self, step: int) -> None:
        self.until(f"return view.panel.state.progress.step >= {step}")

    @property
    def step(self) -> int:
        return self.ask("return view.panel.state.progress.step")

    def curve(self, label: str) -> tuple[list[float], list[float]]:
        """Steps and values that the page has of a curve."""
        x, y = self.ask(
            "const p = [...view.charts.store.values()]"
            f".find((p) => p.about.label === {label!r});"
            "return [[...p.x.slice(0, p.count)], [...p.y.slice(0, p.count)]]"
        )
        return x, y

    def text(self, part: str) -> str:
        """What a part of it says."""
        return self.root.locator(part).inner_text()
