"""Where the reports of `kafkaform skew` go: stdout, files, and the folder that keeps them."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

import click

from kafkaform.cli.output import print_text
from kafkaform.cli.terminal import prose_width
from kafkaform.core.files import write_file
from kafkaform.core.printable import printable
from kafkaform.inspect.skew import history

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkaform.cli.skew_options import SkewOptions
    from spark_validation.results import Report


def publish(report: Report, options: SkewOptions) -> None:
    """Print a report, write it into files, and keep it, as asked for.

    What was kept before is read first: a page shows the report beside those.

    Raises:
        KafkaformError: A file cannot be written.
    """
    from spark_validation.document import to_json

    before: Sequence[Report] = ()
    if options.history is not None:
        from kafkaform.plan.skew_report import read_skew_report

        read = partial(read_skew_report, now=datetime.now(UTC), max_age=None)
        found = history.earlier(options.history, report, read)
        for reason in found.damaged:
            click.echo(printable(f"not read: an earlier report: {reason}"), err=True)
        before = found.reports
        history.keep(options.history, report, to_json(report), write_file)
    for form, path in options.artefacts.items():
        write_file(path, rendered(report, form, before))
    if options.out is not None:
        write_file(options.out, rendered(report, options.output_format, before, verbose=options.verbose))
    elif options.output_format == "text":
        from kafkaform.report.skew_text import render_skew

        print_text(render_skew(report, width=prose_width(sys.stdout), verbose=options.verbose))
    else:
        click.echo(rendered(report, options.output_format, before), nl=False)


def rendered(report: Report, form: str, before: Sequence[Report] = (), *, verbose: bool = False) -> str:
    """A report in one format, with a newline at its end."""
    match form:
        case "json":
            from spark_validation.document import to_json

            return to_json(report)
        case "markdown":
            from kafkaform.report.skew_markdown import render_skew_markdown

            return render_skew_markdown(report)
        case "html":
            from kafkaform.report.skew_html import render_skew_html

            return render_skew_html(report, before)
        case _:
            from kafkaform.report.skew_text import render_skew

            return render_skew(report, width=None, verbose=verbose).plain + "\n"
