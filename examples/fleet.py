"""A fleet of simulated shops behind the service: a year in a minute, to look at in a browser (`make demo-service`).

Every shop asks over HTTP each week how much to order, and tells what came of it: some outcomes come late or never. Some
shops ask a person first; a simulated one answers now and then. In the last weeks of the year the demand changes.
Without a terminal the service ends with the year, otherwise with Ctrl-C.
"""

import argparse
import asyncio
import contextlib
import sys
import tempfile
import threading
import time
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import numpy as np

import surefooted as sf
from surefooted.data.counts import Counts
from surefooted.errors import SurefootedError
from surefooted.forecasting.models import Models
from surefooted.forecasting.options import exact_baseline
from surefooted.rehearsal import deploy
from surefooted.rehearsal.script import BEGINS, World
from surefooted.service import serving, tokens
from surefooted.service.app import create_app
from surefooted.service.settings import Settings

WEEK = timedelta(days=7)
ALLOWANCE = 2_000  # €, for all shops together
LATE, LOST, ASKS, ANSWERED = 0.15, 0.01, 5, 0.6  # shares of outcomes; each fifth shop asks; share that is answered
CHANGE, MORE = 0.85, 5  # of the year: when the demand rises; by how many units a week


class Clock:
    """The time of the simulation."""

    def __init__(self):
        self.now = BEGINS

    def __call__(self):
        """The time now."""
        return self.now


class Year:
    """Plays the year: asks at every shop in every week, over HTTP."""

    def __init__(self, problem, worlds, clock, names, rng):
        self.problem, self.worlds, self.clock, self.names, self.rng = problem, worlds, clock, names, rng
        self.advisor = None  # set before the year is played
        self.where, self.late, self.asked = dict.fromkeys(names, problem.start), [], {}
        self.ended = threading.Event()  # set to stop early

    def play(self, weeks, seconds):
        """All weeks; each takes its share of the time, if the machine is fast enough."""
        begun, self.weeks = time.monotonic(), weeks
        for week in range(weeks):
            world = self.worlds[week >= CHANGE * weeks]
            for i, name in enumerate(self.names):
                if self.ended.is_set():
                    return
                self.clock.now = BEGINS + week * WEEK + timedelta(minutes=5 * i)
                self._decide(week, name, world)
                due = begun + seconds * (week * len(self.names) + i + 1) / (weeks * len(self.names))
                self.ended.wait(max(0.0, due - time.monotonic()))
            self._tell_late(week)

    def _decide(self, week, name, world):
        if name in self.asked:  # by now somebody has answered, or the baseline was played
            self._tell(week, name, self.advisor.decision(self.asked.pop(name)), world)
        decision = self.advisor.ask(name, self.where[name], f"week {week + 1}")
        if decision.status == "waiting":
            if week == self.weeks - 1 or self.rng.random() > ANSWERED:
                self.asked[name] = decision.id  # whoever looks at the page may answer
                return
            answer = self.advisor.approve if self.rng.random() < 0.8 else self.advisor.reject
            decision = answer(decision.id, who="a simulated person")
        self._tell(week, name, decision, world)

    def _tell(self, week, name, decision, world):
        """What came of a decision arrives now, late, or never."""
        told = world.draw(self.problem.space.pair(decision.state, decision.action))
        after = self.where[name] = told["next_state"]
        u = self.rng.random()
        if u < LOST:
            self.advisor.tell(decision.id, next_state=after)
        elif u < LOST + LATE:
            self.late.append((week + int(self.rng.integers(1, 4)), decision.id, told))
        else:
            self.advisor.tell(decision.id, **told)

    def _tell_late(self, week):
        for _, decision, told in [each for each in self.late if each[0] <= week]:
            with contextlib.suppress(SurefootedError):  # a person may have said that it will not come
                self.advisor.tell(decision, **told)
        self.late = [each for each in self.late if each[0] > week]


