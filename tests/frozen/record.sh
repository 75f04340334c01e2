#!/bin/sh
# Records the pinned runs anew: usage: record.sh BELLJAR [NAME ...]. Needs root, mpicc.mpich and mpicc.openmpi, and builds images.
# Digests change with the recordings: `cargo xtask frozen --write` follows.
set -eu
belljar=$1
shift
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

# Keeps the files of run directory $2 that readers need, as the pinned run $1. The image is one that no host has: readers take the pinned tables.
pin() {
    to=$here/runs/$1
    rm -rf "$to"
    mkdir -p "$to"
    for file in trace.bjt summary.json wire.csv links.csv collected.json import.json probes.bjc; do
        if [ -e "$2/$file" ]; then cp "$2/$file" "$to/"; fi
    done
    if [ -e "$2/scenario.toml" ]; then
        sed 's/^recipe = .*/recipe = "unpinned.toml"/; s/recipe = "[^"]*"/recipe = "unpinned.toml"/' "$2/scenario.toml" >"$to/scenario.toml"
    fi
}

# Compiles program $2 and records it on $3 ranks, as $1, with options of mpirun.
record() {
    name=$1 program=$2 ranks=$3
    shift 3
    wanted "$name" || return 0
    mpicc.mpich -O1 -o "$program" "$here/programs/$program.c" -lpthread
    rm -rf run
    "$belljar" mpirun -q -n "$ranks" --limit '60 s' --out run "$@" "./$program" >log 2>&1 || { cat log >&2; exit 1; }
    pin "$name" run
}

names=" $* "
wanted() { [ "$names" = "  " ] || case $names in *" $1 "*) ;; *) return 1 ;; esac; }

record ring ring 4 --set trace.frames=3 --set trace.messages=true --set network.statistics='"100 us"'
record collectives collectives 4
record allreduce allreduce 5 --topology torus --set network.dimensions=[3,2] --nodes 6
record rma rma 4
record persistent persistent 4
record partitioned partitioned 3
record intercomm intercomm 4
record threads threads 2 --vcpus 2
record farm farm 4
record modes modes 4 --set trace.frames=2
record neighbours neighbours 4
record gather gather 4
record late late 4
record copies copies 2
record any-tag-4 any-tag 4
record any-tag-8 any-tag 8
record halo halo 4
record halo-kept halo 4 --set 'trace.collect="5 iterations"'

if wanted hpl-4; then
    sed 's/^1000 *Ns/96 Ns/; s/^64 *NBs/32 NBs/' "$here/../../scenarios/hpl/HPL.dat" >HPL.dat
    sed "s|N = 1000|N = 96|; s|\.\./images/|$here/../../images/|; s|hpl/HPL.dat|$work/HPL.dat|" "$here/../../scenarios/hpl-4.toml" >hpl.toml
    "$belljar" run -q hpl.toml --out hpl >log 2>&1 || { cat log >&2; exit 1; }
    pin hpl-4 hpl
fi
# Debian's MPICH cannot spawn.
if wanted spawn; then
    mpicc.openmpi -O1 -o spawn "$here/programs/spawn.c"
    sed "s|HERE|$here|" "$here/spawn.toml" >spawn.toml
    "$belljar" run -q spawn.toml --out spawned >log 2>&1 || { cat log >&2; exit 1; }
    pin spawn spawned
fi
# A run by way of another tool's format.
if wanted imported; then
    "$belljar" trace export "$here/runs/modes" --format otf2 --out archive
    "$belljar" -q trace import archive/traces.otf2 --out back >log
    pin imported back
fi
