"""Examples of each command, which its help begins with."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

EXAMPLES: Mapping[str, Sequence[str]] = {
    "init": ("init my-repository", "init --schemas"),
    "new": (
        "new topic orders.refunds.v1",
        "new topic orders.v2 --succeeds orders.v1",
        "new access refunds --reads orders.v1 --writes orders.refunds.v1",
    ),
    "validate": ("validate", "validate topics/orders.yaml", "validate --statistics", "validate --watch"),
    "plan": ("plan", "plan --cluster prod --out plan.json", "plan --changed-since main"),
    "show": ("show plan.json", "show plan.json --format markdown"),
    "apply": ("apply", "apply plan.json", "apply --allow Topic/orders.v1:retention-cut"),
    "agent": ("agent --repository git@example.com:kafka.git --verify-key key.pem",),
    "drift": ("drift", "drift --adopt --target 'Topic/orders.*'"),
    "import": ("import --match 'orders.*'", "import --from strimzi kafka-topics.yaml"),
    "history": ("history", "history Topic/orders.v1"),
    "revert": ("revert 1ngka4tt7vj.2 --dry-run", "revert 1ngka4tt7vj.2"),
    "compare": ("compare staging prod", "compare staging prod --environments"),
    "ci comment": (
        "ci comment plan.md --pull-request 7 --id plan-prod",
        "ci comment plan.md --forge gitlab --merge-request 7 --id plan-prod",
    ),
    "ci issue": (
        "ci issue drift.md --id drift-prod --title 'Drift of prod'",
        "ci issue --id drift-prod --close",
    ),
    "ci reviewed-plan": ('ci reviewed-plan --commit "$SHA" --artifact plan -o plan.json',),
    "reset": (
        "reset billing --to earliest --out reset.json",
        "reset billing --to 2026-11-01T00:00:00Z --topic orders.v1",
        "apply reset.json",
    ),
    "rebalance": ("rebalance --out moves.json", "rebalance --remove-broker 3 --out moves.json"),
    "status": ("status", "status 'orders.*'", "status --kind group"),
    "explain": ("explain Topic.spec.retention", "explain Topic/orders.v1 --cluster prod"),
    "get": ("get topics", "get topic orders.v1"),
    "can": (
        "can User:checkout write orders.v1",
        "can User:checkout read ConsumerGroup/billing",
        "can anyone read orders.v1",
    ),
    "graph": ("graph --format mermaid", "graph --live"),
    "client-config": ("client-config billing", "client-config billing --format env"),
    "doctor": ("doctor", "doctor --wait 10m"),
    "succession": ("succession", "succession orders.v2 --format json"),
    "skew": ("skew orders.v1 --cluster prod", "skew orders.v1 --what-if 24 --out skew.html --out skew.json"),
    "arrivals": ("arrivals", "arrivals 'orders.*' --since 24h"),
    "rules": ("rules", "rules KF109"),
    "dev up": ("dev up", "dev up --brokers 3 --kafka-version 3.9", "dev up --registry"),
    "dev down": ("dev down", "dev down --wipe"),
    "dev status": ("dev status",),
    "dev logs": ("dev logs --follow",),
    "dev run": ("dev run -- kafkaform apply --auto-approve",),
    "completion": ("completion bash", "completion zsh"),
    "help": ("help plan", "help connection"),
}
"""Command lines by the name of the command, without `kafkaform`."""
