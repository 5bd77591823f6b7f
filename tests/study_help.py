"""Studies without processes of their own, where what is tested is everything around them: a process takes a second."""

from contextlib import contextmanager

import pytest

from surefooted.studies import engines


def inline(study, todo, jobs, address=None):
    """An engine without processes."""
    for task in todo:
        yield task, engines.attempt(study.model_dump_json(), task.setting, task.realisation)


@contextmanager
def without_processes():
    """Studies run in this process; to be used with `with`, or as a decorator."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(engines.ENGINES, "local", inline)
        yield
