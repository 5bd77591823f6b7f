"""Who decides? Learners propose policies, players play them, conservative players first ask a certificate.

`act` reads, `observe` writes: asking twice gives the same answer.
"""

from surefooted.agents.agent import Agent, Decision
from surefooted.agents.average_explorer import AverageExplorer
from surefooted.agents.cucbvi import CUCBVI
from surefooted.agents.cucrl2 import CUCRL2
from surefooted.agents.episodic_learner import EpisodicLearner
from surefooted.agents.epsmix import EpsMix
from surefooted.agents.euler import EULER, EULERLearner
from surefooted.agents.explorer import Explorer
from surefooted.agents.fixed import FixedPolicy
from surefooted.agents.learner import AverageLearner, Learner
from surefooted.agents.psrl import PSRL, PSRLEpisodic, PSRLEpisodicLearner, PSRLLearner
from surefooted.agents.q_learning import QLearning
from surefooted.agents.stepmix import StepMix
from surefooted.agents.ucbvi import UCBVI, UCBVILearner
from surefooted.agents.ucrl2 import UCRL2, UCRL2Learner

__all__ = [
    "CUCBVI",
    "CUCRL2",
    "EULER",
    "PSRL",
    "UCBVI",
    "UCRL2",
    "Agent",
    "AverageExplorer",
    "AverageLearner",
    "Decision",
    "EULERLearner",
    "EpisodicLearner",
    "EpsMix",
    "Explorer",
    "FixedPolicy",
    "Learner",
    "PSRLEpisodic",
    "PSRLEpisodicLearner",
    "PSRLLearner",
    "QLearning",
    "StepMix",
    "UCBVILearner",
    "UCRL2Learner",
]
