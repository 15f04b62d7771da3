#!/bin/bash
# The harness within its allocation: slurm_job.sh requeue|once RESULTS N CASE_ID... COMMAND...
# All that varies comes as arguments and stays a word; an array element runs its own case into a folder of its own.
turn=$1 results=$2 count=$3
shift 3
cases=("${@:1:count}")
shift "$count"
if [ "$count" -gt 0 ]; then
    set -- "$@" --results "$results/element$SLURM_ARRAY_TASK_ID" --only "id=${cases[$SLURM_ARRAY_TASK_ID]}"
else
    set -- "$@" --results "$results"
fi
again=()
if [ "${SLURM_RESTART_COUNT:-0}" -gt 0 ]; then
    again=(--resume)
fi

warned=no
attend() {
    "$@" &
    harness=$!
    trap 'warned=yes; kill -USR1 "$harness"' USR1
    trap 'kill -TERM "$harness"' TERM
    wait "$harness"
    code=$?
    while kill -0 "$harness" 2>/dev/null; do # a signal ended the wait, not the harness
        wait "$harness"
        code=$?
    done
}

attend "$@" "${again[@]}"
if [ "$code" -eq 2 ] && [ "${#again[@]}" -gt 0 ]; then
    attend "$@" # the turn before this one ended before it had begun
fi
if [ "$warned" = yes ] && [ "$turn" = requeue ] && [ "$code" -eq 3 ]; then
    scontrol requeue "$SLURM_JOB_ID"
fi
exit "$code"
