"""The client settings of a declared group, for its application."""

from kafkaform.config.client_config.formats import FORMATS, render
from kafkaform.config.client_config.librdkafka import librdkafka_settings
from kafkaform.config.client_config.settings import java_settings

__all__ = ["FORMATS", "java_settings", "librdkafka_settings", "render"]
