"""The settings as text, in the formats that applications read."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from kafkaform.config.client_config.librdkafka import librdkafka_settings
from kafkaform.config.client_config.settings import APPLICATION_ID, java_settings
from kafkaform.core.errors import KafkaformError
from kafkaform.core.spelling import quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from kafkaform.core.model import Desired


def render(group: Desired, output_format: str, without: Collection[str] = ()) -> str:
    """The client settings of a declared group as text; it ends with a newline.

    Args:
        group: A declared group.
        output_format: One of FORMATS; `librdkafka` has that client's names, all others the Java client's.
        without: Settings to leave out, by the Java client's names.

    Raises:
        InvalidInput: The client would refuse what is declared.
        KafkaformError: The format has no way to write a value.
    """
    of_client = librdkafka_settings if output_format == "librdkafka" else java_settings
    return FORMATS[output_format](of_client(group, without))


def _properties(settings: Mapping[str, str]) -> str:
    """A Java properties file: escaped, and without the time of writing."""
    import javaproperties

    return str(javaproperties.dumps(settings, timestamp=None))


def _json(settings: Mapping[str, str]) -> str:
    """One object; all values are texts, which Kafka's clients parse themselves."""
    return json.dumps(settings, indent=2, ensure_ascii=False) + "\n"


def _yaml(settings: Mapping[str, str]) -> str:
    """One mapping; all values are texts."""
    import yaml

    return yaml.safe_dump(dict(settings), sort_keys=False, allow_unicode=True, width=2**31)


def _env(settings: Mapping[str, str]) -> str:
    """Variables as container images take them: KAFKA_CONSUMER_, and the name in capitals with underscores.

    KAFKA_STREAMS_ for an application of Kafka Streams. The lines are those of `docker run --env-file` and
    `kubectl create configmap --from-env-file`, which take everything after the first = as it stands: no
    quotes, and no shell.
    """
    prefix = "KAFKA_STREAMS_" if APPLICATION_ID in settings else "KAFKA_CONSUMER_"
    return _lines({prefix + name.upper().replace(".", "_"): value for name, value in settings.items()})


def _lines(settings: Mapping[str, str]) -> str:
    """`name=value` lines, which know no escapes."""
    for name, value in settings.items():
        if value.splitlines() not in ([value], []):
            raise KafkaformError(
                f"{name}: {quoted(value)} does not fit into one line", hint="use --format json or yaml"
            )
    return "".join(f"{name}={value}\n" for name, value in settings.items())


FORMATS: Mapping[str, Callable[[Mapping[str, str]], str]] = {
    "properties": _properties,
    "json": _json,
    "yaml": _yaml,
    "env": _env,
    "librdkafka": _lines,
}
"""The formats by name."""
