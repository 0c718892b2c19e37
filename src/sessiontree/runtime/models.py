"""Models: their names, limits, prices and thinking levels.

Owns the table of models (the packaged ``models.toml`` and the user's), clamping, and the fallback
for a model that is gone. Knows nothing of agents or sessions; a model is named by its reference,
``provider/id``.

A user's table has the form of the packaged one and wins over it, model by model::

    default = "ollama/qwen3:32b"
    default_thinking = "low"

    [[models]]
    provider = "ollama"
    id = "qwen3:32b"
    context_window = 40960
    max_thinking = "high"

    [[providers]]              # any model id of this provider is accepted
    id = "my-gateway"
    context_window = 128000
"""

from __future__ import annotations

import errno
import os
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from importlib import resources
from typing import Annotated, Any

import msgspec

from sessiontree.errors import SessionTreeError
from sessiontree.storage.file import FileSessionStorage

THINKING_LEVELS: tuple[str, ...] = ("off", "minimal", "low", "medium", "high", "xhigh")
"""From none to most."""

DEFAULT_THINKING = "medium"
"""What a session starts with when neither it nor the user says otherwise."""

_MAX_TABLE_BYTES = 4 << 20
_DATED = re.compile(r"[-@](?:\d{8}|\d{4}-\d{2}-\d{2}|latest)$")


# What rows of a table may hold; `ModelRegistry.add_table` checks it.
_Text = Annotated[str, msgspec.Meta(min_length=1)]
_Tokens = Annotated[int, msgspec.Meta(gt=0)]
_Level = Annotated[str, msgspec.Meta(pattern=f"^(?:{'|'.join(THINKING_LEVELS)})$")]
_Dollars = Annotated[float, msgspec.Meta(ge=0, le=1e6)]


@dataclass(frozen=True, slots=True)
class Prices:
    """US dollars for a million tokens."""

    input: _Dollars = 0.0
    output: _Dollars = 0.0
    cache_read: _Dollars = 0.0
    cache_write: _Dollars = 0.0


@dataclass(frozen=True, slots=True)
class Model:
    """One model of one provider."""

    provider: _Text
    id: _Text
    name: str = ""
    context_window: _Tokens = 128_000
    max_output: _Tokens = 8_192
    max_thinking: _Level = "off"
    """The highest of `THINKING_LEVELS` it can do; ``off`` if it can't think."""
    images: bool = False
    prices: Prices = Prices()
    min_thinking: _Level = "off"
    """The lowest it can do; above ``off`` for a model that always thinks."""

    @property
    def ref(self) -> str:
        """``provider/id``, as session files spell it."""
        return f"{self.provider}/{self.id}"

    @property
    def display_name(self) -> str:
        return self.name or self.id

    @property
    def thinking_levels(self) -> tuple[str, ...]:
        """The levels this model can do, from least to most."""
        low, high = _rank(self.min_thinking), _rank(self.max_thinking)
        return THINKING_LEVELS[low : max(low, high) + 1]

    def cost(
        self, input_tokens: int, output_tokens: int, cache_read: int = 0, cache_write: int = 0
    ) -> dict[str, float]:
        """The ``cost`` object of a message's ``usage``, in US dollars."""
        parts = {
            "input": input_tokens * self.prices.input / 1e6,
            "output": output_tokens * self.prices.output / 1e6,
            "cacheRead": cache_read * self.prices.cache_read / 1e6,
            "cacheWrite": cache_write * self.prices.cache_write / 1e6,
        }
        return {**parts, "total": sum(parts.values())}


def clamp_thinking(level: str, model: Model | None) -> str:
    """Return the level nearest to ``level`` that ``model`` can do; an unknown word counts as
    off."""
    if model is None:
        return "off"
    levels = model.thinking_levels
    rank = min(max(_rank(level), _rank(levels[0])), _rank(levels[-1]))
    return THINKING_LEVELS[rank]


def _rank(level: str) -> int:
    level = "xhigh" if level == "max" else level
    return THINKING_LEVELS.index(level) if level in THINKING_LEVELS else 0


class ModelNotFoundError(SessionTreeError):
    """No model of that name is known."""

    def __init__(self, ref: str) -> None:
        self.ref = ref
        super().__init__(f'Model "{ref}" is not known; add it to models.toml or choose another')


class AmbiguousModelError(SessionTreeError):
    """Several models match that name; ``candidates`` are their references."""

    def __init__(self, text: str, candidates: Iterable[str]) -> None:
        self.candidates = list(candidates)
        super().__init__(f'Model "{text}" is ambiguous: {", ".join(self.candidates)}')


@dataclass(frozen=True, slots=True)
class Resolution:
    """The model to use, and the reason if it is not the wanted one."""

    model: Model | None
    wanted: str | None = None
    reason: str | None = None

    @property
    def is_fallback(self) -> bool:
        return self.reason is not None


