"""Pieces of HTML for pages and notebooks. Text is escaped here, and only here."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from hashlib import sha256
from html import escape
from importlib.resources import files
from typing import Any


class Html(str):
    """Text that is HTML already, made here and not from data: it is not escaped again."""

    __slots__ = ()


def text(words: str) -> str:
    """The words with all that HTML would take for its own escaped."""
    return words if isinstance(words, Html) else escape(words)


def asset(name: str) -> str:
    """The text of a file that comes with the package."""
    return files("unshift").joinpath("data", name).read_text(encoding="utf-8")


def document(title: str, parts: Sequence[str], script: str = "") -> str:
    """A whole page of these parts, which are HTML; the title is text.

    Its policy lets the browser fetch nothing, and run no script but this one, whatever the names
    and values in the data say: scripts and styles are allowed by their hashes.
    """
    style = asset("report.css")
    policy = (
        f"default-src 'none'; style-src {_hash(style)}; script-src "
        f"{_hash(script) if script else chr(39) + 'none' + chr(39)}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    body = "\n".join(part for part in parts if part)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>unshift: {escape(title)}</title>\n<style>{style}</style>\n</head>\n"
        f"<body>\n<main>\n{body}\n</main>\n"
        + (f"<script>{script}</script>\n" if script else "")
        + "</body>\n</html>\n"
    )


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(sha256(text.encode()).digest()).decode()}'"


def data_block(name: str, values: Any) -> str:
    """Values as JSON for the page's script. No name in them can end the block or start another."""
    block = json.dumps(values, separators=(",", ":"), allow_nan=False)  # ASCII alone
    for sign in "<>&":
        block = block.replace(sign, f"\\u{ord(sign):04x}")
    return f'<script type="application/json" id="{name}">{block}</script>'


def section(title: str, *parts: str) -> str:
    """A section under a heading; nothing where it has no parts."""
    inner = "\n".join(part for part in parts if part)
    return f"<section>\n<h2>{escape(title)}</h2>\n{inner}\n</section>" if inner else ""


def paragraph(words: str, kind: str = "") -> Html:
    """A paragraph of text."""
    return Html(f'<p class="{kind}">{text(words)}</p>' if kind else f"<p>{text(words)}</p>")


def bullets(sentences: Sequence[str]) -> str:
    """A list of sentences."""
    return "<ul>\n" + "\n".join(f"<li>{escape(s)}</li>" for s in sentences) + "\n</ul>"


def picture(title: str, drawn: tuple[bytes, str] | None) -> str:
    """A figure of PNG bytes and a text alternative, below a title; nothing where there is none."""
    if drawn is None:
        return ""
    data, words = base64.b64encode(drawn[0]).decode(), escape(drawn[1])
    heading = f"<h2>{escape(title)}</h2>\n" if title else ""
    return (
        f'{heading}<figure><img src="data:image/png;base64,{data}" alt="{words}">'
        f"<figcaption>{words}</figcaption></figure>"
    )


def table(
    head: Sequence[str], rows: Sequence[Sequence[str]], *, words: int = 1, caption: str = ""
) -> Html:
    """A table whose first ``words`` columns are text and whose others are numbers."""

    def line(cells: Sequence[str], tag: str) -> str:
        column = ' scope="col"' if tag == "th" else ""
        kinds = ["" if i < words else ' class="number"' for i in range(len(cells))]
        return "".join(
            f"<{tag}{column}{kind}>{text(cell)}</{tag}>"
            for kind, cell in zip(kinds, cells, strict=True)
        )

    body = "\n".join(f"<tr>{line(row, 'td')}</tr>" for row in rows)
    title = f"<caption>{escape(caption)}</caption>" if caption else ""
    return Html(
        f'<div class="wide"><table>{title}\n<thead><tr>{line(head, "th")}</tr></thead>\n'
        f"<tbody>\n{body}\n</tbody></table></div>"
    )
