"""The reports of one command on several clusters: a table, then each report."""

from __future__ import annotations

import json
import textwrap
from collections import Counter
from enum import Enum
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeAlias

from kafkaform.core.values import Value, replace
from kafkaform.core.wording import counted
from kafkaform.inspect.drift import Drift, DriftCause, DriftVerdict, Form, ResourceDrift
from kafkaform.inspect.health_check import HealthReport, HealthVerdict
from kafkaform.plan.summary import count_held_back, headline, summarise
from kafkaform.report import drift_wording
from kafkaform.report.apply import apply_to_json, apply_to_markdown
from kafkaform.report.arrivals import count_spreads
from kafkaform.report.comparison import summarise_comparison
from kafkaform.report.doctor import VERDICTS, verdict_words
from kafkaform.report.document import (
    Column,
    Item,
    Paragraph,
    ReportDocument,
    Role,
    Section,
    Table,
    TextSpan,
    name_cluster,
)
from kafkaform.report.markdown import LIMIT, MIN_LIMIT, write_markdown
from kafkaform.report.page import Page, render_page
from spark_validation.arrivals import Spread, TopicArrivals

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from kafkaform.core.apply_result import ApplyReport
    from kafkaform.core.plans import Plan
    from kafkaform.inspect.comparison import Comparison
    from kafkaform.inspect.importing import Import
    from kafkaform.inspect.resource_status import StatusReport
    from kafkaform.report.document import Block, Row

_MAX_OUTCOME_LENGTH = 600
_ROW_LENGTH = 1_000
"""More characters than a row of the table takes, with room for the heading."""


class ClusterReport(Value):
    """The report of one cluster.

    Attributes:
        environment: Its environment; None if it has none.
        content: The plan, drift or other content.
        render: Renders it in the chosen format, with those of the options `width`, `verbose` and `limit`
            that the format has.
    """

    name: str
    environment: str | None
    content: Any
    render: Callable[..., Page | str]


class FailedCluster(Value):
    """A cluster without a report.

    Attributes:
        environment: Its environment; None if it has none.
        message: The reason, in one line.
        hint: The advice to the user.
        problems: The problems in files, a line each.
    """

    name: str
    environment: str | None
    message: str
    hint: str | None = None
    problems: tuple[str, ...] = ()


Member: TypeAlias = ClusterReport | FailedCluster
"""The outcome for one cluster."""


class _Summary(Value):
    """The summary of the reports of a command.

    Attributes:
        column: The heading of the column of verdicts.
        failed: The words for a cluster without a report.
        verdict: Returns the words for one report in the table, and their role.
        total: Returns the parts of the last line, over all reports.
        headed: Whether the text of a report begins with the cluster's name.
    """

    column: str
    failed: str
    verdict: Callable[[Any], tuple[str, Role]]
    total: Callable[[Sequence[Any]], list[str]]
    headed: bool = True


def render_fleet(
    members: Sequence[Member], command: str = "plan", *, verbose: bool = False, width: int | None = None
) -> Page:
    """Render a table of clusters, every report, and a summary.

    Args:
        members: The outcome for each cluster.
        command: The command, a key of `SUMMARIES`.
        verbose: List everything instead of counting what is alike.
        width: The columns at which text wraps; None for no wrapping.
    """
    page = render_page(ReportDocument("", [_tabulate(members, command)], indent=0), width=width)
    for member in members:
        page.line()
        match member:
            case ClusterReport(render=render):
                # Tables of status and import have no title: without one, it would not be clear whose they
                # are.
                if not SUMMARIES[command].headed:
                    page.append(render_page(_head(member, command), width=width))
                rendered = render(verbose=verbose, width=width)
                page.append(Page.build(rendered) if isinstance(rendered, str) else rendered)
            case FailedCluster():
                page.append(render_page(_describe_failure(member, command), width=width))
    page.line()
    page.line((fleet_sentence(members, command), "bold"))
    return page


