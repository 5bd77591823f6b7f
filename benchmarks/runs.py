"""How long does a whole run take? Seconds and steps per second of one realisation, one core, after compilation."""

import time

import surefooted as sf

SIMPLIFIED = {"confidence": sf.confidence.simplified_bernstein, "bounded": False}


def main() -> None:
    head = f"{'problem':>12} {'steps':>8} {'agent':>22} {'seconds':>8} {'steps per second':>17}"
    print(f"{head} {'plans':>6} {'baseline steps':>15}")

    for problem, steps, alpha in ((sf.problems.inventory(), 70_000, 0.05), (sf.problems.maintenance(), 200_000, 0.05)):
        played = sf.solve.gain_and_bias(problem.mdp, problem.baseline)
        known = sf.Baseline(problem.baseline, played.gain, played.bias)
        makers = {"UCRL2": lambda p=problem: sf.UCRL2(p.space, **SIMPLIFIED)}
        for certificate in ("reevaluated", "segments", "induction"):
            makers[f"CUCRL2 {certificate}"] = lambda p=problem, b=known, a=alpha, c=certificate: sf.CUCRL2(
                p.space, baseline=b, alpha=a, certificate=c, **SIMPLIFIED
            )
        for name, make in makers.items():
            sf.simulate(problem, make(), 1_000)  # compile
            agent = make()
            begin = time.perf_counter()
            run = sf.simulate(problem, agent, steps)
            spent = time.perf_counter() - begin
            cells = f"{problem.name:>12} {steps:>8} {name:>22} {spent:>8.2f} {steps / spent:>17.0f}"
            print(f"{cells} {len(run.decisions):>6} {run.baseline_steps:>15}", flush=True)


if __name__ == "__main__":
    main()
