"""`kafkaform validate`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kafkaform import rules
from kafkaform.cli.options import (
    SectionedCommand,
    config_option,
    environment_option,
    manifests_option,
    paths_argument,
    require_files,
)
from kafkaform.cli.output import (
    changed_files,
    format_option,
    problems_as_annotations,
    show,
    tell_configuration,
    verbose_option,
)
from kafkaform.cli.session import Session
from kafkaform.cli.terminal import echo_prose
from kafkaform.cli.watching import list_named_files, repeat_on_change
from kafkaform.config.manifests.files import CONFIG_FILE
from kafkaform.config.manifests.loader import Context, InvalidManifests, find_file_problems, parse
from kafkaform.config.settings import DEFAULT_MANIFESTS, Settings, find_settings
from kafkaform.core.errors import InvalidInput, KafkaformError, Problem, UsageError
from kafkaform.core.model import Desired, Diagnostic, Severity
from kafkaform.core.values import Value
from kafkaform.core.wording import counted
from kafkaform.report.diagnostics import count_findings, has_errors
from kafkaform.report.findings import ChangedFiles, ReportedFinding, from_problems, merge_environments
from kafkaform.rules import Note, Rule, plugins
from kafkaform.rules.waivers import find_idle_waivers

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_STAGES = (rules.Stage.MANIFESTS,)


class ValidateOptions(Value):
    """The options of a run."""

    paths: tuple[Path, ...]
    config_file: Path | None
    manifests_from: Path | None
    environment: str | None
    changed_since: str | None
    statistics: bool
    verbose: bool
    output_format: str


class Outcome(Value):
    """The outcome of a run.

    Attributes:
        known: The rules and notes by code.
        resources: The number of declared resources that could be read.
        invalid: The problems of the input; None if there are none.
        unknown: The error of an unknown environment; None without one.
    """

    settings: Settings
    known: Mapping[str, Rule | Note]
    resources: int
    findings: tuple[ReportedFinding, ...]
    invalid: InvalidInput | None
    unknown: UsageError | None


@click.command(cls=SectionedCommand)
@paths_argument
@config_option
@manifests_option
@environment_option
@click.option(
    "--changed-since",
    metavar="REF",
    help="List findings in files that this branch changes since REF, its target, first; only count "
    "other warnings and infos.",
)
@click.option("--statistics", is_flag=True, help="Count the findings of each rule instead of listing them.")
@click.option("--watch", is_flag=True, help="Validate again whenever a file changes, until Ctrl-C.")
@verbose_option
@format_option("findings", "github is for annotations on a pull request, sarif for scanners.")
def validate(paths: tuple[Path, ...], watch: bool, **given: Any) -> int:
    """Check manifests and configuration, without a cluster.

    PATHs are manifests or folders of manifests, or - for standard input; the default is `manifests:` of
    kafkaform.yaml, or topics/. Without --environment, all environments of kafkaform.yaml are checked.
    """
    options = ValidateOptions(paths, **given)
    if options.statistics and options.output_format not in {"text", "json"}:
        raise UsageError(
            f"--statistics has no format {options.output_format}", hint="use --format text or json"
        )
    if not watch:
        return _validate(options)
    require_files(paths, "--watch reads its files again")
    if options.output_format != "text":
        raise UsageError("--watch prints text alone", hint="leave out --format")
    return repeat_on_change(partial(_validate, options), partial(_list_watched, options))


def _list_watched(options: ValidateOptions) -> Iterator[Path]:
    """Yield the files and folders that a run reads."""
    manifests: Sequence[Path] = options.paths
    try:
        settings = _read_settings(options.config_file, options.paths, options.manifests_from)
    except KafkaformError as error:
        yield options.config_file or Path(CONFIG_FILE)
        if isinstance(error, InvalidInput):
            yield from (Path(each.location.file) for each in error.problems if each.location is not None)
        manifests = manifests or [Path(name) for name in DEFAULT_MANIFESTS]
    else:
        files = (settings.file, settings.profile_file)
        yield from (Path(file) for file in files if isinstance(file, str | Path))
        manifests = manifests or settings.manifests
    yield from manifests
    yield from list_named_files(manifests)


def _validate(options: ValidateOptions) -> int:
    """Validate once; returns the exit code."""
    paths, environment, output_format = options.paths, options.environment, options.output_format
    with problems_as_annotations(output_format):
        try:
            settings = _read_settings(options.config_file, paths, options.manifests_from)
            if output_format == "text":
                tell_configuration(settings)
            plugins.load()
            unknown = _unknown_environment(settings, environment)
            subset = Session(settings, None, environment).is_subset(paths, ())
            known = rules.list_entries() | {policy.code: policy for policy in settings.policies}
            known_environment = environment is not None and unknown is None
            # An unknown environment is an error, but the manifests are still checked, so that one run shows
            # all errors.
            invalid: InvalidInput | None = None
            unread = False
            try:
                scopes = (environment,) if known_environment else None
                contexts = settings.build_contexts(scopes, ())
                parsed = parse(paths or settings.manifests, contexts[0])
                contexts = settings.build_contexts(scopes, parsed.scopes)
                loaded = parsed.resolve(contexts)
            except InvalidManifests as error:
                # Manifests without problems are checked by the rules, although others are invalid.
                loaded, unread = error.readable, error.unread
                extra = [] if unknown is None else [Problem(unknown.message, None, unknown.hint)]
                invalid = InvalidInput([*extra, *error.problems])
        except InvalidInput as error:
            if output_format == "json":
                _show(from_problems(error.problems), "json", {}, None)
                return 1
            raise
    declared = [*zip(contexts, loaded, strict=True)]
    findings = _check(declared, settings, known, subset=subset, unread=unread)
    outcome = Outcome(settings, known, len(loaded[0]), tuple(findings), invalid, unknown)
    if options.statistics:
        _show_statistics(outcome, options)
    else:
        _show_findings(outcome, options)
    if output_format in {"text", "github"}:
        click.echo(_summary(outcome.resources, findings) if invalid is None else invalid.message)
    return int(invalid is not None or has_errors(findings))


def _show_statistics(outcome: Outcome, options: ValidateOptions) -> None:
    """Print the number of findings of each rule, and of problems of the input."""
    problems = from_problems(outcome.invalid.problems) if outcome.invalid is not None else []
    show("statistics", options.output_format, [*problems, *outcome.findings], known=outcome.known)
    if outcome.unknown is not None:
        raise outcome.unknown


def _show_findings(outcome: Outcome, options: ValidateOptions) -> None:
    """Print the findings; those of other files are only counted with --changed-since."""
    output_format, invalid = options.output_format, outcome.invalid
    # On a terminal, the problems come last: they are the error of the command.
    is_text = output_format == "text"
    problems = [] if invalid is None or is_text else from_problems(invalid.problems)
    changed = changed_files(outcome.settings, options.paths, options.changed_since)
    listed = [*problems, *outcome.findings]
    inherited = listed[:0]
    if changed is not None:
        # `sort` is stable: within each part, the order of files and lines is kept.
        listed.sort(key=lambda each: not changed.includes(each.diagnostic))
        if output_format in {"text", "github"}:
            inherited = [each for each in listed if not _is_listed(each.diagnostic, changed)]
            listed = [each for each in listed if _is_listed(each.diagnostic, changed)]
    resources = outcome.resources if invalid is None else None
    _show(listed, output_format, outcome.known, resources, verbose=options.verbose)
    if inherited:
        counts = ", ".join(count_findings(inherited))
        echo_prose(
            f"Also {counts} in files that this branch does not change: `kafkaform validate` lists them."
        )
    if invalid is not None and is_text:
        raise invalid
    if outcome.unknown is not None and invalid is None:
        raise outcome.unknown


def _is_listed(finding: Diagnostic, changed: ChangedFiles) -> bool:
    """Return whether a finding is in a file of the branch, or an error."""
    return changed.includes(finding) or (finding.severity is Severity.ERROR and finding.waived is None)


def _read_settings(config_file: Path | None, paths: Sequence[Path], untrusted: Path | None) -> Settings:
    """Return the configuration, or raise its problems with those of the manifests beside it."""
    try:
        settings = find_settings(config_file, untrusted=untrusted)
        return settings if untrusted is None else settings.read_branch_settings(untrusted)
    except InvalidInput as error:
        files = [problem.location.file for problem in error.problems if problem.location is not None]
        folder = untrusted or Path(*files[:1]).parent
        # The `manifests:` of a configuration that cannot be read are unknown, so the default folders are
        # checked.
        default_folders = [folder / name for name in DEFAULT_MANIFESTS if (folder / name).is_dir()]
        raise InvalidInput([*error.problems, *find_file_problems(paths or default_folders)]) from error


def _unknown_environment(settings: Settings, name: str | None) -> UsageError | None:
    """Return the error of an unknown environment: the manifests are then checked in all environments."""
    try:
        settings.check_environment(name)
    except UsageError as error:
        return error
    return None


def _check(
    declared: Sequence[tuple[Context, Sequence[Desired]]],
    settings: Settings,
    known: Mapping[str, Rule | Note],
    *,
    subset: bool,
    unread: bool,
) -> list[ReportedFinding]:
    """Check the declared resources of each environment, and of each cluster with overrides, by the rules."""
    findings: dict[str | None, list[Diagnostic]] = {}
    idle: list[dict[Diagnostic, None]] = []
    for loaded, desired in declared:
        context = settings.build_rule_context(
            tuple(desired), loaded.environment, subset=subset, unread=unread, cluster=loaded.cluster
        )
        diagnostics = list(rules.check(context, settings.rules, _STAGES, more=settings.policies))
        findings[loaded.cluster or loaded.environment] = diagnostics
        idle.append(dict.fromkeys(find_idle_waivers(context, diagnostics, settings.rules, _STAGES, known)))
    # A waiver is used if it is used in one environment.
    unused = [waiver for waiver in idle[0] if all(waiver in waivers for waivers in idle)]
    return merge_environments({environment: [*own, *unused] for environment, own in findings.items()})


def _show(
    found: Sequence[ReportedFinding],
    output_format: str,
    known: Mapping[str, Rule | Note],
    resources: int | None,
    *,
    verbose: bool = False,
) -> None:
    """Print the findings; `resources` is None where the files could not be read as manifests."""
    show("findings", output_format, found, known=known, about={"resources": resources}, verbose=verbose)


def _summary(resources: int, found: Sequence[ReportedFinding]) -> str:
    parts = count_findings(found)
    if not has_errors(found):
        parts.insert(0, "valid")
    return f"{counted(resources, 'resource')}: {', '.join(parts)}."