def _tabulate(members: Sequence[Member], command: str, left_out: Collection[str] = ()) -> Table:
    """Return the table of clusters; `left_out` names those whose report is too long."""
    summary = SUMMARIES[command]
    columns = (Column("Cluster"), Column("Environment"), Column(summary.column.capitalize(), least=20))
    rows = []
    for member in members:
        match member:
            case ClusterReport(content=content):
                words, role = summary.verdict(content)
                if member.name in left_out:
                    # In the table, so that no cluster is missing from the comment without a trace.
                    words += f" (report left out: too long; see the {command} of this cluster)"
            case FailedCluster(hint=hint):
                words, role = f"{summary.failed}: {member.message}{f' ({hint})' if hint else ''}", Role.BAD
        names = (TextSpan(name, Role.CODE, 60) for name in (member.name, member.environment or ""))
        rows.append((*names, TextSpan(words, role, _MAX_OUTCOME_LENGTH)))
    return Table(columns, rows)


def _head(member: Member, command: str, blocks: Sequence[Block] = ()) -> ReportDocument:
    context = [name_cluster(member.name, None)]
    if member.environment:
        context.append(["environment ", TextSpan(member.environment, Role.CODE, 80)])
    return ReportDocument(f"kafkaform {command}", blocks, context=context)


def _describe_failure(failed: FailedCluster, command: str) -> ReportDocument:
    message = TextSpan(f"{SUMMARIES[command].failed}: {failed.message}", Role.VERY_BAD, _MAX_OUTCOME_LENGTH)
    lines = [Paragraph(problem) for problem in failed.problems]
    hint = [Paragraph(failed.hint, "hint")] if failed.hint else []
    return _head(failed, command, [Item(message, below=[*lines, *hint])])


def fleet_sentence(members: Sequence[Member], command: str = "plan") -> str:
    """Summarise all clusters in one line."""
    summary = SUMMARIES[command]
    contents = [member.content for member in members if isinstance(member, ClusterReport)]
    parts = summary.total(contents) if contents else []
    if len(contents) < len(members):
        parts.append(f"{len(members) - len(contents):,} {summary.failed}")
    return f"{counted(len(members), 'cluster')}: {', '.join(parts)}."


def fleet_to_json(members: Sequence[Member]) -> str:
    """Return `{"clusters": {NAME: REPORT}}`, with an `error` in place of a report that failed."""
    # Each report is JSON text already. It is inserted as it is, and is the same as that of a run on one
    # cluster.
    entries = [f"{json.dumps(member.name)}: {_render_json(member)}" for member in members]
    return '{\n  "clusters": {\n' + textwrap.indent(",\n".join(entries), "    ") + "\n  }\n}\n"


def _render_json(member: Member) -> str:
    match member:
        case ClusterReport(render=render):
            return str(render()).rstrip("\n")
        case FailedCluster():
            return json.dumps(_describe_error(member), indent=2)


def _describe_error(failed: FailedCluster) -> dict[str, Any]:
    error = {"message": failed.message, "hint": failed.hint, "problems": list(failed.problems)}
    return {"environment": failed.environment, "error": error}


def fleet_to_markdown(members: Sequence[Member], command: str = "plan", *, limit: int = LIMIT) -> str:
    """Return Markdown for a comment on GitHub, of at most `limit` characters if the table fits.

    A report that does not fit is only in the table, with a remark.
    """
    # The room of the table and its heading is set aside first: they are never cut.
    rooms = _share_room(members, limit - _ROW_LENGTH * (len(members) + 1))
    answered = [member for member in members if isinstance(member, ClusterReport)]
    table = _tabulate(members, command, {member.name for member in answered} - {*rooms})
    head = ReportDocument(
        f"kafkaform {command}",
        [table],
        counted(len(members), "cluster"),
        summary=TextSpan(fleet_sentence(members, command), Role.STRONG),
    )
    # A cluster that failed has its reason in the table.
    reports = [str(member.render(limit=rooms[member.name])) for member in answered if member.name in rooms]
    return "\n".join([write_markdown(head), *reports])


def _share_room(members: Sequence[Member], room: int) -> dict[str, int]:
    """Return the characters allowed for each report: short ones get what they need, others share evenly."""
    answered = [member for member in members if isinstance(member, ClusterReport)]
    # The shortest first: what they do not use of their share goes to the longer ones. Each report is rendered
    # in full to learn its length.
    needs = sorted((len(str(member.render())), member.name) for member in answered)
    rooms: dict[str, int] = {}
    for index, (need, name) in enumerate(needs):
        share = room // (len(needs) - index)
        # A long report whose share is below MIN_LIMIT is left to the table.
        if need <= share or share >= MIN_LIMIT:
            # No report accepts a limit below MIN_LIMIT, even if it needs less.
            rooms[name] = max(MIN_LIMIT, min(need, share))
            room -= min(need, share)
    return rooms


