#!/bin/sh
# Shares /root of node 0 with all nodes. Called on node 0 before the workload; calls itself on the other nodes.
#
#   start              shares the folder, on node 0
#   start load         loads the client's modules, on another node
#   start mount NAME   mounts the folder there; NAME is the node's own
#
# nfsd has no daemons beside it: the kernel's caches of clients and exports are filled here, once.

folder=/run/belljar/shared-folder own=/run/belljar/system
start_path=$PATH
# A container may have few programs.
[ ! -d $own ] || PATH=$own/bin:$PATH
server_address=$(sed -n 's/ node0$//p' /etc/hosts)
# Never expires; the largest time that a cache accepts.
never=2147483647
# In include/uapi/linux/nfsd/export.h: FSID, NOSUBTREECHECK, ASYNC, INSECURE_PORT.
flags=$((0x2000 | 0x0400 | 0x0010 | 0x0002))
nobody=65534

fail() {
    echo "belljar: $(hostname): $1" >&2
    exit 125
}

# Loads the modules of list $1. Those that are there already stay.
load() {
    while read -r module; do
        name=${module%%.ko*}
        [ -d "/sys/module/$(echo "$name" | tr - _)" ] || insmod "$folder/$module" || fail "cannot load $module for the shared folder"
    done <"$folder/$1"
}

# NFS exports tmpfs. A container's /root is part of an overlay, which it does not export: its files are copied. Large files stay on
# their disk, in an overlay that can be exported.
prepare_root() {
    large=$(sed -n 's|^overlay /root overlay .*lowerdir=\(/run/belljar/large\):.*|\1|p' /proc/mounts)
    [ -z "$large" ] || umount /root || fail "cannot unmount /root"
    case $(stat -f -c %T /root) in
    tmpfs) ;;
    *)
        mkdir -p $folder/root
        mount -t tmpfs -o mode="$(stat -c %a /root)" tmpfs $folder/root || fail "cannot mount a file system in memory"
        cp -a /root/. $folder/root/ || fail "cannot copy /root"
        mount -o bind $folder/root /root || fail "cannot mount the copy of /root"
        ;;
    esac
    if [ -n "$large" ]; then
        over=/run/belljar/over
        mount -t overlay -o lowerdir=$large:/root,upperdir=$over/files,workdir=$over/work,index=on,nfs_export=on overlay /root ||
            fail "cannot mount /root so that NFS can export it"
    fi
}

serve() {
    load server
    mount -t nfsd nfsd /proc/fs/nfsd || fail "cannot mount the control files of nfsd"
    # The kernel keeps its records of clients here.
    mkdir -p /var/lib/nfs/v4recovery
    while read -r address name; do
        case $name in
        node0 | localhost) ;;
        *) echo "nfsd $address $never nodes" >/proc/net/rpc/auth.unix.ip/channel || fail "cannot permit $name to use the shared folder" ;;
        esac
    done </etc/hosts
    echo "nodes 1 \\x00000000 $never /root" >/proc/net/rpc/nfsd.fh/channel || fail "cannot name the shared folder"
    echo "nodes /root $never $flags $nobody $nobody 0" >/proc/net/rpc/nfsd.export/channel || fail "cannot export /root"
    echo "-2 -3 +4" >/proc/fs/nfsd/versions
    echo 8 >/proc/fs/nfsd/threads || fail "cannot start nfsd"
    # No client has locks from an earlier start to reclaim.
    echo Y >/proc/fs/nfsd/v4_end_grace || fail "cannot end nfsd's grace period"
}

# Runs this script with these arguments and the node's name on all other nodes at once.
on_others() {
    others= node=1
    while [ "$node" -lt "$BELLJAR_NODES" ]; do
        PATH=$start_path $rsh node$node $folder/start "$1" node$node &
        others="$others $!"
        node=$((node + 1))
    done
}

wait_for_others() {
    for process in $others; do
        wait "$process" || exit 125
    done
}

case ${1:-} in
load)
    load client
    exit
    ;;
mount)
    address=$(sed -n "s/ $2\$//p" /etc/hosts)
    cd / || exit 125
    # Files that others create appear at once, and attributes are valid for a second.
    options=vers=4.2,sec=sys,hard,lookupcache=positive,actimeo=1,addr=$server_address,clientaddr=$address
    mount -i -t nfs4 -o "$options" "$server_address:/" /root || fail "cannot mount /root of node0"
    exit
    ;;
esac
rsh=$(command -v belljar-rsh)
on_others load
prepare_root
serve
wait_for_others
on_others mount
wait_for_others
# Their memory.
rm -f $folder/*.ko*
