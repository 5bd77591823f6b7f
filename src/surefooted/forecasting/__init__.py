"""How long will it take, and is it worth it? Runs of agents on models that are drawn from what is known."""