# --- the commands ------------------------------------------------------------------------------------


def _plan_verdict(plan: Plan) -> tuple[str, Role]:
    role = Role.BAD if plan.open_errors or plan.unknown else Role.WARNING if plan.changes else Role.TEXT
    return headline(plan), role


def _sum_plans(plans: Sequence[Plan]) -> list[str]:
    changing = [plan for plan in plans if plan.changes]
    held = sum(summary.refused + summary.needs_consent for summary in map(summarise, plans))
    parts = []
    if changing:
        total = sum(len(plan.changes) for plan in changing)
        parts.append(
            f"{counted(total, 'change')} on {len(changing):,}" + (f" ({held:,} held back)" if held else "")
        )
    if len(changing) < len(plans):
        parts.append(f"no changes on {len(plans) - len(changing):,}")
    if errors := sum(len(plan.open_errors) for plan in plans):
        parts.append(counted(errors, "error"))
    return parts


_DRIFT_WORDS = {
    DriftVerdict.DRIFT: ("drift", Role.WARNING),
    DriftVerdict.UNKNOWN: ("drift not determined", Role.BAD),
    DriftVerdict.CLEAN: ("no drift", Role.GOOD),
}


def _drift_verdict(drift: Drift) -> tuple[str, Role]:
    return drift_wording.headline(drift), _DRIFT_WORDS[drift.verdict][1]


def _sum_drifts(drifts: Sequence[Drift]) -> list[str]:
    counts = Counter(drift.verdict for drift in drifts)
    return [
        f"{words} on {counts[verdict]:,}" for verdict, (words, _) in _DRIFT_WORDS.items() if counts[verdict]
    ]


def _health_verdict(report: HealthReport) -> tuple[str, Role]:
    return verdict_words(report), VERDICTS[report.verdict]


def _sum_healths(reports: Sequence[HealthReport]) -> list[str]:
    counts = Counter(report.verdict for report in reports)
    order = (HealthVerdict.UNHEALTHY, HealthVerdict.UNKNOWN, HealthVerdict.HEALTHY)
    return [f"{counts[verdict]:,} {verdict}" for verdict in order if counts[verdict]]


def _status_verdict(report: StatusReport) -> tuple[str, Role]:
    words = ", ".join(_count_resources(report.topics, report.groups))
    return (f"{words}; read in part", Role.WARNING) if report.unread else (words, Role.TEXT)


def _sum_statuses(reports: Sequence[StatusReport]) -> list[str]:
    topics = [topic for report in reports for topic in report.topics]
    groups = [group for report in reports for group in report.groups]
    return _count_resources(topics, groups)


def _count_resources(topics: Sequence[object], groups: Sequence[object]) -> list[str]:
    return [counted(len(topics), "topic"), counted(len(groups), "group")]


def _import_verdict(imported: Import) -> tuple[str, Role]:
    role = Role.BAD if imported.unread or imported.not_converged else Role.TEXT
    return ", ".join(_sum_imports([imported])), role


def _sum_imports(imports: Iterable[Import]) -> list[str]:
    imports = [*imports]
    files = sum(len(imported.files) for imported in imports)
    refs = sum(len(imported.refs) for imported in imports)
    parts = [f"{counted(refs, 'manifest')} in {counted(files, 'file')}"]
    if lacking := sum(len({*imported.unread, *imported.not_converged}) for imported in imports):
        parts.append(f"{lacking:,} not as on the cluster")
    return parts


def _arrivals_verdict(arrivals: Sequence[TopicArrivals]) -> tuple[str, Role]:
    uneven = any(topic.spread is Spread.UNEVEN for topic in arrivals)
    return ", ".join(count_spreads(arrivals)) or "no topics", Role.WARNING if uneven else Role.TEXT


def _comparison_verdict(comparison: Comparison) -> tuple[str, Role]:
    role = Role.BAD if comparison.unknown else Role.WARNING if comparison.unexpected else Role.TEXT
    return summarise_comparison(comparison).rstrip("."), role


