#!/bin/sh
# Keeps so many TaskManagers running on this machine, for the provider `command` (docs/guide/reactive-mode.md).
#
#   taskmanagers.sh scale DIRECTORY COUNT [ID…]   starts or stops some until there are COUNT; those named go first
#   taskmanagers.sh describe DIRECTORY            writes their count and ids as JSON
#
# START names the program that runs one in the foreground; its only argument is the id that the TaskManager has to take.
# Without it, Flink's own script in FLINK_HOME does. DIRECTORY holds a file per TaskManager with its process id, and one
# with its output. Seconds between SIGTERM and SIGKILL: STOP_TIMEOUT, 30 where it is not set.
set -eu
[ "$#" -ge 2 ] || set -- help ""
action=$1 directory=$2
case $action in
scale | describe) ;;
*)
    sed -n '2,9s/^# \{0,1\}//p' "$0" >&2
    exit 2
    ;;
esac
mkdir -p "$directory"
exec 9>"$directory/lock"
flock 9 # one at a time: a daemon that was killed may have left one behind

# What a process was when it began, in clock ticks since the boot, so that nobody else with its process id is taken for it.
started() {
    stat=$(sed 's/.*) //' "/proc/$1/stat" 2>/dev/null) || return 0
    case $stat in Z*) ;; *) echo "$stat" | cut -d ' ' -f 20 ;; esac
}

is_running() {
    read -r pid since <"$directory/$1.pid" && [ "$(started "$pid")" = "$since" ]
}

ids() {
    for file in "$directory"/*.pid; do
        [ -e "$file" ] || continue
        id=$(basename "$file" .pid)
        if is_running "$id"; then echo "$id"; else rm -f "$file"; fi
    done
}

start() {
    id="$(basename "$directory")-$(date +%s)-$$-$1"
    if [ -n "${START:-}" ]; then
        set -- "$START" "$id"
    else
        set -- "${FLINK_HOME:-/opt/flink}/bin/taskmanager.sh" start-foreground "-Dtaskmanager.resource-id=$id"
    fi
    (
        # A TaskManager gets none of the daemon's secrets.
        for name in $(env | sed -n 's/^\([A-Za-z_][A-Za-z0-9_]*\)=.*/\1/p'); do
            case $name in
            PATH | HOME | USER | LOGNAME | LANG | LC_* | TZ | TMPDIR | JAVA_* | FLINK_* | HADOOP_*) ;;
            *) unset "$name" ;;
            esac
        done
        # It writes its process id down itself, before it is a TaskManager: one that nobody knows could never be stopped.
        # shellcheck disable=SC2016
        exec setsid sh -c 'echo "$$ $(cut -d " " -f 22 /proc/$$/stat)" >"$0"; exec "$@"' "$directory/$id.pid" "$@" \
            </dev/null >"$directory/$id.log" 2>&1 9>&-
    ) &
    until [ -s "$directory/$id.pid" ]; do sleep 0.05; done
}

stop() {
    for id in "$@"; do
        is_running "$id" && kill "$pid" || true
    done
    waited=0
    for id in "$@"; do
        while is_running "$id" && [ "$waited" -lt $((${STOP_TIMEOUT:-30} * 10)) ]; do
            sleep 0.1
            waited=$((waited + 1))
        done
        is_running "$id" && kill -KILL "$pid" || true
        rm -f "$directory/$id.pid"
    done
}

case $action in
describe)
    list=$(ids | sed 's/.*/"&"/' | paste -s -d , -)
    printf '{"running": %s, "canPickVictims": true, "taskManagerIds": [%s]}\n' "$(ids | wc -l)" "$list"
    ;;
scale)
    count=$3
    shift 3
    running=$(ids | wc -l)
    if [ "$running" -gt "$count" ]; then
        # Those to stop first, then the rest, the newest before the older ones; each once.
        # shellcheck disable=SC2046
        stop $({ printf '%s\n' "$@"; ids | sort -r; } | grep -xF "$(ids)" | awk '!seen[$0]++' | head -n $((running - count)))
    fi
    while [ "$running" -lt "$count" ]; do
        running=$((running + 1))
        start "$running"
        has_started=1
    done
    # One that cannot run at all ends at once.
    [ -z "${has_started:-}" ] || sleep 1
    running=$(ids | wc -l)
    if [ "$running" -lt "$count" ]; then
        echo "$running of $count TaskManagers run; the newest output is $(ls -t "$directory"/*.log | head -n 1):" >&2
        tail -n 3 "$(ls -t "$directory"/*.log | head -n 1)" >&2
        exit 1
    fi
    ;;
esac
