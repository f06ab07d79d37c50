"""The login of a Java properties file: `sasl.jaas.config` and what belongs to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaform.config.client_properties.jaas import LoginModule, MalformedJaas, parse_jaas
from kafkaform.config.client_properties.java import (
    KERBEROS_MODULE,
    OAUTH_HANDLER,
    OAUTH_MODULE,
    PLAIN_MODULE,
    SCRAM_MODULE,
)
from kafkaform.config.client_properties.java_stores import Outcome, truststore

if TYPE_CHECKING:
    from collections.abc import Mapping

_OLD_OAUTH_HANDLER = OAUTH_HANDLER.replace("oauthbearer.", "oauthbearer.secured.")


def login(written: Mapping[str, str]) -> Outcome:
    """Translate `sasl.jaas.config` and what belongs to it."""
    outcome = Outcome()
    handler = written.get("sasl.login.callback.handler.class", "").strip()
    if handler and handler not in (OAUTH_HANDLER, _OLD_OAUTH_HANDLER):
        outcome.refuse(
            "sasl.login.callback.handler.class",
            f"sasl.login.callback.handler.class {handler} is Java code that kafkaform cannot run",
            "use SCRAM, or OAUTHBEARER with client credentials",
        )
    if not written.get("security.protocol", "").strip().upper().startswith("SASL_"):
        return outcome
    mechanism = written.get("sasl.mechanism", "").strip().upper()
    if not mechanism:
        outcome.add("sasl.mechanism", "GSSAPI", "security.protocol")  # Java's default
    elif mechanism == "OAUTHBEARER":
        outcome.add("sasl.oauthbearer.method", "oidc", "sasl.mechanism")
    jaas = written.get("sasl.jaas.config")
    if jaas is None:
        return outcome
    try:
        module = parse_jaas(jaas)
    except MalformedJaas as error:
        hint = 'one module: org.apache.kafka.… required username="…" password="…";'
        outcome.refuse("sasl.jaas.config", f"sasl.jaas.config cannot be read: {error}", hint)
        return outcome
    _login_module(module, outcome)
    return outcome


def _login_module(module: LoginModule, outcome: Outcome) -> None:
    source = "sasl.jaas.config"
    options = module.options
    taken: dict[str, str]
    match module.name:
        case _ if module.name in (PLAIN_MODULE, SCRAM_MODULE):
            taken = {"username": "sasl.username", "password": "sasl.password"}
            if options.get("tokenauth", "false").strip().lower() == "true":
                said = "sasl.jaas.config: tokenauth (delegation tokens) is not supported by librdkafka"
                outcome.refuse(source, said, "use a SCRAM account of its own")
            options = {name: value for name, value in options.items() if name != "tokenauth"}
        case _ if module.name == OAUTH_MODULE:
            taken = {
                "clientId": "sasl.oauthbearer.client.id",
                "clientSecret": "sasl.oauthbearer.client.secret",
                "scope": "sasl.oauthbearer.scope",
            }
            options = _oauth_options(options, outcome)
        case _ if module.name == KERBEROS_MODULE:
            taken = {
                "keyTab": "sasl.kerberos.keytab",
                "principal": "sasl.kerberos.principal",
                "serviceName": "sasl.kerberos.service.name",
            }
            harmless = (
                "useKeyTab",
                "storeKey",
                "useTicketCache",
                "renewTicket",
                "doNotPrompt",
                "refreshKrb5Config",
            )
            options = {name: value for name, value in options.items() if name not in harmless}
        case _:
            said = f"sasl.jaas.config: the login module {module.name} is Java code that kafkaform cannot run"
            outcome.refuse(source, said, "use PLAIN, SCRAM, OAUTHBEARER or Kerberos")
            return
    for name, value in options.items():
        if name in taken:
            outcome.add(taken[name], value, source)
        else:
            said = f"sasl.jaas.config: the option {name} has no counterpart here"
            outcome.refuse(source, said, f"known options: {', '.join(taken)}")


def _oauth_options(options: Mapping[str, str], outcome: Outcome) -> dict[str, str]:
    """Take the options that are not one property each; give back the rest."""
    rest: dict[str, str] = {}
    extensions: list[str] = []
    tls_options: dict[str, str] = {}
    for name, value in options.items():
        if name.startswith("extension_"):
            extensions.append(f"{name.removeprefix('extension_')}={value}")
        elif name.startswith("ssl.truststore."):
            tls_options[name] = value
        else:
            rest[name] = value
    if extensions:
        outcome.add("sasl.oauthbearer.extensions", ",".join(extensions), "sasl.jaas.config")
    truststore(tls_options, outcome, "https.ca", source="sasl.jaas.config")
    return rest
