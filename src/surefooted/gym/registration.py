"""The registration of every problem with Gymnasium."""

from gymnasium.envs.registration import register, registry

IDS = {
    "inventory": "surefooted/Inventory-v0",
    "maintenance": "surefooted/Maintenance-v0",
    "gridworld": "surefooted/Gridworld-v0",
    "riverswim": "surefooted/RiverSwim-v0",
    "garnet": "surefooted/Garnet-v0",
    "forest": "surefooted/Forest-v0",
    "double_chain": "surefooted/DoubleChain-v0",
    "deep_sea": "surefooted/DeepSea-v0",
    "wet_chicken": "surefooted/WetChicken-v0",
    "simple_grid": "surefooted/SimpleGrid-v0",
    "frozen_lake": "surefooted/FrozenLake-v0",
    "cliff_walking": "surefooted/CliffWalking-v0",
    "taxi": "surefooted/Taxi-v0",
    "planned_inventory": "surefooted/PlannedInventory-v0",
    "icu_sepsis": "surefooted/IcuSepsis-v0",
}


def register_problems() -> None:
    """Register every problem, so that `gymnasium.make("surefooted/Inventory-v0")` works; calling it twice is safe."""
    for name, identity in IDS.items():
        if identity not in registry:
            register(identity, entry_point="surefooted.gym:make_problem", kwargs={"problem": name})
