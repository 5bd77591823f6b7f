"""The README for a package index, where links into the repository must be whole addresses (a hook of hatchling).

The environment variable SUREFOOTED_HOME says where the repository can be read, as in

    SUREFOOTED_HOME=https://example.org/surefooted/blob/v0.2.0 python -m build

Then links lead there, and the project has addresses. Without it, links into the repository become plain words and
pictures are left out: a link that leads nowhere is worse than none.
"""

import os
import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!\w+:|#)([^)\s]+)\)")
HOME = "SUREFOOTED_HOME"


def for_an_index(text: str, home: str | None) -> str:
    """The text with links that work away from the repository."""

    def replaced(link: re.Match[str]) -> str:
        mark, words, target = link.groups()
        if home is None:
            return "" if mark else words
        return f"{mark}[{words}]({home.rstrip('/')}/{target})"

    return LINK.sub(replaced, text)


class Readme(MetadataHookInterface):
    """Called by hatchling when it makes a wheel or a source archive."""

    PLUGIN_NAME = "readme"

    def update(self, metadata: dict[str, Any]) -> None:
        """Put the README and the addresses of the project into the metadata."""
        home = os.environ.get(HOME)
        text = for_an_index(Path(self.root, "README.md").read_text(encoding="utf-8"), home)
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
        if home:
            pages = {"Documentation": "docs/README.md", "Changelog": "CHANGELOG.md", "Source": "README.md"}
            metadata["urls"] = {name: f"{home.rstrip('/')}/{page}" for name, page in pages.items()}
