"""Write versionN.db: a store as version N of the format writes it, with forty decisions of two sites.

`python tests/stores/record.py` writes that of this version, if it is missing. Never write one again once its version
was released: it must open, and give the same decisions again, for ever.
"""

from pathlib import Path

import numpy as np

import surefooted as sf
from surefooted.live.store import SCHEMA

FILE = Path(__file__).with_name(f"version{SCHEMA}.db")


def main() -> None:
    """Ask in both sites in turn; rewards come eight decisions late, and the last ones never."""
    problem = sf.problems.inventory(noise=sf.Noise("truncated_gaussian", 0.1))
    known = sf.solve.gain_and_bias(problem.mdp, problem.baseline)
    baseline = sf.Baseline(problem.baseline, known.gain, known.bias)
    rng, late, stock = np.random.default_rng(0), [], {"a": problem.start, "b": problem.start}
    with sf.live.open(FILE) as store:
        advisor = store.create_deployment("shop", space=problem.space, baseline=baseline, alpha=0.1, allowance=10.0)
        for site in stock:
            advisor.add_site(site)
        for i in range(40):
            site = "ab"[i % 2]
            decision = advisor.ask(site, stock[site], key=str(i))
            reward, stock[site] = problem.mdp.draw(rng, problem.space.pair(decision.state, decision.action))
            late.append((decision, reward))
            if i >= 8:
                advisor.tell(late[i - 8][0], reward=late[i - 8][1])
        for (decision, _), led in zip(late[-2:], stock.values(), strict=True):
            advisor.tell(decision, next_state=led)


if __name__ == "__main__" and not FILE.exists():
    main()
