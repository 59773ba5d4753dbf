#!/bin/sh
# Records the events of a command in a session of LTTng's:
#
#     ./record.sh TRACE COMMAND...
#     ./record.sh trace python -m pyhybrid --mode none --emit lttng --include workload workload.py
#     ./record.sh trace python sysmon_profiler.py
#
# TRACE is a new folder, for babeltrace2, analyze.py and Trace Compass.  A session daemon is started where none runs
# (root records the programs of all users).  CHANNEL= are options of `lttng enable-channel` for its buffers.
set -eu
[ $# -ge 2 ] || {
    sed -n '2,6s/^# \{0,1\}//p' "$0" >&2
    exit 2
}
trace=$1 session=pyhybrid-$$
shift

lttng --quiet create "$session" --output="$trace"
trap 'lttng --quiet destroy "$session"' EXIT
# shellcheck disable=SC2086  # a list of words
lttng --quiet enable-channel --userspace --session="$session" ${CHANNEL:---subbuf-size=1M --num-subbuf=16} calls
lttng --quiet enable-event --userspace --session="$session" --channel=calls 'pyhybrid:*,sysmon:*'
lttng --quiet add-context --userspace --session="$session" --channel=calls --type=vpid --type=vtid --type=procname
lttng --quiet start "$session"

code=0
"$@" || code=$?

lttng --quiet stop "$session"
lttng list "$session" | grep 'Discarded events'
echo "recorded in $trace"
exit $code
