"""A command over all clusters of a project."""

from __future__ import annotations

import contextlib
import io
import os
from functools import partial
from typing import Any
from unittest.mock import patch

import click

from kafkaform.cli.error_handler import ErrorHandler
from kafkaform.cli.fleet import ClusterOutcome, Fleet, run_on_clusters
from kafkaform.cli.options import ClusterSelector
from kafkaform.cli.output import header
from kafkaform.cli.plan import exit_code
from kafkaform.cli.session import Session
from kafkaform.core.errors import KafkaformError
from kafkaform.core.plans import Plan
from kafkaform.plan.plan_header import PlanHeader
from kafkaform.plan.planning import Request, build_plan
from tests.support.cli.project import Call, Project, environment


def plan_all(session: Session) -> tuple[Plan, PlanHeader]:
    with session.cluster() as cluster:
        request = Request(session.manifests(()), environment=session.environment)
        return build_plan(request, cluster, session.settings, session.target), header(session)


def run_all(project: Project, output_format: str = "text", **more: Any) -> Call:
    """Plan every cluster of the project, as a command does."""
    given = {"where": ClusterSelector(), "make": plan_all, "save": lambda *_: None, **more}

    def run(session: Session) -> ClusterOutcome:
        plan, about = given["make"](session)
        name = session.require_cluster().name
        save = partial(given["save"], name, plan, about)
        return ClusterOutcome(plan, exit_code(plan, detailed=True, strict=False), {"header": about}, save)

    @click.command()
    def command() -> int:
        return run_on_clusters(given["where"], run, Fleet(("*",), "plan", output_format))

    out, error_handler = io.StringIO(), ErrorHandler()
    err = io.StringIO()
    with (
        contextlib.chdir(project.folder),
        patch.dict(os.environ, environment(SECRET="hunter2hunter2"), clear=True),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            code = command.main([], standalone_mode=False, obj=error_handler)
        except KafkaformError as error:
            code = error_handler.tell(error)
    return Call(code, out.getvalue(), err.getvalue())
