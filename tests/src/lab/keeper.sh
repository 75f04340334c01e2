# The first process of a lab: all others are in its process namespace and go with it.
# It has the switch that the hosts' links meet in, and no way out.
set -e
ip link add br0 type bridge
ip link set br0 up
# /proc is still the one of whoever started this, and so is the process id in it.
read -r process rest </proc/self/stat
echo "$process"
# Until whoever started it is gone.
while read -r line; do :; done
