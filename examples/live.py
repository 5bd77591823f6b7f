"""A shop asks the advisor every day for two years, as a planner would: late sales figures, overrides, a stocktaking.

The advisor knows the states, the actions, and today's policy with its gain and bias. Its store is a file: run the
script again with the path of that file, and it goes on where it stopped. It prints one line a quarter, and the account.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np

import surefooted as sf

DAYS, LATE = 730, 3  # sales figures arrive three days late


def main() -> None:
    """Ask and tell for two years, and print what a planner would want to see."""
    problem = sf.problems.inventory(noise=sf.Noise("truncated_gaussian", 0.1))
    known = sf.solve.gain_and_bias(problem.mdp, problem.baseline)
    baseline = sf.Baseline(problem.baseline, known.gain, known.bias)
    place = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(tempfile.mkdtemp()) / "shop.db"
    with sf.live.open(place) as store:
        if "shop" not in store.deployments():
            shop = store.create_deployment("shop", space=problem.space, baseline=baseline, alpha=0.2, strict=False)
            shop.add_site("high street")
        shop = store.deployment("shop")
        rng, stock, late = np.random.default_rng(0), problem.start, list[tuple[sf.live.Decision, float]]()
        departures = 0
        first = int(shop.status()["decisions"])
        shop.relocate("high street", stock, "the script begins", who="the script")
        for day in range(first, first + DAYS):
            decision = shop.ask("high street", stock, key=f"day {day}")
            departures += decision.departs
            if day % 91 == 90:
                print(f"day {day:>4}: {departures:>3} departures so far. {decision.reason}")
            action = decision.action
            if day % 100 == 50:  # the planner knows better today
                action = int(rng.choice(problem.space.actions(stock)))
                shop.tell(decision, action=action)
            sold, stock = problem.mdp.draw(rng, problem.space.pair(stock, action))
            late.append((decision, float(sold)))
            if len(late) > LATE:
                told, earned = late.pop(0)
                shop.tell(told, reward=earned)
            if day % 200 == 150:
                stock = int(rng.integers(problem.space.n_states))
                shop.relocate("high street", stock, "stocktaking", who="Ada")
        for decision, _ in late:
            shop.expire(decision, note="the year is closed")
        status = shop.status()
        (account,) = status["accounts"]
        saved, balance = account["saved_up"], account["balance"]
        print(f"after {status['decisions']} days: balance {balance:.2f}, saved up {saved:.2f},")
        print(f"departures are proved to be worth {account['departures']:.2f}; verified: {store.verify().is_whole}")


if __name__ == "__main__":
    main()
