"""The report of a fit: one page of HTML that needs nothing else, from ``summary``'s dictionary."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

STYLE = """
:root { color-scheme: light dark; --ink: #222; --soft: #666; --line: #ddd; --page: #fff; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e6e6; --soft: #a5a5a5; --line: #444; --page: #1b1b1b; }
}
body { margin: 2rem auto; max-width: 60rem; padding: 0 1rem; color: var(--ink);
  background: var(--page); font: 1rem/1.5 system-ui, sans-serif; }
h1 { font-size: 1.5rem; margin-bottom: .25rem; }
h2 { font-size: 1.1rem; margin-top: 2rem; }
p.soft, figcaption, footer { color: var(--soft); font-size: .9rem; }
div.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .9rem .3rem 0; text-align: left; border-bottom: 1px solid var(--line); }
th.number, td.number { text-align: right; }
figure { margin: 1rem 0; }
figure img { max-width: 100%; height: auto; background: #fff; border-radius: 4px; }
@media print { body { margin: 0; max-width: none; } }
"""

# Nothing may be fetched, and no script may run, whatever the data's names and values say.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def page(fitted: Mapping[str, Any], pictures: Mapping[str, tuple[bytes, str]]) -> str:
    """The page; ``pictures`` holds PNG bytes and a text alternative under "domains" and "mmd2"."""
    m, n = fitted["rows"]
    parts = [
        f"<h1>{_sentence(fitted['verdict'])}</h1>",
        f'<p class="soft">Predicting {escape(fitted["label"])} for {n} target rows from {m} source '
        f"rows, {fitted['labelled']} target labels given.</p>",
        "<h2>Why</h2>",
        bullets(fitted["reasons"]),
        picture("Before and after", pictures.get("domains")),
        "<h2>Candidates</h2>",
        "<p>Distinct alignments, best first; the first is in force.</p>",
        _candidates(fitted["candidates"]),
        picture("", pictures.get("mmd2")),
        _balance(fitted["balance"]),
        _settings(fitted),
    ]
    return document(fitted["label"], parts)


def document(title: str, parts: Sequence[str]) -> str:
    """A whole page of these parts, which are HTML; the title is text."""
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>unshift: {escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n"
        "<body>\n" + "\n".join(part for part in parts if part) + "\n</body>\n</html>\n"
    )


def _sentence(text: str) -> str:
    return f"{escape(text[:1].upper() + text[1:])}."


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


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table whose first column is text and whose others are numbers."""

    def line(cells: Sequence[str], tag: str) -> str:
        kinds = ["", *[' class="number"'] * (len(cells) - 1)]
        return "".join(f"<{tag}{k}>{escape(c)}</{tag}>" for k, c in zip(kinds, cells, strict=True))

    body = "\n".join(f"<tr>{line(row, 'td')}</tr>" for row in rows)
    return (
        f'<div class="wide"><table>\n<thead><tr>{line(head, "th")}</tr></thead>\n'
        f"<tbody>\n{body}\n</tbody></table></div>"
    )


def _candidates(candidates: Sequence[Mapping[str, Any]]) -> str:
    rows = [
        (
            str(c["kind"]),
            f"{c['mmd2']:.3g}",
            str(c["starts"]),
            "–" if c["error"] is None else f"{c['error']:.3g} on {c['n_labelled']}",
        )
        for c in candidates
    ]
    return table(("Start", "MMD²", "Descents that met here", "Error on labelled rows"), rows)


def _balance(balance: Sequence[Mapping[str, Any]]) -> str:
    if not balance:
        return ""
    rows = [(b["class"], f"{b['source']:.1%}", f"{b['target']:.1%}") for b in balance]
    return "<h2>Classes</h2>\n" + table(("Class", "Source", "Predicted in the target"), rows)


def _settings(fitted: Mapping[str, Any]) -> str:
    versions = ", ".join(f"{name} {number}" for name, number in fitted["versions"].items())
    command = fitted.get("command")
    repeat = f"<p>Made by <code>{escape(command)}</code>.</p>\n" if command else ""
    d, e = fitted["widths"]
    return (
        f"<h2>To repeat it</h2>\n{repeat}<p>{d} source and {e} target columns, "
        f"{fitted['components']} dimensions, bandwidth {fitted['bandwidth']:.4g}; "
        f"{escape(versions)}.</p>"
    )
