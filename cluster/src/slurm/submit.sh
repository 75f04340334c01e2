#!/bin/sh
# Submits a batch script, waits for its end and writes the output files of the job.
#
#   submit [OPTION...] SCRIPT [ARGUMENT...]
#
# Options and the exit code are those of sbatch. Files of several tasks or components are written one after the other, each after a line with its
# name.

jobs=$(sbatch --parsable --wait "$@")
code=$?
[ -n "$jobs" ] || exit $code
job=${jobs%%;*}

# Paths of KEY in the records of all tasks and components of the job.
paths() {
    scontrol show job --oneliner "$job" | sed -n "s/.* $1=\([^ ]*\).*/\1/p" | sort -u
}

outputs=$(paths StdOut) errors=$(paths StdErr)
several=$(echo "$outputs" | wc -l)
echo "$outputs" | while read -r path; do
    [ "$several" -eq 1 ] || echo "==> $path <=="
    [ ! -f "$path" ] || cat "$path"
done
echo "$errors" | while read -r path; do
    echo "$outputs" | grep -qxF -- "$path" || [ ! -f "$path" ] || cat "$path" >&2
done
scontrol show job --oneliner "$job" | sed -n 's/.*JobId=\([^ ]*\).*JobState=\([^ ]*\) Reason=\([^ ]*\).*/\1 \2 \3/p' |
    while read -r id ended reason; do
        [ "$ended" = COMPLETED ] || echo "slurm: job $id ended as $ended, reason $reason" >&2
    done
exit $code
