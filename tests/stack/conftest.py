"""pytest-celery's `celery_setup`: an embedded Valkey and two workers, on the test's database.

Any of the two does every stage, so that one goes on where the other was killed. Nothing but messages moves the
pipeline: no beat runs, a test sends what one would.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

import pytest
from pytest_celery import CeleryBrokerCluster, CeleryTestSetup, CeleryWorkerCluster, RedisTestBroker
from support.rig import WORKER_READY, Rig

from embedded.valkey import ValkeyServer
from ops.stack import worker_options
from stack.nodes import (
    ProcessWorkerContainer,
    Setup,
    ValkeyContainer,
    ValkeyProcess,
    WorkerNode,
    WorkerProcess,
)

if TYPE_CHECKING:
    from conftest import Database

WORKERS = ("one@test", "two@test")


@pytest.fixture
def celery_setup_cls() -> type[CeleryTestSetup]:
    return Setup


@pytest.fixture
def celery_broker_cluster() -> Iterator[CeleryBrokerCluster]:
    with ValkeyServer(append_only=True) as server:
        yield CeleryBrokerCluster(RedisTestBroker(ValkeyContainer(ValkeyProcess(server))))


@pytest.fixture
def celery_backend_cluster() -> None:
    """None: results live in Postgres."""


@pytest.fixture
def celery_worker_cluster(
    celery_broker_cluster: CeleryBrokerCluster, database: Database
) -> Iterator[CeleryWorkerCluster]:
    [broker] = celery_broker_cluster
    with ExitStack() as resources:
        rig = Rig(broker.container._container.server, None, database, resources)
        yield CeleryWorkerCluster(*(_worker(rig, name) for name in WORKERS))


def _worker(rig: Rig, name: str) -> WorkerNode:
    start = partial(rig.start, name, worker_options(name, "pipeline,compute", 2), WORKER_READY, {})
    return WorkerNode(ProcessWorkerContainer(WorkerProcess(name, start)), app=None)
