#!/bin/sh
# mpirun for images that have MPICH's launcher under another name alone. Debian's package mpich has both.
exec mpiexec.hydra "$@"
