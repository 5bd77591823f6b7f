"""The registration of every problem with Gymnasium."""

from gymnasium.envs.registration import register, registry

IDS = {
    "inventory": "surefooted/Inventory-v0",
    "maintenance": "surefooted/Maintenance-v0",
    "gridworld": "surefooted/Gridworld-v0",
    "riverswim": "surefooted/RiverSwim-v0",
    "garnet": "surefooted/Garnet-v0",
}


def register_problems() -> None:
    """Register every problem, so that `gymnasium.make("surefooted/Inventory-v0")` works; calling it twice is safe."""
    for name, identity in IDS.items():
        if identity not in registry:
            register(identity, entry_point="surefooted.gym:make_problem", kwargs={"problem": name})
