"""Values that brokers hold for the configs of topics."""

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from kafkaform.core import kafka_configs
from kafkaform.core.config_values import ConfigKey
from kafkaform.core.kafka_configs import ConfigType

DECLARABLE = {
    name: key
    for name, key in kafka_configs.topic_configs().items()
    if not key.internal and name not in kafka_configs.REASSIGNMENT_KEYS
}


def draw_value(key: ConfigKey) -> SearchStrategy[str]:
    """Draw values that brokers hold for a key, in the spelling that somebody happened to use."""
    if key.type is ConfigType.BOOLEAN:
        return st.sampled_from(["true", "false", "TRUE"])
    if key.valid_values:
        members = st.sampled_from(key.valid_values)
        several = st.lists(members, min_size=1, max_size=3).map(" ,".join)
        return several if key.type is ConfigType.LIST else members
    if key.type is ConfigType.DOUBLE:
        return st.floats(0.0, 1.0).map(repr) | st.sampled_from(["0.50", "1", "1e-7", ".5"])
    low, high = key.ranges[-1]
    limits = {ConfigType.LONG: 2**63 - 1, ConfigType.SHORT: 2**15 - 1}
    most = limits.get(key.type, 2**31 - 1) if high is None else int(high)
    least = -most if low is None else int(low)
    round_ones = st.sampled_from([10**6, 86_400_000, 2**30, 3_600_000, most, max(least, -1)])
    return (st.integers(least, most) | round_ones.filter(lambda n: least <= n <= most)).map(str)


CONFIG_VALUES = {
    name: draw_value(key)
    for name, key in DECLARABLE.items()
    if key.ranges or key.valid_values or key.type in {ConfigType.BOOLEAN, ConfigType.DOUBLE}
}
