#!/bin/sh
# ssh, as scripts and launchers call it, for the nodes of a run: runs a command on another node by belljar-rsh, in
# this folder and environment. Options that have no meaning here are passed over.

while [ $# -gt 0 ]; do
    case $1 in
    -[bBcDeEFIiJlLmOopQRSWw]) [ $# -gt 1 ] && shift ;;
    -*) ;;
    *) break ;;
    esac
    shift
done
if [ $# -lt 2 ]; then
    echo "ssh: there is no terminal to give to a shell; write for example: ssh node1 hostname" >&2
    exit 255
fi
host=${1#*@}
shift
rsh=/run/belljar/system/bin/belljar-rsh
if [ ! -x $rsh ]; then rsh=belljar-rsh; fi
exec $rsh "$host" "$@"
