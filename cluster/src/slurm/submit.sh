#!/bin/sh
# Submits a batch script, waits for its end and writes the output files of the job.
#
#   submit [OPTION...] SCRIPT [ARGUMENT...]
#
# Options and the exit code are those of sbatch. Files of several tasks or components are written one after the other, each after a line with its
# name. They lie on the node on which the script ran.

jobs=$(sbatch --parsable --wait "$@")
code=$?
[ -n "$jobs" ] || exit $code
job=${jobs%%;*}
# A container may have few programs.
[ ! -d /run/belljar/system ] || PATH=/run/belljar/system/bin:$PATH
rsh=$(command -v belljar-rsh)

# Node and path of KEY in the records of all tasks and components of the job.
paths() {
    scontrol show job --oneliner "$job" | sed -n "s/.* BatchHost=\([^ ]*\) .* $1=\([^ ]*\).*/\1 \2/p" | sort -u
}

# Writes file $2 of node $1, after a line with its name where there are several.
show() {
    read="[ ! -f '$2' ] || { $3 cat '$2'; }"
    case $1 in
    node0) eval "$read" ;;
    *) $rsh "$1" "$read" ;;
    esac
}

outputs=$(paths StdOut) errors=$(paths StdErr)
several=$(echo "$outputs" | wc -l)
echo "$outputs" | while read -r node path; do
    heading=
    [ "$several" -eq 1 ] || heading="echo '==> $path <==';"
    show "$node" "$path" "$heading" </dev/null
done
echo "$errors" | while read -r node path; do
    echo "$outputs" | grep -qxF -- "$node $path" || show "$node" "$path" "" </dev/null >&2
done
scontrol show job --oneliner "$job" | sed -n 's/^JobId=\([^ ]*\) .*JobState=\([^ ]*\) Reason=\([^ ]*\).*/\1 \2 \3/p' |
    while read -r id ended reason; do
        [ "$ended" = COMPLETED ] || echo "slurm: job $id ended as $ended, reason $reason" >&2
    done
exit $code
