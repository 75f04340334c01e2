#!/bin/sh
# Starts Slurm on all nodes of a run, then the workload on node 0. Called by init as the workload.
#
# The Slurm image is a disk of every node; the run disk has the settings. The controller runs on node 0, slurmd on every node. Daemons keep no
# file of their caller open, as it would wait for them.

tree=/run/belljar/slurm settings=/run/belljar/slurm-settings state=/run/slurm
programs=$tree/usr/lib/belljar/slurm
export SLURM_CONF=$settings/slurm.conf
# A container may have few programs.
job_path=$PATH own=/run/belljar/system
[ ! -d $own ] || PATH=$own/bin:$PATH

fail() {
    echo "belljar: $(hostname): $1" >&2
    exit 125
}

start() {
    "$programs/$@" </dev/null >"$state/$1.out" 2>&1 || fail "cannot start $1: $(tail -n 3 "$state/$1.out" | tr '\n' ' ')"
}

login_environment() {
    echo "export PATH='$job_path'"
    env | grep -E '^(SLURM_CONF|UCX_|OMPI_|PRTE_|FI_|I_MPI_)' | sed "s/=/='/; s/$/'/; s/^/export /"
}

start_node() {
    mkdir -p $tree $state/state $state/spool || fail "cannot make folders in /run"
    mount -t erofs -o ro /dev/vdd $tree || fail "cannot mount /dev/vdd, the disk of Slurm, as erofs"
    cp $settings/munge.key $state/munge.key
    chmod 400 $state/munge.key
    start munged --force --key-file=$state/munge.key --socket=$state/munge.socket --pid-file=$state/munged.pid \
        --log-file=$state/munged.log --seed-file=$state/munge.seed
    # Jobs with --export=NONE have the environment of a login shell.
    [ -e /root/.profile ] || login_environment >/root/.profile
    if [ "$1" = node0 ]; then start slurmctld -c -f $SLURM_CONF; fi
    start slurmd -f $SLURM_CONF -N "$1" -d $programs/slurmstepd
    # For shells that do not have the workload's PATH; only the root file system of a container can be written.
    if [ -d $own ]; then
        mkdir -p /usr/local/bin
        ln -sf $programs/* /usr/local/bin
        # By which slurmd finds the user's environment for --export=NONE.
        [ -e /bin/su ] || ln -s $own/busybox /bin/su
    fi
}

if [ "${1:-}" = node ]; then
    start_node "$2"
    exit
fi

rsh=$(command -v belljar-rsh)
others= node=1
while [ "$node" -lt "$BELLJAR_NODES" ]; do
    PATH=$job_path $rsh node$node $settings/start node node$node &
    others="$others $!"
    node=$((node + 1))
done
start_node node0
for process in $others; do
    wait "$process" || exit 125
done
# Nodes are idle once slurmd has registered with the controller.
tries=0
until [ "$($programs/sinfo -h -t idle -o %D 2>/dev/null | head -n 1)" = "$BELLJAR_NODES" ]; do
    tries=$((tries + 1))
    [ "$tries" -lt 240 ] || fail "nodes did not register with slurmctld: $($programs/sinfo -h -o '%T: %N' | tr '\n' ' ')"
    usleep 250000 2>/dev/null || sleep 1
done

# Jobs reach other nodes by Slurm alone, as on a cluster.
unset HYDRA_LAUNCHER HYDRA_LAUNCHER_EXEC HYDRA_HOST_FILE
export USER=root LOGNAME=root SHELL=/bin/sh PATH="$job_path"
exec $settings/command
