"""What a deployment is made of, as plain values and arrays: fixed when it is created, with a fingerprint."""

import hashlib
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from surefooted import codec
from surefooted.agents.cucrl2 import CUCRL2
from surefooted.agents.fleet import Fleet
from surefooted.agents.fleet_accounts import FleetRules, Guardrail
from surefooted.data.counts import Counts
from surefooted.errors import InvalidInput, SurefootedError, UnreadableFile
from surefooted.knowledge.baseline_check import FALSE_ALARMS
from surefooted.knowledge.declared import Declared
from surefooted.knowledge.drift import Drift
from surefooted.knowledge.knowledge import Knowledge
from surefooted.knowledge.mechanics import Mechanics
from surefooted.live import learners
from surefooted.sets import confidence as confidences
from surefooted.tables.baseline import Baseline
from surefooted.tables.policy import Policy
from surefooted.tables.space import Space

FORMAT = 1
CONFIDENCES = ("likelihood", "bernstein", "hoeffding", "hoeffding_paper", "simplified_bernstein")
ARRAYS = (
    "reward_mean",
    "reward_low",
    "reward_high",
    "has_successors",
    "successor_ptr",
    "successor_state",
    "reward_of_next",
)


@dataclass(frozen=True)
class Definition:
    """The arguments of a deployment.

    - `space`, `baseline`, `alpha`, `delta`, `strict`, `tolerance`, `allowance`, `floor`, `checkpoints`, `patience`,
      `seed`: as for `CUCRL2`.
    - `learner`: who proposes, "ucrl2", "psrl" or a class of your own, `package.module:Class`, whose file has the digest
      `learner_code`; `confidence`: the name of its set; `knowledge`: what is known.
    - `rules`: which accounts there are, and what is assumed of outcomes, sites and people (see `FleetRules`).
    - `deadline`: for how many hours a person may answer a question in approval mode.
    - `drift`: the probability of a false alarm that something has changed; None: δ / 10; 0: no test.
    - `counts`: what the learner knows already, and `inherits`: where that comes from, in words.
    - `allow_code`: whether a learner of your own may run; this is no part of what is stored.
    """

    space: Space
    baseline: Baseline
    alpha: float
    delta: float = 0.05
    strict: bool = True
    tolerance: float = 0.0
    allowance: float = 0.0
    floor: float | None = None
    checkpoints: Any = None
    patience: float = 0.01
    seed: int = 0
    deadline: float = 24.0  # hours
    learner: str = "ucrl2"
    confidence: str = "likelihood"
    knowledge: Knowledge | None = None
    rules: FleetRules = field(default_factory=FleetRules)
    drift: float | None = None
    counts: Counts | None = None
    inherits: str = ""
    complete: bool = True  # whether the counts hold every outcome of the steps that they come from
    learner_code: str = ""
    allow_code: bool = False

    def build(self) -> Fleet:
        """The fleet of this definition, which has decided nothing yet."""
        try:
            return self._built()
        except SurefootedError:
            raise
        except Exception as error:  # such as arguments of a wrong type
            raise InvalidInput("no such deployment", [f"{type(error).__name__}: {error}"]) from error

    def _built(self) -> Fleet:
        faults = learners.faults(self.learner)
        if self.confidence not in CONFIDENCES:
            faults.append(f"confidence {self.confidence!r}: there are {', '.join(CONFIDENCES)}")
        if self.drift is not None and not 0 <= self.drift < 1:
            faults.append(f"drift {self.drift} must be a probability below 1")
        if not 0 < self.deadline < 1e6:
            faults.append(f"deadline {self.deadline} must be a positive number of hours")
        if faults:
            raise InvalidInput("no such deployment", faults)
        share = self.delta / 2 if self.knowledge is not None else self.delta
        own: dict[str, Any] = {"confidence": getattr(confidences, self.confidence), "knowledge": self.knowledge}
        who = (self.learner, self.space, self.learner_code, self.allow_code)
        held = learners.build(*who, delta=share, seed=self.seed, **own)
        names = ("strict", "tolerance", "allowance", "floor", "checkpoints", "patience")
        told: dict[str, Any] = {name: getattr(self, name) for name in names}
        limits: dict[str, Any] = {"alpha": self.alpha, "delta": self.delta, "seed": self.seed}
        agent = CUCRL2(self.space, baseline=self.baseline, learner=held, condition="decisions", **limits, **told)
        level = FALSE_ALARMS * self.delta if self.drift is None else self.drift
        fleet = Fleet(agent, self.rules, Drift(self.baseline, level) if level else None)
        if self.counts is not None:
            fleet.learner.counts.merge(self.counts)
            fleet.is_lost |= not self.complete
        return fleet

    def encode(self) -> bytes:
        """As bytes without pickles."""
        return codec.encode(self.plain())

    @property
    def fingerprint(self) -> str:
        """A digest of every argument."""
        return hashlib.sha256(codec.payload(self.plain())).hexdigest()

    def plain(self) -> dict[str, Any]:
        """As plain values and arrays."""
        names = (
            "alpha",
            "delta",
            "strict",
            "tolerance",
            "allowance",
            "floor",
            "checkpoints",
            "patience",
            "seed",
            "deadline",
            "learner",
            "confidence",
            "drift",
            "inherits",
        )
        rules, baseline = self.rules, self.baseline
        guardrails = [
            {name: getattr(guardrail, name) for name in Guardrail.__dataclass_fields__}
            for guardrail in rules.guardrails
        ]
        for guardrail in guardrails:
            guardrail["bias"] = np.asarray(guardrail["bias"], dtype=np.float64)
        assumed = {name: getattr(rules, name) for name in ("accounts", "arrival", "people", "independent_sites")}
        return (
            {"format": FORMAT}
            | ({"learner_code": self.learner_code} if self.learner_code else {})
            | {name: getattr(self, name) for name in names}
            | {
                "space": _space(self.space),
                "policy": {"pair": baseline.policy.pair, "weights": baseline.policy.weights},
                "gain": baseline.gain,
                "bias": baseline.bias,
                "knowledge": knowledge_as_plain(self.knowledge),
                "rules": assumed | {"guardrails": guardrails},
                "counts": None if self.counts is None else self.counts.state_dict(),
                "complete": self.complete,
            }
        )

    @classmethod
    def decode(cls, data: bytes) -> "Definition":
        """What `encode` turned into bytes; `UnreadableFile` if these are no definition."""
        plain = codec.decode(data)
        made_by = plain.pop("format", None) if isinstance(plain, dict) else None
        if type(made_by) is not int or made_by != FORMAT:
            raise UnreadableFile("this deployment cannot be read: it was created by a newer surefooted, or damaged")
        try:
            return cls._from_plain(plain)
        except Exception as error:  # its digest is right, and what it says is no definition
            raise UnreadableFile(f"this deployment cannot be read: {type(error).__name__}: {error}") from error

    @classmethod
    def _from_plain(cls, plain: dict[str, Any]) -> "Definition":
        """What `plain` returned."""
        columns = plain.pop("space")
        space = Space.from_columns(columns)
        policy = Policy(space, **plain.pop("policy"))
        baseline = Baseline(policy, plain.pop("gain"), plain.pop("bias"))
        rules = plain.pop("rules")
        guardrails = tuple(Guardrail(**guardrail) for guardrail in rules.pop("guardrails"))
        counts, knowledge = plain.pop("counts"), knowledge_from_plain(space, plain.pop("knowledge"))
        kept = None if counts is None else Counts.from_state_dict(space, counts)
        told: dict[str, Any] = {
            "rules": FleetRules(**rules, guardrails=guardrails),
            "knowledge": knowledge,
            "counts": kept,
        }
        return cls(space, baseline, **told, **plain)


def _space(space: Space) -> dict[str, Any]:
    """The columns of a space; names as lists."""
    columns = space.columns()
    return {name: [str(x) for x in v] if name.endswith("_names") else v for name, v in columns.items()}


def knowledge_as_plain(knowledge: Knowledge | None) -> dict[str, Any] | None:
    """What was declared, as plain values and arrays."""
    if knowledge is None:
        return None
    declared, mechanics = knowledge.declared, knowledge.mechanics
    told = None
    if mechanics is not None:
        names = ("sizes", "law", "next_state", "reward", "observed")
        told = {name: getattr(mechanics, name) for name in names}
    return {name: getattr(declared, name) for name in ARRAYS} | {"mechanics": told}


def knowledge_from_plain(space: Space, plain: dict[str, Any] | None) -> Knowledge | None:
    """The knowledge that `knowledge_as_plain` described."""
    if plain is None:
        return None
    told = plain["mechanics"]
    mechanics = None if told is None else Mechanics(space, **told)
    knowledge = Knowledge.__new__(Knowledge)
    knowledge.declared = Declared(space, **{name: plain[name] for name in ARRAYS}, mechanics=mechanics)
    return knowledge