def _sum_comparisons(comparisons: Sequence[Comparison]) -> list[str]:
    different = sum(bool(comparison.unexpected) for comparison in comparisons)
    return [f"{different:,} different from {comparisons[0].a}"]


SUMMARIES: Mapping[str, _Summary] = {
    "plan": _Summary("plan", "not planned", _plan_verdict, _sum_plans),
    "drift": _Summary("drift", "not compared", _drift_verdict, _sum_drifts),
    "doctor": _Summary("health", "not examined", _health_verdict, _sum_healths),
    "status": _Summary("status", "not read", _status_verdict, _sum_statuses, headed=False),
    "arrivals": _Summary(
        "arrivals", "not read", _arrivals_verdict, lambda all_: count_spreads(chain(*all_)), headed=False
    ),
    "compare": _Summary("comparison", "not compared", _comparison_verdict, _sum_comparisons),
    "import": _Summary("import", "not imported", _import_verdict, _sum_imports, headed=False),
}
"""The summary by command."""


# --- an overview -----------------------------------------------------------------------------------------


class ClusterOverview(Value):
    """The state of one cluster, in an overview of several.

    Attributes:
        drift: Its differences from the manifests, with the changes of a plan.
    """

    drift: Drift
    health: HealthReport

    @property
    def drifted(self) -> int:
        """The number of resources that were changed on the cluster since the last recorded apply.

        Those without a record count, too, unless they do not exist yet.
        """
        return sum(map(_is_changed_by_hand, self.drift.resources))


def _is_changed_by_hand(resource: ResourceDrift) -> bool:
    histories = [field.history for field in resource.fields] or [resource.history]
    causes = {DriftCause.UNRECORDED if history is None else history.cause for history in histories}
    unrecorded = resource.form is Form.MISSING and causes == {DriftCause.UNRECORDED}
    return not unrecorded and causes != {DriftCause.MANIFEST}


_OVERVIEW_COLUMNS = (
    Column("Cluster", least=12),
    Column("Changes", right=True),
    Column("Held back", least=9),
    Column("Drift", right=True),
    Column("Health", least=9),
    Column("Kafka", rank=1),
)


def render_overview(members: Sequence[Member], *, width: int | None = None) -> Page:
    """Render one line for each cluster, those that could not be read first, with the reasons below."""
    return render_page(_build_overview(members), width=width)


def overview_to_markdown(members: Sequence[Member]) -> str:
    """Return the overview as Markdown, for a comment on GitHub."""
    return write_markdown(replace(_build_overview(members), title="kafkaform overview"))


def _build_overview(members: Sequence[Member]) -> ReportDocument:
    failed = [member for member in members if isinstance(member, FailedCluster)]
    overviews = [member.content for member in members if isinstance(member, ClusterReport)]
    unhealthy = sum(each.health.verdict is HealthVerdict.UNHEALTHY for each in overviews)
    words = [
        counted(sum(len(each.drift.plan.changes) for each in overviews), "change"),
        f"{sum(each.drifted for each in overviews):,} drifted",
        *([f"{unhealthy:,} unhealthy"] if unhealthy else []),
        *([f"{len(failed):,} not read"] if failed else []),
    ]
    summary = TextSpan(f"{counted(len(members), 'cluster')}: {', '.join(words)}.", Role.STRONG)
    return ReportDocument(
        "",
        (Section(members, _overview_row, columns=_OVERVIEW_COLUMNS), Section(failed, _overview_failure)),
        summary=summary,
        indent=0,
    )


def _overview_failure(failed: FailedCluster) -> Item:
    problems = [Paragraph(problem) for problem in failed.problems]
    return Item([TextSpan(failed.name, Role.CODE)], failed.message, gap=": ", below=problems)


def _overview_row(member: Member) -> Row:
    name = TextSpan(member.name, Role.CODE, 60)
    if isinstance(member, FailedCluster):
        return (name, "", "", "", TextSpan("not read", Role.BAD), "")
    overview: ClusterOverview = member.content
    plan, health = overview.drift.plan, overview.health
    errors = [counted(len(plan.open_errors), "error")] if plan.open_errors else []
    held = ", ".join([*count_held_back(plan), *errors]) or ("not visible" if plan.unknown else "-")
    return (
        name,
        str(len(plan.changes)),
        TextSpan(held, Role.TEXT if held == "-" else Role.WARNING),
        str(overview.drifted),
        TextSpan(str(health.verdict), VERDICTS[health.verdict]),
        health.health.release or "-",
    )


