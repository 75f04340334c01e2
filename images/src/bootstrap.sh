# Runs as mmdebstrap's extract hook, outside the chroot; $1 is the chroot. Fetches the source
# packages, builds what is ours inside the chroot, and notes what dpkg knows of every package.
set -eu
root=$1
work=$root/belljar
notes=$work/notes
mkdir -p "$notes/md5sums" "$work/src"
export APT_CONFIG="$MMDEBSTRAP_APT_CONFIG"

names=
for deb in "$root"/var/cache/apt/archives/*.deb; do
    name=$(dpkg-deb --show --showformat='${Package}' "$deb")
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
done
apt-cache show $names >"$notes/apt-cache"

while read -r package; do
    mkdir -p "$work/src/$package"
    # Upstream's archive alone: what Debian adds to it is how to make packages of it.
    (cd "$work/src/$package" && apt-get -qq -o APT::Sandbox::User=root source --download-only --tar-only "$package" &&
        sha256sum -- *.tar.* >"$notes/source-$package")
done <"$work/in/sources"

PATH=/usr/sbin:/usr/bin:/sbin:/bin chroot "$root" /bin/sh -eu /belljar/in/build.sh

# The image needs none of these, and the archive of the chroot is read several times.
rm -rf "$root"/var/cache/apt/archives/*.deb "$root"/usr/share/doc "$root"/usr/share/man \
    "$root"/usr/share/locale "$root"/usr/include "$root"/usr/lib/gcc "$root"/usr/share/perl "$work/src" "$work/control"
