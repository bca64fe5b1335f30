#!/bin/bash
# Stands in for the entry point of Flink's own image: FLINK_PROPERTIES, and one of jobmanager and taskmanager as argument.
set -e
address=$(hostname -i | cut -d ' ' -f 1)
{
    cat /opt/flink/conf/defaults.yaml
    echo "$FLINK_PROPERTIES"
    echo "rest.address: $address"
    echo "rest.bind-address: 0.0.0.0"
    echo "jobmanager.bind-host: 0.0.0.0"
    echo "taskmanager.bind-host: 0.0.0.0"
    echo "taskmanager.host: $address"
} >/opt/flink/conf/config.yaml
case "$1" in
    jobmanager) main=org.apache.flink.runtime.entrypoint.StandaloneSessionClusterEntrypoint ;;
    taskmanager) main=org.apache.flink.runtime.taskexecutor.TaskManagerRunner ;;
    *) exec "$@" ;;
esac
exec setpriv --reuid=flink --regid=flink --init-groups java -Xmx400m $JVM_OPTIONS -cp "/opt/flink/lib/*" "$main" \
    --configDir /opt/flink/conf
