"""Run an advisor for two shops through a year: late rewards, an override, a pause, and a journal that can be checked.

The advisor knows the states, the actions, and today's policy with its gain and bias. It learns everything else. The
script prints a line with the reason whenever a shop departs from today's policy for the first time, and the account at
the end. `surefooted live` does the same from the command line: docs/going-live.md.
"""

import tempfile
from pathlib import Path

import numpy as np

import surefooted as sf

DAYS, SHOPS = 365, ("high street", "station")


def main() -> None:
    """Ask every day in both shops, and tell rewards two days late."""
    problem = sf.problems.inventory(noise=sf.Noise("truncated_gaussian", 0.1))
    known = sf.solve.gain_and_bias(problem.mdp, problem.baseline)
    baseline = sf.Baseline(problem.baseline, known.gain, known.bias)
    rng, stock, late, departed = np.random.default_rng(0), dict.fromkeys(SHOPS, problem.start), [], set()
    with tempfile.TemporaryDirectory() as folder, sf.live.open(Path(folder) / "shops.db") as store:
        advisor = store.create_deployment("shops", space=problem.space, baseline=baseline, alpha=0.1, allowance=10.0)
        for shop in SHOPS:
            advisor.add_site(shop)
        for day in range(DAYS):
            if day == 100:
                advisor.pause("station", who="Ada", note="the roof leaks")
            if day == 107:
                advisor.resume("station", who="Ada")
            for shop in SHOPS:
                decision = advisor.ask(shop, stock[shop], key=f"day {day}")  # also says where yesterday's decision led
                action = decision.action
                if decision.departs and shop not in departed:
                    departed.add(shop)
                    print(f"day {day:>3}, {shop}: {decision.reason}")
                if day == 200:  # the planner orders nothing today
                    action = 0
                    advisor.tell(decision, action=action)
                reward, stock[shop] = problem.mdp.draw(rng, problem.space.pair(decision.state, action))
                late.append((day + 2, decision, reward))
            for _, decision, reward in [entry for entry in late if entry[0] <= day]:
                advisor.tell(decision, reward=reward)
            late = [entry for entry in late if entry[0] > day]
        rows, account = advisor.table(), advisor.status()["accounts"][0]
        earned = sum(row["reward"] or 0.0 for row in rows)
        print(f"{sum(row['departs'] for row in rows)} of {len(rows)} decisions departed from today's policy")
        print(f"earned {earned:.1f} so far, without the {len(late)} rewards that have not arrived")
        print(f"in the account: {account['balance']:.1f}")
        print(f"the journal is whole: {store.verify().is_whole}")


if __name__ == "__main__":
    main()
