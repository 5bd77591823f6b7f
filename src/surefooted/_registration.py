"""Registers every problem with Gymnasium, whichever of the two packages is imported first.

Importing Gymnasium takes several times as long as everything `import surefooted` does, so it is not imported for this
alone: if it is there already its registry is filled at once, otherwise as soon as somebody imports it.
"""

import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

IDS = {
    "inventory": "surefooted/Inventory-v0",
    "maintenance": "surefooted/Maintenance-v0",
    "gridworld": "surefooted/Gridworld-v0",
    "riverswim": "surefooted/RiverSwim-v0",
    "garnet": "surefooted/Garnet-v0",
}
_LAST = "gymnasium.envs"  # the last part of Gymnasium to load: its registry is there once this is


def register() -> None:
    """Make `gymnasium.make("surefooted/Inventory-v0")` and its siblings work; safe to call twice."""
    from gymnasium.envs.registration import register as register_environment
    from gymnasium.envs.registration import registry

    for name, identity in IDS.items():
        if identity not in registry:
            register_environment(identity, entry_point="surefooted.gym:make_problem", kwargs={"problem": name})


def register_when_imported() -> None:
    """Register now if Gymnasium is loaded, else when it will be."""
    if _LAST in sys.modules:
        register()
    elif not any(isinstance(finder, _Watch) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Watch())


class _Watch(MetaPathFinder):
    """Finds nothing itself; has Gymnasium's own loader followed by `register`, once."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The ordinary spec of `gymnasium.envs`, with a loader that registers afterwards."""
        if name != _LAST:
            return None
        sys.meta_path.remove(self)
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _ThenRegister(spec.loader)
        return spec


class _ThenRegister(Loader):
    """A loader that behaves as the one it holds, and registers the problems when that one is done."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """As the loader does."""
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """As the loader does; then register."""
        self._loader.exec_module(module)
        register()
