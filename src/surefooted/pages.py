"""One self-contained HTML page: its own style, pictures inside it, no script, and everything escaped.

`Shown` is for what is printed on a terminal or shown by a notebook.
"""

import base64
import hashlib
import html
from collections.abc import Mapping, Sequence

STYLE = """
:root { color-scheme: light dark; --line: #ccc; --soft: #666; }
@media (prefers-color-scheme: dark) { :root { --line: #444; --soft: #aaa; } }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 68rem; margin: 2rem auto; padding: 0 1rem; }
h1 { margin-bottom: 0; } h2 { margin-top: 2.2rem; } .soft { color: var(--soft); }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; display: block; overflow-x: auto; }
table { font-size: .9rem; }
th, td { padding: .35rem .55rem; border-bottom: 1px solid var(--line); text-align: right; vertical-align: top; }
th:first-child, td:first-child { text-align: left; } .words td, .words th { text-align: left; }
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(26rem, 1fr)); gap: 1rem 1.5rem; }
figure { margin: .6rem 0; } figure img { max-width: 100%; background: white; border-radius: 4px; }
figcaption { color: var(--soft); font-size: .9rem; }
pre { overflow-x: auto; padding: .8rem; border: 1px solid var(--line); }
"""
# The page needs its own style and the pictures in it: no script, no other file, no form.
_HASH = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
POLICY = f"default-src 'none'; img-src data:; style-src 'sha256-{_HASH}'; base-uri 'none'; form-action 'none'"


def page(title: str, body: str) -> bytes:
    """The whole page; `body` is HTML already, the title is escaped here."""
    return (
        f"<!doctype html><html lang=en><meta charset=utf-8>"
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}"><meta name=referrer content=no-referrer>'
        f"<meta name=viewport content='width=device-width'>"
        f"<title>{text(title)}</title><style>{STYLE}</style><body>{body}</body></html>\n"
    ).encode()


def text(words: str) -> str:
    """Words as HTML: what they contain is shown, never obeyed."""
    return html.escape(words, quote=True)


def table(head: Sequence[str], rows: Sequence[Sequence[str]], kind: str = "") -> str:
    """A table; with `kind` "words", columns are aligned to the left."""
    top = "".join(f"<th>{text(cell)}</th>" for cell in head)
    lines = "".join("<tr>" + "".join(f"<td>{text(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table class='{kind}'><thead><tr>{top}</tr></thead><tbody>{lines}</tbody></table>"


def figure(png: bytes, caption: str) -> str:
    """A picture with its caption, which is also read to those who cannot see it."""
    data = base64.b64encode(png).decode()
    image = f"<img alt='{text(caption)}' src='data:image/png;base64,{data}'>"
    return f"<figure>{image}<figcaption>{text(caption)}</figcaption></figure>"


class Shown:
    """What a terminal shows as one line and a notebook as a small table: a subclass says which facts.

    A dataclass must be made with `repr=False`, or it prints all of its arrays.
    """

    def _facts(self) -> Mapping[str, object]:
        """The facts, by names without spaces."""
        raise NotImplementedError

    def __repr__(self) -> str:
        """One line."""
        return f"{type(self).__name__}({', '.join(f'{name}={_short(fact)}' for name, fact in self._facts().items())})"

    def _repr_html_(self) -> str:
        """A table; whatever a name or unit contains is shown, never obeyed."""
        rows = [[name.replace("_", " "), _short(fact)] for name, fact in self._facts().items()]
        return table([type(self).__name__, ""], rows, "words")


def _short(fact: object) -> str:
    return f"{fact:.6g}" if isinstance(fact, float) else str(fact)