def overview_to_json(members: Sequence[Member]) -> str:
    """Return the overview as JSON, with an `error` in place of a cluster that could not be read."""
    clusters = {member.name: _overview_to_json(member) for member in members}
    return json.dumps({"clusters": clusters}, indent=2)


def _overview_to_json(member: Member) -> dict[str, Any]:
    if isinstance(member, FailedCluster):
        return _describe_error(member)
    overview: ClusterOverview = member.content
    return {
        "environment": member.environment,
        "release": overview.health.health.release or None,
        "plan": summarise(overview.drift.plan).to_json(),
        "drift": {"verdict": overview.drift.verdict, "resources": overview.drifted},
        "health": {
            "verdict": overview.health.verdict,
            "findings": [f"{finding.code}: {finding.message}" for finding in overview.health.findings],
        },
    }


# --- an apply in stages ----------------------------------------------------------------------------------


class StageOutcome(Enum):
    """The outcome for one cluster, as reports word it."""

    APPLIED = "complete"
    INCOMPLETE = "not complete"
    FAILED = "failed"
    UNHEALTHY = "applied, but not healthy"
    NOT_STARTED = "not started"


class StageResult(Value):
    """The result of an apply to one of several clusters.

    Attributes:
        stage: The number of its stage.
        report: The report of the apply; None if there is none.
        error: The error that ended it; empty if none did.
    """

    stage: int
    cluster: str
    outcome: StageOutcome = StageOutcome.NOT_STARTED
    report: ApplyReport | None = None
    error: str = ""


_ROLES = {StageOutcome.APPLIED: Role.GOOD, StageOutcome.NOT_STARTED: Role.MUTED}


def render_stages(results: Sequence[StageResult], *, width: int | None = None) -> Page:
    """Render a table of stages and clusters, and what to do next."""
    return render_page(_build_stages(results, "see above"), width=width)


def stages_to_markdown(results: Sequence[StageResult], *, limit: int = LIMIT) -> str:
    """Return the table of stages and the reports as Markdown, for a comment on GitHub."""
    reports = [
        ClusterReport(each.cluster, None, each.report, partial(apply_to_markdown, each.report, each.cluster))
        for each in results
        if each.report is not None
    ]
    rooms = _share_room(reports, limit - _ROW_LENGTH * (len(results) + 1))
    head = write_markdown(replace(_build_stages(results, ""), title="kafkaform apply"))
    return "\n".join(
        [head, *(str(each.render(limit=rooms[each.name])) for each in reports if each.name in rooms)]
    )


def stages_to_json(results: Sequence[StageResult]) -> str:
    """Return the stage, the outcome and the result of each cluster as JSON."""
    clusters = {
        each.cluster: {
            "stage": each.stage,
            "outcome": each.outcome.name.lower(),
            "error": each.error or None,
            "result": None if each.report is None else json.loads(apply_to_json(each.report)),
        }
        for each in results
    }
    return json.dumps({"clusters": clusters}, indent=2)


def _build_stages(results: Sequence[StageResult], see: str) -> ReportDocument:
    """Return the table; `see` is where the errors are, empty if they are in the table."""
    rows: list[Row] = []
    for each in results:
        words = each.outcome.value
        if each.outcome in {StageOutcome.FAILED, StageOutcome.INCOMPLETE} and (detail := see or each.error):
            words += f": {detail}"
        role = _ROLES.get(each.outcome, Role.BAD)
        cluster = TextSpan(each.cluster, Role.NAME)
        rows.append((str(each.stage), cluster, TextSpan(words, role, _MAX_OUTCOME_LENGTH)))
    stopped = [each.stage for each in results if each.outcome not in _ROLES]
    complete = sum(each.outcome is StageOutcome.APPLIED for each in results)
    summary = f"{counted(complete, 'cluster')} of {len(results)} complete."
    if stopped:
        summary += f" Stopped after stage {stopped[0]}: the same command goes on from there."
    columns = [Column("Stage", right=True), Column("Cluster", least=16), Column("Result", least=16)]
    return ReportDocument("", [Table(columns, rows)], summary=summary, indent=0)
