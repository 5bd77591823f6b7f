"""What is sent to the service: every request as a type, with an example that works for the shop of docs/service.md."""

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, StringConstraints, model_validator

from surefooted.service.tokens import Role

SAFE = r"^[^\x00-\x1f\x7f\u2028\u2029]+$"  # no control characters: a name is one line of a log
Name = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=SAFE)]
Words = Annotated[str, StringConstraints(min_length=1, max_length=2_000, pattern=r"^[^\x00]+$")]
Number = Annotated[int, Field(ge=1, lt=2**63)]  # of an event or decision
Index = Annotated[int, Field(ge=0, lt=2**31, strict=True)]
Word = Index | Name  # a state or action, by its number or its name
Mode = Literal["shadow", "approval", "live"]


def example(told: dict[str, Any]) -> ConfigDict:
    """The settings of a request: nothing unknown is taken, and the OpenAPI description shows this example."""
    return ConfigDict(extra="forbid", json_schema_extra={"examples": [told]})


class By(BaseModel):
    """For whom the holder of the token acts, and why; both stand in the journal, after the name of the token."""

    model_config = example({"who": "Ada", "note": "agreed on Monday"})
    who: Name | None = None
    note: Words | None = None


class NewSite(By):
    """One more site."""

    model_config = example({"name": "market square", "who": "Ada"})
    name: Name


class Question(BaseModel):
    """What to play in a state of a site; the same key gives the same decision for ever."""

    model_config = example({"site": "high street", "state": "fine", "key": "2026-11-18"})
    site: Name
    state: Word
    key: Name


class Told(By):
    """What came of a decision, which is named by its number, or by the site and key of its question."""

    model_config = example({"site": "high street", "key": "2026-11-18", "reward": 41.5, "next_state": "fine"})
    decision: Number | None = None
    site: Name | None = None
    key: Name | None = None
    reward: FiniteFloat | None = None
    next_state: Word | None = None
    action: Word | None = None
    guardrails: dict[Name, FiniteFloat] | None = Field(default=None, max_length=100)
    noise: Annotated[list[Index], Field(max_length=100)] | None = None

    @model_validator(mode="after")
    def _is_named(self) -> Self:
        if self.decision is None and (self.site is None or self.key is None):
            raise ValueError("give decision, or site and key")
        return self


class Correction(By):
    """What is right of an outcome that was told wrongly."""

    model_config = example({"reward": 40.5, "next_state": "worn", "who": "Ada", "note": "typed wrongly"})
    reward: FiniteFloat | None = None
    next_state: Word | None = None
    action: Word | None = None
    guardrails: dict[Name, FiniteFloat] | None = Field(default=None, max_length=100)
    noise: Annotated[list[Index], Field(max_length=100)] | None = None


class AtSite(By):
    """One site, or all of them if none is named."""

    model_config = example({"site": "high street", "who": "Ada", "note": "stock-taking"})
    site: Name | None = None


class OneSite(By):
    """One site."""

    model_config = example({"site": "high street", "who": "Ada", "note": "moved"})
    site: Name


class NewMode(AtSite):
    """The mode from the next question on."""

    model_config = example({"mode": "approval", "who": "Ada"})
    mode: Mode


class Relocation(BaseModel):
    """Where a site is now, though no decision led there."""

    model_config = example({"site": "high street", "state": "worn", "why": "inspection", "who": "Ada"})
    site: Name
    state: Word
    why: Words
    who: Name | None = None


class Trust(By):
    """What is believed after an alarm or a contradiction."""

    model_config = example({"knowledge": "keep", "who": "Ada", "note": "a false alarm"})
    keep_since: Annotated[int, Field(ge=0, lt=2**63)] | None = None
    knowledge: Literal["keep", "as built", "none"] = "keep"


MACHINE = """\
name = "machine"
states.values = ["fine", "worn"]
actions.values = ["run", "repair"]
baseline = {table = {fine = "run", worn = "run"}, gain = 40, bias = {fine = 600, worn = 0}}
rewards = {low = 0, high = 100, unit = "€"}
promise = {alpha = 0.1, allowance = 2000}
"""


class NewDeployment(By):
    """A deployment, by the text of a problem file or by a definition; what it is made of stays as it is for ever.

    - `problem`: the text of a problem file (docs/problem-files.md), without logs and without code. `baseline` says
      whose numbers are taken: the file's own, or those of its model. `options` replace those of the file's promise.
    - `definition`: what `create_deployment` takes, as `surefooted.live.exchange.as_json` writes it.
    """

    model_config = example({"problem": MACHINE, "sites": ["hall 3"], "mode": "shadow", "who": "Ada"})
    name: Name | None = None
    problem: Annotated[str, StringConstraints(max_length=500_000)] | None = None
    definition: dict[str, Any] | None = None
    baseline: Literal["file", "model"] = "file"
    sites: Annotated[list[Name], Field(max_length=10_000)] = []
    mode: Mode = "shadow"
    inherits: Name | None = None
    options: dict[str, Any] = {}


class Place(BaseModel):
    """A site of a deployment, or all of them."""

    model_config = ConfigDict(extra="forbid")
    deployment: Name
    site: Name | None = None


class NewToken(BaseModel):
    """A token; it is shown once."""

    model_config = example({"name": "till-4", "role": "use", "sites": [{"deployment": "shop"}], "days": 365})
    name: Annotated[str, StringConstraints(max_length=64, pattern=r"^[A-Za-z0-9][A-Za-z0-9_.@-]*$")]
    role: Role
    sites: Annotated[list[Place], Field(min_length=1, max_length=1_000)] | None = None
    days: Annotated[float, Field(gt=0, le=36_500, allow_inf_nan=False)] | None = None
