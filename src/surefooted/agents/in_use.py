"""One user at a time: an agent that two threads use at once, or that was interrupted while it counted, says so.

An agent is no queue. Two threads that call it at once would mix up their steps, so the second one gets an error and
changes nothing. `in_use` is entered by every method that reads or changes an agent, also by one that calls another.
"""

from collections.abc import Callable
from functools import wraps
from threading import get_ident
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, TypeVar

from surefooted.errors import SurefootedError

USER, HALFWAY = "_user", "_halfway"  # attributes of an agent: the thread that uses it; whether a step is half counted
TWO_THREADS = (
    "another thread is using this agent at this moment: an agent has one user at a time. Give each thread an agent of "
    "its own, or hold one lock from `act` to `observe`."
)
INTERRUPTED = (
    "this agent was interrupted while it counted a step, and what it remembers is incomplete: load the state that was "
    "saved last, with `load` or `load_state_dict`, and go on from there"
)

A = TypeVar("A")
P = ParamSpec("P")
R = TypeVar("R")


class in_use:
    """Nobody else may use the agent until the block ends; the same thread may, inside it."""

    __slots__ = ("agent", "is_outermost", "mends")

    def __init__(self, agent: Any, mends: bool = False) -> None:
        self.agent, self.mends = agent, mends  # mends: what is half counted will be replaced as a whole

    def __enter__(self) -> None:
        """Take the agent, if it is free."""
        mine, about = get_ident(), self.agent.__dict__
        self.is_outermost = about.get(USER) != mine
        if about.setdefault(USER, mine) != mine:  # one operation: no other thread comes in between
            raise SurefootedError(TWO_THREADS)
        if self.is_outermost and about.get(HALFWAY) and not self.mends:
            del about[USER]
            raise SurefootedError(INTERRUPTED)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Give it back."""
        if self.is_outermost:
            self.agent.__dict__.pop(USER, None)


def exclusive(method: Callable[Concatenate[A, P], R]) -> Callable[Concatenate[A, P], R]:
    """A method during which nobody else may use the agent."""

    @wraps(method)
    def alone(self: A, /, *args: P.args, **kwargs: P.kwargs) -> R:
        if self.__dict__.get(USER) == get_ident():  # called by another method; saves half a microsecond
            return method(self, *args, **kwargs)
        with in_use(self):
            return method(self, *args, **kwargs)

    return alone
