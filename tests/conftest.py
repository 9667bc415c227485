"""Shared set-up of the tests: one XLA thread, a compilation cache, both precisions, random people."""

import os

# Two XLA threads on a shared two-core CPU have been seen to wait for each other for ever. XLA reads
# this variable when it starts, so it must be set before JAX is imported for the first time.
os.environ.setdefault("NPROC", "1")

import dataclasses
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import jax
import numpy as np
import pytest

from qmind_jax.people import AnsweringPerson, IndependentAnswers, ProjectiveAnswers, TrustQubit
from qmind_jax.quantum import projector

hypothesis.settings.register_profile("qmind_jax", deadline=None, max_examples=25, derandomize=True)
hypothesis.settings.load_profile("qmind_jax")

GOLDEN = Path(__file__).parent / "golden"


def pytest_configure(config: pytest.Config) -> None:
    """Keep compiled programs in pytest's own cache, so that a second run compiles little."""
    cache = getattr(config, "cache", None)
    if cache is not None and jax.config.jax_compilation_cache_dir is None:
        jax.config.update("jax_compilation_cache_dir", str(cache.mkdir("jax_compilations")))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)
        jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the tests that start processes, so that none of them keeps all others waiting at the end."""
    items.sort(key=lambda item: item.path.name != "test_processes.py")


@pytest.fixture(scope="module", autouse=True)
def forget_programs() -> Iterator[None]:
    """Free the compiled programs of a module after it: those of all modules together take gigabytes."""
    yield
    jax.clear_caches()


@dataclasses.dataclass(frozen=True)
class Precision:
    """A floating-point precision and how close two ways to one number must come in it."""

    name: str
    tolerance: float


PRECISIONS = (Precision("float32", 1e-5), Precision("float64", 1e-10))


@pytest.fixture(params=PRECISIONS, ids=lambda precision: precision.name)
def precision(request: pytest.FixtureRequest) -> Iterator[Precision]:
    """Run the test once with JAX's default precision and once with ``jax_enable_x64``."""
    with jax.enable_x64(request.param.name == "float64"):
        yield request.param


@pytest.fixture
def compilations() -> Iterator[list[float]]:
    """A list that grows whenever XLA is asked for a program."""
    seen: list[float] = []

    def listen(event: str, duration: float, **_: Any) -> None:
        if event == "/jax/core/compile/backend_compile_duration":
            seen.append(duration)

    jax.monitoring.register_event_duration_secs_listener(listen)
    yield seen
    jax.monitoring.unregister_event_duration_listener(listen)


@pytest.fixture
def run_cli(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    """Runs a command in this process: exit code, standard output, standard error."""
    from rich.console import Console

    from qmind_jax import cli
    from qmind_jax.commands import output

    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(output, "console", Console(width=80))
    monkeypatch.setattr(cli, "_keep_compilations", lambda: None)

    def run(*arguments: Any) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["qmind_jax", *map(str, arguments)])
        code = 0
        try:
            cli.main()
        except SystemExit as stop:
            code = stop.code
        return code, *capsys.readouterr()

    return run


@pytest.fixture(scope="session")
def golden() -> Callable[[str], Any]:
    """``golden(block)`` reads a block of published values of quantum-mind."""
    return lambda block: json.loads((GOLDEN / f"{block}.json").read_text())


@pytest.fixture(scope="session")
def random_answering() -> Callable[..., AnsweringPerson]:
    """Makes random populations that answer questions, in the precision that is switched on."""

    def make(
        seed: int,
        *,
        people: int = 1,
        hypotheses: int = 3,
        questions: int = 3,
        dimension: int = 0,
        ranks: tuple[int, ...] = (1,),
        complex_states: bool = False,
        complex_projectors: bool = False,
    ) -> AnsweringPerson:
        rng = np.random.default_rng(seed)
        if dimension == 0:
            return IndependentAnswers(rng.uniform(size=(people, hypotheses, questions)))

        def normal(shape: tuple[int, ...], is_complex: bool) -> np.ndarray:
            values = rng.normal(size=shape)
            return values + 1j * rng.normal(size=shape) if is_complex else values

        projectors = [
            [
                projector(normal((ranks[q % len(ranks)], dimension), complex_projectors))
                for q in range(questions)
            ]
            for _ in range(people)
        ]
        return ProjectiveAnswers(
            normal((people, hypotheses, dimension), complex_states), np.array(projectors)
        )

    return make


@pytest.fixture(scope="session")
def random_qubits() -> Callable[..., TrustQubit]:
    """Makes random populations of trust qubits; the last two people never or at once lose coherence."""

    def make(seed: int, people: int = 8) -> TrustQubit:
        rng = np.random.default_rng(seed)
        phi0 = rng.uniform(-4.0, 7.0, people)
        a_pos, a_neg = rng.uniform(0.01, 3.13, (2, people))
        gamma = rng.uniform(0.0, 1.0, people)
        gamma[-2:] = [0.0, 1.0][-min(people, 2) :]
        return TrustQubit(phi0, a_pos, a_neg, gamma)

    return make