class ModelRegistry:
    """The models a program can use, by reference."""

    def __init__(
        self,
        models: Iterable[Model] = (),
        *,
        default: str | None = None,
        default_thinking: str = DEFAULT_THINKING,
        open_providers: Mapping[str, Model] | None = None,
    ) -> None:
        self._models = {model.ref: model for model in models}
        self._open = dict(open_providers or {})
        self.default_ref = default
        self.default_thinking = default_thinking
        self.warnings: list[str] = []
        """The problems of the user's table, one line each."""

    @classmethod
    def load(cls, agent_dir: str | os.PathLike[str] | None = None) -> ModelRegistry:
        """The packaged table, and over it ``models.toml`` of the agent folder if there is one.

        A table that can't be read costs its own lines only, told in ``warnings``.
        """
        registry = cls()
        packaged = resources.files("sessiontree.runtime").joinpath("models.toml").read_bytes()
        registry.add_table(packaged.decode("utf-8"), "packaged models.toml")
        if agent_dir is None:
            return registry
        path = os.path.join(os.fspath(agent_dir), "models.toml")
        try:
            data = FileSessionStorage().read_prefix(path, _MAX_TABLE_BYTES + 1)
            if len(data) > _MAX_TABLE_BYTES:
                raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
            text = data.decode("utf-8")
        except FileNotFoundError:
            return registry
        except (OSError, UnicodeDecodeError) as error:
            registry.warnings.append(f"{path}: {error}")
            return registry
        registry.add_table(text, path)
        return registry

    def add_table(self, text: str, origin: str) -> None:
        """Add the models of a TOML text; what is wrong in it goes to ``warnings``."""
        try:
            table = tomllib.loads(text)
        except (tomllib.TOMLDecodeError, RecursionError) as error:
            self.warnings.append(f"{origin}: {error}")
            return
        for kind in ("models", "providers"):
            rows = table.get(kind, [])
            if not isinstance(rows, list):
                self.warnings.append(f"{origin}: {kind} is not a list of tables")
                continue
            for index, row in enumerate(rows):
                try:
                    model = _model_of(row, is_provider=kind == "providers")
                except msgspec.ValidationError as error:
                    self.warnings.append(f"{origin}: {_describe(error, kind, index, row)}")
                    continue
                if kind == "models":
                    self._models[model.ref] = model
                else:
                    self._open[model.provider] = model
        self._add_defaults(table, origin)

    def _add_defaults(self, table: Mapping[str, Any], origin: str) -> None:
        default = table.get("default")
        if isinstance(default, str):
            self.default_ref = default
        thinking = table.get("default_thinking")
        if thinking in THINKING_LEVELS:
            self.default_thinking = thinking
        elif thinking is not None:
            self.warnings.append(
                f"{origin}: default_thinking must be one of {', '.join(THINKING_LEVELS)}"
            )

    def __iter__(self) -> Iterator[Model]:
        return iter(self._models.values())

    def __len__(self) -> int:
        return len(self._models)

    def __contains__(self, ref: object) -> bool:
        return isinstance(ref, str) and self._lookup(ref) is not None

    def register(self, model: Model) -> None:
        """Add or replace one model."""
        self._models[model.ref] = model

    def get(self, ref: str) -> Model:
        """The model of this reference. Raises ModelNotFoundError.

        A dated or ``-latest`` spelling of a known id counts as that model and keeps its spelling;
        so does any id of an open provider.
        """
        model = self._lookup(ref)
        if model is None:
            raise ModelNotFoundError(ref)
        return model

    def find(self, text: str) -> Model:
        """The model a person means: a reference, an id, or a piece of exactly one.

        Raises ModelNotFoundError, AmbiguousModelError.
        """
        exact = self._lookup(text)
        if exact is not None:
            return exact
        wanted = text.casefold()
        for matches in (
            [m for m in self if m.id.casefold() == wanted],
            [m for m in self if wanted in m.ref.casefold() or wanted in m.name.casefold()],
        ):
            if len(matches) == 1:
                return matches[0]
            if matches:
                raise AmbiguousModelError(text, [m.ref for m in matches])
        raise ModelNotFoundError(text)

    def resolve(self, wanted: str | None, *, current: Model | None = None) -> Resolution:
        """The model to use for ``wanted``; if that is gone: ``current``, else the default."""
        if wanted is not None:
            model = self._lookup(wanted)
            if model is not None:
                return Resolution(model, wanted)
        stand_in = current if current is not None else self.default
        if wanted is None:
            return Resolution(stand_in)
        return Resolution(stand_in, wanted, f'model "{wanted}" is not available')

    @property
    def default(self) -> Model | None:
        """The default model; the first of the table if that is not known."""
        if self.default_ref is not None:
            model = self._lookup(self.default_ref)
            if model is not None:
                return model
        return next(iter(self), None)

    def _lookup(self, ref: str) -> Model | None:
        model = self._models.get(ref)
        if model is not None:
            return model
        provider, slash, model_id = ref.partition("/")
        if not slash or not provider or not model_id:
            return None
        bare = _DATED.sub("", ref)
        if bare != ref:
            for spelling in (bare, f"{bare}-0"):
                known = self._models.get(spelling)
                if known is not None:
                    return replace(known, id=model_id)
        template = self._open.get(provider)
        return None if template is None else replace(template, id=model_id, name="")


def _model_of(row: object, *, is_provider: bool) -> Model:
    """One row of the table as a value. Raises msgspec.ValidationError."""
    if is_provider and isinstance(row, dict):
        row = {**row, "provider": "*"}
    model = msgspec.convert(row, Model)
    return replace(model, provider=model.id, id="*") if is_provider else model


def _describe(error: msgspec.ValidationError, kind: str, index: int, row: object) -> str:
    """Row, field and fault: ``models[3] (acme/thinker), prices.input: Expected …``."""
    fault, _, place = str(error).partition(" - at ")
    field = place.strip("`").removeprefix("$").removeprefix(".")
    where = f"{kind}[{index}]"
    if isinstance(row, dict):
        named = "/".join(str(row[key]) for key in ("provider", "id") if row.get(key))
        where += f" ({named})" if named else ""
    if field.endswith("_thinking"):
        fault = f"Expected one of {', '.join(THINKING_LEVELS)}"
    fault = fault.replace("`object`", "`a table`").replace("Object missing", "missing")
    return f"{where}, {field}: {fault}" if field else f"{where}: {fault}"
