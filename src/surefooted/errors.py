"""Errors that say what is wrong, where, and what to do."""

from collections.abc import Iterable

_SHOWN = 50  # faults printed in the message; all of them are in `.faults`


class SurefootedError(Exception):
    """Anything this package refuses to do, with a message meant for people."""


class InvalidInput(SurefootedError, ValueError):
    """A table, policy or problem that breaks its own rules; `.faults` lists every fault found."""

    def __init__(self, what: str, faults: Iterable[str], hint: str = "") -> None:
        self.what, self.faults, self.hint = what, tuple(faults), hint
        lines = [f"{what}: {len(self.faults)} fault{'s' if len(self.faults) != 1 else ''}"]
        lines += [f"  - {fault}" for fault in self.faults[:_SHOWN]]
        if len(self.faults) > _SHOWN:
            lines.append(f"  - … and {len(self.faults) - _SHOWN} more, all in `.faults`")
        if hint:
            lines.append(hint)
        super().__init__("\n".join(lines))

    def __reduce__(self) -> tuple[type["InvalidInput"], tuple[str, tuple[str, ...], str]]:
        """Pickle by the constructor's arguments, so that the error crosses process borders whole."""
        return type(self), (self.what, self.faults, self.hint)


class UnreadableFile(SurefootedError, ValueError):
    """A file that is missing, truncated, foreign or of another version."""


class NoSingleGain(SurefootedError, ValueError):
    """A single gain was asked for, but the gain depends on the state."""


class NotConverged(SurefootedError, ArithmeticError):
    """An iteration stopped at its cap before it reached the accuracy asked for."""


class MissingExtra(SurefootedError, ImportError):
    """An optional dependency that this call needs is not installed."""
