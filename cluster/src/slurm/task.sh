#!/bin/sh
# Brings the files of a task's standard output and error to the node that started the step, for paths that nodes do not share. Slurm calls it on the node of the
# task: `begin` is its TaskProlog, `end` its TaskEpilog, which ends before the step does.

# Slurm 22.05 leaves this variable of prologs in the task's environment, where it tells tracers that the process is not a task.
[ "${0##*/}" != begin ] || echo "unset SLURM_SCRIPT_CONTEXT"
# A container may have few programs.
[ ! -d /run/belljar/system ] || PATH=/run/belljar/system/bin:$PATH
list=/run/slurm/task.$SLURM_JOB_ID.$SLURM_STEP_ID.$SLURM_PROCID
starter=$(sed -n "s/^$SLURM_LAUNCH_NODE_IPADDR //p" /etc/hosts)
[ -n "$starter" ] && [ "$starter" != "$SLURMD_NODENAME" ] || exit 0
rsh=$(command -v belljar-rsh)

bring() {
    [ -f "$1" ] || return
    path=$(printf '%s' "$1" | sed "s/'/'\\\\\\\\''/g")
    $rsh "$starter" "$rsh $SLURMD_NODENAME cat \"'$path'\" >'$path'"
}

case ${0##*/} in
begin)
    # Of the process that becomes the task.
    for file in 1 2; do readlink "/proc/$PPID/fd/$file"; done | sort -u >"$list"
    ;;
end)
    while read -r path; do
        case $path in
        /dev/*) ;;
        /root/*) [ -e /run/belljar/shared-folder/start ] || bring "$path" ;;
        /*) bring "$path" ;;
        esac
    done <"$list"
    rm -f "$list"
    ;;
esac