def shifted(law, by):
    """The law of a demand that is larger by so much, up to the largest."""
    moved = np.concatenate([np.full(by, 1e-9), law[: law.size - by]])
    moved[-1] += law[law.size - by :].sum()
    return moved / moved.sum()


def begin(path, shops, clock, rng):
    """A store with the deployment and its shops; the file, two worlds and the names of the shops."""
    file = sf.problems.load(Path(__file__).with_name("shop.toml"))
    counts = Counts(file.space) if file.history is None else file.history.counts
    models = Models(counts, file.knowledge, file.baseline.policy, file.start, None)
    truth = models.draw(rng)
    laws = tuple(shifted(law, MORE) for law in truth.laws)
    ptr, after, mass, r = truth.mechanics.table(laws)
    changed = replace(truth, mdp=sf.TabularMDP(file.space, ptr, after, mass, np.clip(r, -60, 110)), laws=laws)
    names = tuple(f"Shop {i + 1:02d}" for i in range(shops))
    store = sf.live.open(path, clock)
    advisor = deploy(store, file, exact_baseline(truth), name="shops", sites=names, mode="live", who="demo",
                     allowance=ALLOWANCE, deadline=120.0)  # fmt: skip
    for name in names[::ASKS]:
        advisor.set_mode("approval", name, who="demo")
    return store, file, (World(truth, rng), World(changed, rng)), names


def main():
    """Set up the shops, and run the service."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, help="for the store; a temporary one unless given")
    parser.add_argument("--port", type=int, default=0, help="0: any that is free")
    parser.add_argument("--shops", type=int, default=50)
    parser.add_argument("--weeks", type=int, default=52)
    parser.add_argument("--seconds", type=float, default=60.0, help="that the year takes")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="surefooted-") as temporary:
        folder = given.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.glob("fleet.db*"):
            old.unlink()
        clock, rng = Clock(), np.random.default_rng(2026)
        store, file, worlds, names = begin(folder / "fleet.db", given.shops, clock, rng)
        with store:
            run(store, file, worlds, (names, clock, rng), given)


def run(store, file, worlds, others, given):
    """Serve, and play the year in a thread of its own."""
    names, clock, rng = others
    looker, asker = (tokens.create(store, name, role)[0] for name, role in (("visitor", "read"), ("tills", "operate")))
    server = serving.server(create_app(store, Settings(rate=0.0)))
    socket = serving.listening("127.0.0.1", given.port)
    url = f"http://127.0.0.1:{socket.getsockname()[1]}"
    is_watched = sys.stdout.isatty()
    failed = []

    def played():
        try:
            with sf.live.connect(url, asker) as remote:
                year.advisor = remote.deployment("shops")
                year.play(given.weeks, given.seconds)
            if not year.ended.is_set():
                status = store.deployment("shops").status()
                print(f"The year is over: {status['decisions']} decisions, {status['events']} events.", flush=True)
        except Exception as error:
            if not year.ended.is_set():
                failed.append(error)
        if not is_watched or failed:
            server.end()

    year = Year(file, worlds, clock, names, rng)
    player = threading.Thread(target=played, daemon=True)

    async def serve():
        task = asyncio.ensure_future(server.serve(sockets=[socket]))
        while not server.started and not task.done():
            await asyncio.sleep(0.01)
        print(f"Open {url} and sign in with this token, which may read: {looker}")
        if given.folder:
            print(f"To answer and to pause: surefooted token create you --role operate --store {store.name}")
        print(f"A year of {len(names)} shops takes {given.seconds:g} s. Ctrl-C ends it.", flush=True)
        player.start()
        await task

    try:
        asyncio.run(serve())
    except KeyboardInterrupt:
        pass
    finally:
        year.ended.set()
        if player.is_alive():
            player.join(timeout=30)
        socket.close()
    if failed:
        raise failed[0]
    print("The service has ended.", flush=True)


if __name__ == "__main__":
    main()
