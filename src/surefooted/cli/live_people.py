"""What people do on the command line: `live pause`, `resume`, `mode`, `approve`, `relocate`, `trust`, `expire`, ..."""

from typing import Any

import click

from surefooted.cli.live_store import Where, advisor_of, by_whom, done, in_store, print_decision, word
from surefooted.cli.live_tell import outcome, told


@click.command()
@click.argument("site", required=False)
@by_whom
@in_store
def pause(site: str | None, who: str, note: str | None, store: Where, deployment: str | None, as_json: bool) -> None:
    """Play the baseline from the next question on: at SITE, or at all sites."""
    with advisor_of(store, deployment) as advisor:
        advisor.pause(site, who=who, note=note)
        where = site or "All sites"
        done(as_json, f"{where}: the baseline is played from the next question on.", paused=site, all=site is None)


@click.command()
@click.argument("site", required=False)
@by_whom
@in_store
def resume(site: str | None, who: str, note: str | None, store: Where, deployment: str | None, as_json: bool) -> None:
    """Take back `pause`: at SITE, or at all sites."""
    with advisor_of(store, deployment) as advisor:
        advisor.resume(site, who=who, note=note)
        done(as_json, f"{site or 'All sites'}: resumed.", resumed=site, all=site is None)


@click.command()
@click.argument("mode", type=click.Choice(["shadow", "approval", "live"]))
@click.argument("site", required=False)
@by_whom
@in_store
def mode(mode: Any, site: str | None, who: str, note: str | None, store: Where, deployment: str | None,
         as_json: bool) -> None:  # fmt: skip
    """Decide in another MODE from the next question on: at SITE, or at all sites."""
    with advisor_of(store, deployment) as advisor:
        advisor.set_mode(mode, site, who=who, note=note)
        done(as_json, f"{site or 'All sites'}: mode {mode} from the next question on.", mode=mode, site=site)


@click.command()
@click.argument("decision", type=int)
@by_whom
@in_store
def approve(decision: int, who: str, note: str | None, store: Where, deployment: str | None, as_json: bool) -> None:
    """Say yes: the departure that DECISION proposes is played."""
    with advisor_of(store, deployment) as advisor:
        print_decision(advisor.approve(decision, who=who, note=note), advisor, as_json)


@click.command()
@click.argument("decision", type=int)
@by_whom
@in_store
def reject(decision: int, who: str, note: str | None, store: Where, deployment: str | None, as_json: bool) -> None:
    """Say no: DECISION plays the baseline."""
    with advisor_of(store, deployment) as advisor:
        print_decision(advisor.reject(decision, who=who, note=note), advisor, as_json)


@click.command()
@click.argument("site")
@click.argument("state")
@click.option("--why", required=True, help="What moved it, such as a stock-taking; it stands in the journal.")
@click.option("--who", help="Who says so.")
@in_store
def relocate(site: str, state: str, why: str, who: str | None, store: Where, deployment: str | None,
             as_json: bool) -> None:  # fmt: skip
    """Say that SITE is in STATE now, though no decision led there."""
    with advisor_of(store, deployment) as advisor:
        advisor.relocate(site, word(advisor.space.state_names, state, "state"), why, who=who)
        done(as_json, f"{site} is in state {state} now.", site=site, state=state)


@click.command()
@click.option("--keep-since", type=int, metavar="EVENT", help="Keep only decisions made after this event.")
@click.option("--knowledge", type=click.Choice(["keep", "as built", "none"]), default="keep", show_default=True,
              help="What of the declared knowledge is believed from now on.")  # fmt: skip
@by_whom
@in_store
def trust(keep_since: int | None, knowledge: str, who: str, note: str | None, store: Where, deployment: str | None,
          as_json: bool) -> None:  # fmt: skip
    """Go on after an alarm or a contradiction; without options, nothing has changed and all data count."""
    with advisor_of(store, deployment) as advisor:
        advisor.trust(keep_since=keep_since, knowledge=knowledge, who=who, note=note)
        outside = "" if keep_since is None else " You chose the data, so this is outside the guarantee (docs/live.md)."
        done(as_json, f"It goes on.{outside}", keep_since=keep_since, knowledge=knowledge)


@click.command()
@click.argument("decisions", type=int, nargs=-1, required=True)
@by_whom
@in_store
def expire(decisions: tuple[int, ...], who: str, note: str | None, store: Where, deployment: str | None,
           as_json: bool) -> None:  # fmt: skip
    """Say that the rest of the outcomes of DECISIONS will not come: they are charged at their worst."""
    with advisor_of(store, deployment) as advisor:
        for n in decisions:
            advisor.expire(n, who=who, note=note)
        done(as_json, f"Expired: {', '.join(map(str, decisions))}.", expired=list(decisions))


@click.command()
@click.argument("decision", type=int)
@outcome
@by_whom
@in_store
def correct(decision: int, who: str, note: str | None, store: Where, deployment: str | None, as_json: bool,
            **given: Any) -> None:  # fmt: skip
    """Put right what was told of DECISION: the old outcome is taken back, and this one is told instead."""
    with advisor_of(store, deployment) as advisor:
        advisor.correct(decision, who=who, note=note, **told(advisor, **given))
        said = f"Decision {decision} is corrected. What was decided in between is marked as outside the guarantee."
        done(as_json, said, corrected=decision)


COMMANDS = (pause, resume, mode, approve, reject, relocate, trust, expire, correct)
