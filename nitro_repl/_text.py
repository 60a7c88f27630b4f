"""What every object of ours that a user looks at is drawn with.

Values are user data: they show as they are, never read as markup, HTML or escapes.
"""

from __future__ import annotations

import contextlib
import io
import reprlib
import sys
import warnings
from html import escape
from typing import Any, TextIO

from rich.console import Console, RenderableType
from rich.terminal_theme import TerminalTheme
from rich.text import Text

WIDTH = 100

# Middle tones, legible on a white and on a dark page; the page gives the rest.
_THEME = TerminalTheme(
    background=(255, 255, 255),
    foreground=(0, 0, 0),
    normal=[
        (110, 110, 110),
        (209, 69, 69),
        (46, 148, 84),
        (176, 122, 16),
        (59, 122, 208),
        (160, 84, 190),
        (23, 140, 156),
        (128, 128, 128),
    ],
)
_PRE = (
    '<pre style="margin:0;padding:0;border:0;background:transparent;color:inherit;'
    "font-family:ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace;"
    'font-size:13px;line-height:1.3;white-space:pre;overflow-x:auto">{code}</pre>'
)


class View:
    """Something with one drawing, `__rich__`, shown as text and as HTML."""

    def __rich__(self) -> RenderableType:
        """Draw the object; text from users goes through `plain` or `show`."""
        raise NotImplementedError(f"{type(self).__name__} has no drawing")

    def __repr__(self) -> str:
        console = _console()
        with console.capture() as drawn:
            console.print(self.__rich__())
        return "\n".join(line.rstrip() for line in drawn.get().splitlines())

    def _repr_html_(self) -> str:
        console = _console(record=True)
        console.print(self.__rich__())
        return console.export_html(theme=_THEME, code_format=_PRE, inline_styles=True)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None):
        return {"text/plain": repr(self), "text/html": self._repr_html_()}


def folded(title: str, html: str) -> str:
    """HTML that shows its title, and the rest when that is clicked."""
    said = f'<summary style="cursor:pointer">{escape(title)}</summary>'
    return f"<details>{said}{html}</details>"


def plain(value: object, limit: int = 80, style: str = "") -> Text:
    """Make text of anything: one line, nothing interpreted, at most `limit` wide."""
    text = one_line(str(value), limit)
    return Text(text, style=style, no_wrap=True, overflow="ellipsis")


def one_line(text: str, limit: int = 80) -> str:
    """Put text on one line with control characters spelled out, cut at `limit`."""
    text = text[: 4 * limit]  # a very long string need not be read to its end
    text = " ".join(text.split()) if "\n" in text else text
    text = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def show(value: object, limit: int = 60) -> str:
    """Write a value as the user would: numbers short, arrays by dtype and shape."""
    if isinstance(value, float):
        return f"{value:.6g}"
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    if isinstance(shape, tuple) and dtype is not None:
        return _show_array(value, shape, dtype)
    return one_line(_REPR.repr(value), limit)


def duration(seconds: float) -> str:
    """Write a time span in the unit that suits it: 850 us, 12 ms, 3.2 s, 4:05."""
    if seconds < 1e-3:
        return f"{seconds * 1e6:.0f} us"
    if seconds < 1:
        return f"{seconds * 1e3:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def _show_array(value: Any, shape: tuple[int, ...], dtype: object) -> str:
    if shape == () and hasattr(value, "item"):
        return show(value.item())
    return f"{dtype}[{', '.join(map(str, shape))}]"


def _console(record: bool = False) -> Console:
    return Console(
        file=io.StringIO(),
        width=WIDTH,
        color_system="standard" if record else None,
        force_terminal=record,
        force_jupyter=False,
        legacy_windows=False,
        markup=False,
        emoji=False,
        highlight=False,
        record=record,
        _environ={},
    )


def _bounded_repr() -> reprlib.Repr:
    short = reprlib.Repr()
    short.maxstring = short.maxother = 60
    short.maxlist = short.maxtuple = short.maxdict = short.maxset = 8
    return short


_REPR = _bounded_repr()


def tell(text: str, *, bad: bool = False) -> None:
    """Say something in this thread's cell, on its error stream if it is bad news.

    Never raises: a stream that is closed or broken hurts no run.
    """
    with contextlib.suppress(Exception):
        write(sys.stderr if bad else sys.stdout, text + "\n")


def warn(text: str) -> None:
    """Warn of what a run goes on without; told where warnings are errors, not raised.

    It is of no line of ours, which would say nothing to who reads it.
    """
    try:
        warnings.warn_explicit(text, RuntimeWarning, "nitro_repl", 0)
    except Exception:  # of the user's filters, or of a stream that is broken
        tell(text, bad=True)


def write(stream: TextIO | None, text: str) -> None:
    """Write to a stream; characters that it cannot show are spelled out."""
    if stream is None:
        return
    try:
        stream.write(text)
    except UnicodeEncodeError:
        encoding = getattr(stream, "encoding", None) or "ascii"
        known = text.encode(encoding, "backslashreplace")
        stream.write(known.decode(encoding))
    stream.flush()


def said(error: BaseException) -> str:
    """The name and the text of an exception."""
    return f"{type(error).__name__}: {message(error)}"


def message(error: BaseException) -> str:
    """The text of an exception; one of a user's class may fail to make it."""
    try:
        return str(error)
    except Exception as other:
        return f"(its text cannot be made: {type(other).__name__})"
