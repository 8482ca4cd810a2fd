"""Rules for the whole suite: on CI a skip is a failure unless the device is the reason, and --every thins the cases."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from typing import Any

import pytest

# How the reason of a skip begins that CI accepts: no package could change it.
ACCEPTED = ("device", "no WPT vectors")


@pytest.fixture(scope="session")
def context(pytestconfig: pytest.Config) -> Iterator[Any]:
    """One context for the whole session: kernels are compiled once."""
    import webnn_cl

    with webnn_cl.ML().create_context(device=pytestconfig.getoption("--device")) as made:
        yield made


def pytest_addoption(parser: pytest.Parser) -> None:
    """--every N: for simulators, on which the whole suite would take hours."""
    parser.addoption("--device", metavar="TEXT", help="device of the suite's context: index, name or part of it")
    parser.addoption("--every", type=int, default=1, metavar="N", help="run each N-th parametrized case only")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Benchmarks measure when they are what was asked for; in the whole suite they run once, as tests."""
    asked = any("benchmarks" in str(argument) for argument in config.invocation_params.args)
    if not asked and not config.getoption("benchmark_enable", False):
        config.option.benchmark_disable = True


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the first and every N-th case of each parametrized test, but for those that thin cases of their own."""
    every = config.getoption("--every")
    seen: dict[str, int] = {}
    kept, dropped = [], []
    for item in items:
        if item.get_closest_marker("thins_cases"):
            kept.append(item)
            continue
        name = item.nodeid.split("[")[0]
        seen[name] = seen.get(name, -1) + 1
        (dropped if seen[name] % every else kept).append(item)
    if dropped:
        config.hook.pytest_deselected(items=dropped)
        items[:] = kept


def forbidden(report: Any) -> bool:
    """Whether a report is a skip that CI does not accept."""
    if not (os.environ.get("CI") and report.skipped) or hasattr(report, "wasxfail"):
        return False
    return not str(report.longrepr[2]).removeprefix("Skipped: ").startswith(ACCEPTED)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport() -> Generator[None, Any, None]:
    """A skipped test."""
    outcome = yield
    fail(outcome.get_result())


@pytest.hookimpl(hookwrapper=True)
def pytest_make_collect_report() -> Generator[None, Any, None]:
    """A skipped file."""
    outcome = yield
    fail(outcome.get_result())


def fail(report: Any) -> None:
    """Turn a skip that CI does not accept into a failure."""
    if forbidden(report):
        report.longrepr = f"skipped on CI, though not for want of a device: {report.longrepr[2]}"
        report.outcome = "failed"
