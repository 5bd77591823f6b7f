"""Registers every problem with Gymnasium: an entry point that runs when Gymnasium is imported, so it stays small."""

NAMES = ("inventory", "maintenance", "gridworld", "riverswim", "garnet")
_IDS = {"inventory": "Inventory", "maintenance": "Maintenance", "gridworld": "Gridworld"} | {
    "riverswim": "RiverSwim",
    "garnet": "Garnet",
}


def register() -> None:
    """Make `gymnasium.make("surefooted/Inventory-v0")` and its siblings work; safe to call twice."""
    from gymnasium.envs.registration import register as register_environment
    from gymnasium.envs.registration import registry

    for name in NAMES:
        identity = f"surefooted/{_IDS[name]}-v0"
        if identity not in registry:
            register_environment(identity, entry_point="surefooted.gym:make_problem", kwargs={"problem": name})
