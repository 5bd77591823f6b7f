"""The process that a rehearsal kills: it answers one call of the advisor for each line of JSON.

`python -m surefooted.rehearsal.worker DEPLOYMENT`, with the store in the environment variable SUREFOOTED_STORE; each
line is {"call": ..., "now": ..., "given": {...}}. The time is that of the rehearsal's calendar.
"""

import json
import os
import sys
from dataclasses import asdict, is_dataclass
from datetime import UTC, datetime
from typing import Any

from surefooted.errors import InvalidInput
from surefooted.live import open as open_store

CALLS = ("ask", "tell", "decision", "expire", "approve", "reject", "relocate", "pause", "resume")


class _Calendar:
    """The time of the rehearsal."""

    now = datetime(2000, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now


def serve(path: str, name: str) -> None:
    """Answer until the input ends."""
    clock = _Calendar()
    with open_store(path, clock) as store:
        advisor = store.deployment(name)
        print(json.dumps({"ready": True}), flush=True)
        for line in sys.stdin:
            asked = json.loads(line)
            clock.now = datetime.fromisoformat(asked["now"])
            assert asked["call"] in CALLS
            try:
                answer: Any = getattr(advisor, asked["call"])(**asked["given"])
                said: dict[str, Any] = {
                    "answer": asdict(answer) if is_dataclass(answer) and not isinstance(answer, type) else None
                }
            except InvalidInput as error:
                said = {"refused": str(error)}
            print(json.dumps(said), flush=True)


if __name__ == "__main__":
    serve(os.environ["SUREFOOTED_STORE"], sys.argv[1])
