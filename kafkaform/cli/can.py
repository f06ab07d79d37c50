"""`kafkaform can`."""

from __future__ import annotations

import click

from kafkaform.cli import completion
from kafkaform.cli.options import ClusterSelector, SectionedCommand, where_options
from kafkaform.cli.output import format_option, show
from kafkaform.cli.session import Session
from kafkaform.core.acls import OPERATIONS, ResourceType, parse_operation, parse_principal
from kafkaform.core.authorizer import AccessCheck, AccessReading, AccessRequest, Authorizer, GrantList
from kafkaform.core.errors import UsageError
from kafkaform.plan.planning import check_identity
from kafkaform.resources.acl_resources import parse_resource

_EXIT_CODES = {True: 0, False: 2, None: 1}

ANYONE = "anyone"


@click.command(cls=SectionedCommand)
@click.argument("principal", metavar=f"PRINCIPAL|{ANYONE}")
@click.argument("operation", metavar="OPERATION")
@click.argument("resource", metavar="RESOURCE", shell_complete=completion.resources)
@click.option(
    "--host", metavar="ADDRESS", help="The address of the client.  [default: one that no ACL names]"
)
@where_options
@format_option("access")
def can(
    principal: str,
    operation: str,
    resource: str,
    host: str | None,
    where: ClusterSelector,
    output_format: str,
) -> int:
    """Show whether a principal may do something, or who may.

    The decision is that of Kafka's authorizer, and names the ACL. RESOURCE is the name of a topic, or of
    another type: ConsumerGroup/NAME, TransactionalId/NAME, DelegationToken/NAME, User/NAME, Cluster.

    Exit codes: 0 allowed, or listed; 2 not allowed; 1 unknown, or an error.
    """
    if principal == ANYONE:
        if host is not None:
            raise UsageError(f"`can {ANYONE}` lists all hosts, and takes no --host", hint="leave it out")
        return _list_grants(operation, resource, where, output_format)
    try:
        known = parse_principal(principal)
    except ValueError as error:
        raise UsageError(str(error)) from None
    resource_type, name, checked = _parse(operation, resource)
    reading, authorizer = _read(where, output_format)
    request = AccessRequest(known, checked, resource_type, name)
    by_host = {} if host else authorizer.decide_by_host(request)
    check = AccessCheck(
        request, host, authorizer.decide(request, host or ""), by_host, authorizer.settings, reading.unknown
    )
    show("access", output_format, check)
    return _EXIT_CODES[check.decision.is_allowed]


def _list_grants(operation: str, resource: str, where: ClusterSelector, output_format: str) -> int:
    """List the principals that may do something."""
    resource_type, name, checked = _parse(operation, resource)
    reading, authorizer = _read(where, output_format)
    grants = GrantList(
        checked,
        resource_type,
        name,
        tuple(authorizer.list_grants(checked, resource_type, name)),
        tuple(authorizer.list_denied(checked, resource_type, name)),
        bool(authorizer.find_acls(resource_type, name)),
        authorizer.settings,
        reading.unknown,
    )
    show("grants", output_format, grants)
    return 0


def _parse(operation: str, resource: str) -> tuple[ResourceType, str, str]:
    """Parse a resource and an operation; returns the type, the name, and Kafka's name of the operation."""
    try:
        resource_type, name = parse_resource(resource)
        # No request asks for other operations, or for All.
        return resource_type, name, parse_operation(operation, resource_type, OPERATIONS[resource_type])
    except ValueError as error:
        raise UsageError(str(error)) from None


def _read(where: ClusterSelector, output_format: str) -> tuple[AccessReading, Authorizer]:
    session = Session.start(where)
    target = session.require_cluster()
    if output_format != "json":
        session.tell()
    with session.cluster() as cluster:
        if target.cluster_id is not None:
            # ACLs of another cluster at the same address would be a wrong answer.
            check_identity(cluster.facts(), target)
        reading = cluster.access()
    settings = reading.settings.complete(target.authorizer)
    return reading, Authorizer(reading.acls, settings)
