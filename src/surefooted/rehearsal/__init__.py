"""From a problem file to a deployment, and a year of it against a simulated world before anything is risked."""

from surefooted.rehearsal.deploying import Estimate, baseline_of, deploy
from surefooted.rehearsal.rehearse import Rehearsal, rehearse
from surefooted.rehearsal.script import Adversity

__all__ = ["Adversity", "Estimate", "Rehearsal", "baseline_of", "deploy", "rehearse"]
