"""A chromium to look at panels with, and a bare page that draws one without Jupyter."""

from __future__ import annotations

import base64
import contextlib
import json
import shutil
from collections.abc import Iterator
from typing import Any

from nitro_repl._widgets.assets import script, style

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-dev-shm-usage",
    "--no-first-run",
]

_PAGE = """<!doctype html><html><head><meta charset="utf-8">
<style>
:root{{color-scheme:light dark}} body{{margin:12px;background:Canvas}} {style}
</style>
</head><body><div id="root"></div><script type="module">
const handlers = {{}};
globalThis.sent = [];
const model = {{
  on: (name, handler) => (handlers[name] ??= []).push(handler), off() {{}}, get() {{}},
  send: (message) => sent.push(message),
}};
globalThis.happen = (name, ...told) => handlers[name].forEach((one) => one(...told));
globalThis.deliver = (message, buffers) => {{
  const views = buffers.map((text) => {{
    const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
    return new DataView(bytes.buffer);
  }});
  happen("msg:custom", message, views);
}};
const factory = (await import(URL.createObjectURL(
  new Blob([{script}], {{ type: "text/javascript" }})))).default;
const widget = factory();
widget.initialize({{ model }});
globalThis.view = () => document.getElementById("root").nitro;
globalThis.close = widget.render({{ model, el: document.getElementById("root") }});
globalThis.ready = true;
</script></body></html>"""


def chromium() -> str | None:
    """The path of the browser, None where there is none."""
    return shutil.which("chromium")


@contextlib.contextmanager
def browser() -> Iterator[Any]:
    """A headless chromium."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=chromium(), args=FLAGS)
        try:
            yield opened
        finally:
            opened.close()


class BarePage:
    """The panel's front end on a page of its own; it is fed by hand.

    Args:
        browser: From `browser()`.
        width: Of the page, in pixels.
        dark: Whether the system prefers dark colours.
        name: Of the script: "panel" or "overlay".
    """

    def __init__(
        self, browser: Any, width: int = 1200, dark: bool = False, name: str = "panel"
    ):
        scheme = "dark" if dark else "light"
        size = {"width": width, "height": 900}
        self.context = browser.new_context(viewport=size, color_scheme=scheme)
        self.page = self.context.new_page()
        self.errors: list[str] = []
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.set_content(
            _PAGE.format(style=style(), script=json.dumps(script(name)))
        )
        self.page.wait_for_function("globalThis.ready === true")

    def deliver(self, message: Any, buffers: list[bytes]) -> None:
        """Have a message come from the kernel."""
        texts = [base64.b64encode(buffer).decode() for buffer in buffers]
        self.page.evaluate("([m, b]) => deliver(m, b)", [message, texts])

    def sent(self) -> list[Any]:
        """What the page has sent to the kernel."""
        return self.page.evaluate("sent")

    def close(self) -> None:
        self.context.close()
