"""The options of what knows lag beside Flink: Kafka clusters, and services that answer with a number."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field

from flink_autoscaler.standalone.settings.schema.clusters import AccessSettings
from flink_autoscaler.standalone.settings.schema.types import (
    BaseUrls,
    ClusterName,
    OptionSection,
    PluginName,
    Seconds,
    Text,
    TextMap,
    Texts,
    option,
)


class NumberType(StrEnum):
    """How services are asked."""

    HTTP = "http"
    PROMQL = "promql"


class KafkaSettings(OptionSection):
    """A Kafka cluster that knows how far consumer groups are behind."""

    name: ClusterName = Field(description="Name of the Kafka cluster, unique; job.autoscaler.lag.sources names it.")
    bootstrap_servers: Texts = option((), "host:port of brokers; jobs cannot name others.")
    properties: TextMap = option(
        {}, "Properties of librdkafka, such as security.protocol, sasl.mechanism or ssl.ca.location."
    )
    properties_env: TextMap = option({}, "Name of the environment variable with the value of a property.")
    properties_file: TextMap = option({}, "File whose first line is the value of a property.")
    timeout: Seconds = option(5.0, "Time that one question may take.", gt=0, le=60)


class NumberSettings(AccessSettings):
    """A service that answers with a number: the lag of a job's source, what arrives there, or a least parallelism."""

    name: ClusterName = Field(
        description="Name of the service, unique; lag.sources, arrival-rate.sources and floor.sources of jobs name it."
    )
    type: PluginName = option(
        "http", "http: a JSON document; promql: Prometheus or what speaks like it; or the name of a plug-in."
    )
    url: BaseUrls = option((), "URL of the service; one. Jobs cannot name others.")
    path: Text = option(
        "/", "http: path below the URL, with words such as {job}, {group} or those of job.autoscaler.lag.parameters."
    )
    json_pointer: Text | None = option(None, "http: where the number is, such as /queue/waiting; unset: the document.")
    query: Text | None = option(None, "promql: the query, with the same words inside of its strings; gives one sample.")
    timeout: Seconds = option(5.0, "Time that one request may take.", gt=0, le=60)
    parameters: TextMap = option({}, "Settings of a plug-in of others.")
