"""What all requests of one process share: the store, its advisors, and what is counted."""

import logging
import threading
from collections import OrderedDict
from typing import TYPE_CHECKING

from fastapi import Request

from surefooted.errors import SurefootedError
from surefooted.live.advisor import Advisor
from surefooted.live.deployments import LiveStore
from surefooted.live.store import StoreFault
from surefooted.own_code import is_code
from surefooted.service.errors import Refusal, not_found
from surefooted.service.settings import Settings

if TYPE_CHECKING:
    from surefooted.service.access import Bucket
    from surefooted.service.hub import Hub
    from surefooted.service.metrics import Metrics
    from surefooted.service.turns import Turns

log = logging.getLogger("surefooted.service")
KEPT = 200  # advisors that are kept warm


class Context:
    """One store with its advisors. `app.state.context` is one; `context(request)` returns it.

    - `store`, `settings`: what the service was started with.
    - `requests`, `failures`: how many requests each token, and how many wrong tokens each address may still send.
    - `turns`: the line in which questions and outcomes wait.
    - `hub`: follows the journal and wakes those who wait for events; `metrics`: what is counted.
    - `heavy`: held by calls that replay a whole journal; only one runs at a time.
    - `stopping`: whether the service is about to end.
    """

    requests: "Bucket"
    failures: "Bucket"
    turns: "Turns"
    hub: "Hub"
    metrics: "Metrics"

    def __init__(self, store: LiveStore, settings: Settings) -> None:
        self.store, self.settings = store, settings
        self.heavy, self.stopping = threading.Semaphore(1), False
        self._advisors: OrderedDict[str, Advisor] = OrderedDict()
        self._lock = threading.Lock()

    def stop(self) -> None:
        """Begin to end: streams end, and nothing new is waited for."""
        self.stopping = self.hub.ending = True
        self.hub.wake()

    def warm(self, name: str) -> Advisor | None:
        """The advisor of a deployment, if it was asked for before."""
        return self._advisors.get(name)

    def advisor(self, name: str) -> Advisor:
        """The advisor of a deployment, which is kept warm; refused if there is none, or if it may not run here."""
        found = self.described(name)
        if is_code(found.definition.learner) and not self.settings.allow_code:
            detail = f"The learner of {name} is code of its own, which this service does not run."
            raise Refusal(409, "code", "this deployment cannot be used here", detail)
        return found

    def described(self, name: str) -> Advisor:
        """The same, if nothing but its definition and its journal is used; refused with 404 if there is none."""
        with self._lock:
            found = self._advisors.pop(name, None)
            if found is not None:
                self._advisors[name] = found
                return found
        if self.store.find_definition(name) is None:
            raise not_found("no such deployment", f"There is no deployment {name!r}.")
        made = self.store.deployment(name, self.settings.allow_code)
        with self._lock:
            found = self._advisors.setdefault(name, made)
            while len(self._advisors) > KEPT:
                self._advisors.popitem(last=False)
        return found

    def readable(self, name: str) -> Advisor | None:
        """The advisor of a deployment that has followed the journal; None if it cannot, which is logged.

        Such as that of a learner of one's own, whose code may not run here: it must not be in the way of the others.
        """
        try:
            advisor = self.advisor(name)
            with self.store.lock:
                advisor.machine()
            return advisor
        except StoreFault:
            raise
        except SurefootedError as error:
            log.warning("a deployment cannot be read", extra={"told": {"deployment": name, "error": str(error)}})
            return None

    def sites(self, name: str) -> list[str]:
        """The names of the sites of a deployment, in the order in which they were added; also if it is not readable."""
        if (advisor := self.readable(name)) is not None:
            with self.store.lock:
                return [site.name for site in advisor.machine().sites]
        return [event.body["name"] for event in self.described(name).journal() if event.kind == "site"]


def context(request: Request) -> Context:
    """What the service of this request shares."""
    found: Context = request.app.state.context
    return found
