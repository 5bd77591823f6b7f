"""The line of each key of a TOML file, for messages; Python's parser does not tell."""

import re
from typing import Any

HEADER = re.compile(r"^\s*(\[\[?)\s*([^\]]+?)\s*\]\]?\s*(#.*)?$")
KEY = re.compile(r"""^\s*((?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*'))*)\s*=""")
QUOTES = ('"""', "'''")


def lines_of(text: str) -> dict[str, int]:
    """The line, from 1, of each dotted key and table header."""
    places: dict[str, int] = {}
    table, inside, depth = "", "", 0
    entries: dict[str, int] = {}  # of each array of tables
    for number, line in enumerate(text.splitlines(), start=1):
        if inside:
            inside = "" if inside in line else inside
            continue
        if depth == 0:
            if header := HEADER.match(line):
                table = _plain(header[2])
                places.setdefault(table, number)
                if header[1] == "[[":
                    entries[table] = entries.get(table, -1) + 1
                    table = f"{table}.{entries[table]}"
                    places[table] = number
                continue
            if key := KEY.match(line):
                path = ".".join(part for part in (table, _plain(key[1])) if part)
                places.setdefault(path, number)
                line = line[key.end() :]
        opened = next((quotes for quotes in QUOTES if line.count(quotes) == 1), "")
        inside = opened
        bare = re.sub(r'"(\\.|[^"\\])*"|\'[^\']*\'|#.*', "", line)
        depth = max(0, depth + bare.count("[") + bare.count("{") - bare.count("]") - bare.count("}"))
    return places


def toml_hint(text: str, error: str) -> str:
    """The line that Python's parser could not read, and what is probably meant."""
    found, lines = re.search(r"at line (\d+)", error), text.splitlines()
    if found is None or not 0 < int(found[1]) <= len(lines):
        return ""
    line = lines[int(found[1]) - 1].strip()
    value = line.partition("=")[2].strip()
    meant = ""
    if re.match(r"[+-]?\d+,\d", value):
        meant = ". Decimals are written with a point"
    elif value.count('"') % 2 or value.count("'") % 2:
        meant = ". A quote opens and does not close"
    elif value and not re.match(r"[\d\[{\"'+-]|true|false", value):
        meant = f'. Texts stand in quotes: "{value}"'
    return f": {line}{meant}"


def placed(places: dict[str, int], path: tuple[Any, ...], fault: str) -> str:
    """A fault with its line and key; if the key has no line, with that of the nearest table or key."""
    words = [str(part) for part in path]
    key = ".".join(words)
    for n in range(len(words), 0, -1):
        if (near := ".".join(words[:n])) in places:
            return f"line {places[near]}, {key}: {fault}"
    below = min((line for path, line in places.items() if key and path.startswith(f"{key}.")), default=0)
    return f"line {below}, {key}: {fault}" if below else f"{key}: {fault}" if key else fault


def _plain(key: str) -> str:
    """A dotted key without quotes and spaces around its parts."""
    return ".".join(
        part.strip().strip("\"'") for part in re.findall(r"""[^."']+|"[^"]*"|'[^']*'""", key) if part.strip()
    )
