# Runs as mmdebstrap's extract hook, outside the chroot; $1 is the chroot. Builds what is ours inside the
# chroot, and notes what dpkg knows of every package.
set -eu
root=$1
work=$root/belljar
notes=$work/notes
mkdir -p "$notes/md5sums" "$notes/files" "$work/src"
export APT_CONFIG="$MMDEBSTRAP_APT_CONFIG"

names=
for deb in "$root"/var/cache/apt/archives/*.deb; do
    name=$(dpkg-deb --show --showformat='${Package}' "$deb")
    if [ -f "$notes/md5sums/$name" ]; then
        echo "the mirror has another version of $name than when the build began; build again" >&2
        exit 1
    fi
    dpkg-deb --show --showformat='${Package}\t${Version}\t${Architecture}\t' "$deb" >>"$notes/packages"
    sha256sum "$deb" | cut -d ' ' -f 1 >>"$notes/packages"
    names="$names $name=$(dpkg-deb --show --showformat='${Version}' "$deb")"
    rm -rf "$work/control"
    dpkg-deb --control "$deb" "$work/control"
    if [ -f "$work/control/md5sums" ]; then
        cat "$work/control/md5sums" >"$notes/md5sums/$name"
    else
        : >"$notes/md5sums/$name"
    fi
    # md5sums leaves configuration files out: dpkg takes their sums when it installs them.
    if [ -f "$work/control/conffiles" ]; then
        while read -r file; do
            case $file in
            /*)
                sum=$(dpkg-deb --fsys-tarfile "$deb" | tar -xO ".$file" | md5sum | cut -d ' ' -f 1)
                echo "$sum  ${file#/}" >>"$notes/md5sums/$name"
                ;;
            esac
        done <"$work/control/conffiles"
    fi
    if grep -qxF "$name" "$work/in/whole"; then
        dpkg-deb --fsys-tarfile "$deb" | tar -t >"$notes/files/$name"
    fi
done
apt-cache show $names >"$notes/apt-cache"
# Unpacked they are in the chroot already, and its disk may be short.
rm -f "$root"/var/cache/apt/archives/*.deb

while read -r package; do
    mv "$work/in/src/$package" "$work/src/$package"
    (cd "$work/src/$package" && sha256sum -- *.tar.* >"$notes/source-$package")
done <"$work/in/sources"

PATH=/usr/sbin:/usr/bin:/sbin:/bin chroot "$root" /bin/sh -eu /belljar/in/build.sh

# The image needs none of these, and the archive of the chroot is read several times.
while read -r folder; do
    rm -rf "${root:?}$folder"
done <"$work/in/dropped"
rm -rf "$work/in" "$work/src" "$work/control"
