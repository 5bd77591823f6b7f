"""What may stand in a problem file: its tables and keys, by type. `from_file` says what they mean together."""

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

Scalar = int | float | str
Table = dict[str, Any]
MOST = 100_000  # states, actions or values of noise


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Range(_Strict):
    """Whole numbers from one to another, both included."""

    first: int = Field(alias="from", strict=True)
    last: int = Field(alias="to", strict=True)

    @model_validator(mode="after")
    def _rises(self) -> Self:
        if not self.first <= self.last:
            raise ValueError(f"from {self.first} to {self.last} is empty")
        if self.last - self.first >= MOST:
            raise ValueError(f"{self.last - self.first + 1} values are too many; {MOST} are allowed")
        return self


Values = Range | Annotated[list[Scalar], Field(min_length=1, max_length=MOST)]


class StatesSpec(_Strict):
    """The states: `values`, or `bins` of a quantity (then `labels` are optional)."""

    name: str = Field(default="state", pattern=r"^[A-Za-z_]\w*$")
    values: Values | None = None
    bins: list[float] | None = Field(default=None, min_length=2)
    labels: list[str] | None = None


class ActionsSpec(_Strict):
    """The actions, and where each is available: a formula, or a table from states to lists of actions."""

    name: str = Field(default="action", pattern=r"^[A-Za-z_]\w*$")
    values: Values
    labels: list[str] | None = None
    available: str | dict[str, list[Scalar]] | None = None


class RewardsSpec(_Strict):
    """The range and unit of rewards."""

    low: float = Field(default=0.0, allow_inf_nan=False)
    high: float = Field(default=1.0, allow_inf_nan=False)
    unit: str = ""


class BaselineSpec(_Strict):
    """Today's policy: a formula, a table from states to actions, or an (s, S) rule; gain and bias if they are known."""

    formula: str | None = None
    table: dict[str, Scalar | dict[str, float]] | None = None
    order_below: float | None = None
    order_up_to: float | None = None
    gain: float | None = None
    bias: dict[str, float] | list[float] | None = None


class KnowledgeSpec(_Strict):
    """What is known beforehand; formulas, tables, or code."""

    rewards: str | None = None
    reward_low: str | float | None = None
    reward_high: str | float | None = None
    successors: str | dict[str, dict[str, list[Scalar]]] | None = None
    mechanics: str | None = None
    reward: str | None = None
    noise: dict[str, Values] = Field(default_factory=dict)
    observed: bool = False


class ModelSpec(_Strict):
    """The truth, if it is known: the laws of the noise; or transitions and mean rewards."""

    laws: dict[str, list[float]] | None = None
    transitions: list[tuple[Scalar, Scalar, Scalar, float]] | None = None
    rewards: str | None = None


class LogsSpec(_Strict):
    """Logs: files relative to the problem file, and the options of `read_history`."""

    file: str | list[str]
    columns: dict[str, Any] = Field(default_factory=dict)
    where: str | list[str] = Field(default_factory=list)
    site: str | None = None
    pool: bool = False
    dates: str | None = None
    separator: str | None = None
    decimal: str | None = None
    encoding: str | None = None
    quoted_breaks: bool = False
    accidents: bool = False


class GuardrailSpec(_Strict):
    """A further number that must not get worse; gain and bias of the baseline, or what the number is expected to be."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_. -]*$")
    tolerance: float = 0.0
    allowance: float = 0.0
    low: float = Field(default=0.0, allow_inf_nan=False)
    high: float = Field(default=1.0, allow_inf_nan=False)
    better: Literal["higher", "lower"] = "higher"
    gain: float | None = None
    bias: dict[str, float] | list[float] | None = None
    expected: str | None = None


class PromiseSpec(_Strict):
    """What may be lost, and how sure one wants to be; the defaults of forecasts and of the advisor."""

    alpha: float = 0.05
    delta: float = Field(default=0.05, gt=0, lt=1)
    tolerance: float = 0.0
    allowance: float = 0.0
    floor: float | None = None
    checkpoints: int | Annotated[list[int], Field(min_length=1, max_length=MOST)] | None = None
    condition: Literal["replay", "decisions"] | None = None


class FileSpec(_Strict):
    """A problem file."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_. -]*$")
    title: str = ""
    about: str = ""
    step: str | None = None
    horizon: int | None = Field(default=None, strict=True, ge=1)
    start: Scalar | None = None
    states: StatesSpec
    actions: ActionsSpec
    rewards: RewardsSpec = RewardsSpec()
    baseline: BaselineSpec
    knowledge: KnowledgeSpec = KnowledgeSpec()
    model: ModelSpec | None = None
    logs: LogsSpec | None = None
    promise: PromiseSpec = PromiseSpec()
    guardrails: list[GuardrailSpec] = Field(default_factory=list, max_length=20)
