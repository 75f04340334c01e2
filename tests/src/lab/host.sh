# The first process of a host in a lab: `host.sh NAME ADDRESS FOLDER ROLE`.
set -e
name=$1 address=$2 folder=$3 role=$4
read -r process rest </proc/self/stat
hostname "$name"
mount -t proc proc /proc
mount -t tmpfs tmpfs /run
mkdir -p /run/munge /run/sshd /run/slurmd /run/slurmctld
mount --bind "$folder/hosts" /etc/hosts
mount --bind "$folder/$name/passwd" /etc/passwd
mount --bind "$folder/slurm" /etc/slurm
ip link set lo up
echo "$process"
# Until the link is plugged in.
read -r line
ip address add "$address/24" dev eth0
ip link set eth0 up
cd "$folder/$name"
munged --force --key-file="$folder/munge.key" --log-file="$folder/$name/munged.log" \
    --seed-file=/run/munge/seed --pid-file=/run/munge/munged.pid
/usr/sbin/sshd -f "$folder/sshd_config" -h "$folder/$name/host_key" -E "$folder/$name/sshd.log"
case $role in
    head) slurmctld ;;
    host) slurmd ;;
esac
echo up
# Takes in processes that lost their parents.
while :; do sleep 0.2; done
