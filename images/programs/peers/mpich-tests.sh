# Builds the programs of MPICH's own test suite out of its source package, for MPICH and for Open MPI,
# and the layer that counts their calls; runs in the unpacked folder. FILES is where the recipe's files
# lie, DESTDIR where the result goes: /usr/local/IMPLEMENTATION/FOLDER/PROGRAM, and the suite's own lists
# of what to run in /usr/local/mpich/testlist. A program that cannot be built is left out; the recipe
# names those that must be there. With `only`, those programs are built and nothing else, for
# `implementations`.
mpich="attr coll comm datatype errhan group info init part pt2pt rma topo"
openmpi="attr coll comm datatype group pt2pt topo"
[ -e /usr/bin/awk ] || ln -s mawk /usr/bin/awk
cd test/mpi

for mpi in ${implementations:-mpich openmpi}; do
    to=$DESTDIR/usr/local/$mpi
    eval "parts=\$$mpi"
    mkdir -p "$to/lib" "of-$mpi/bin"
    # The suite asks for a folder in which the compiler has its usual name.
    ln -s "/usr/bin/mpicc.$mpi" "of-$mpi/bin/mpicc"
    ./configure --with-mpi="$PWD/of-$mpi" CXX=g++ CXXCPP="g++ -E" \
        --disable-cxx --disable-fortran --disable-romio \
        --disable-dependency-tracking --disable-spawn >"of-$mpi/configure.log" 2>&1 ||
        { tail "of-$mpi/configure.log"; exit 1; }
    cc="mpicc.$mpi -O1 -w -Iinclude -Idtpools/include -I$FILES/programs/peers"
    cat >"of-$mpi/compile" <<END
#!/bin/sh
# Compiles the program \$1.
$cc -o "$to/\$1" "\$1.c" "of-$mpi/suite.a" -lm -lpthread 2>/dev/null && strip "$to/\$1" || echo "not built: $mpi/\$1"
END
    chmod +x "of-$mpi/compile"
    for file in util/mtest.c util/mtest_common.c util/mtest_thread.c dtpools/src/*.c; do
        object=of-$mpi/$(basename "$file" .c).o
        $cc -c -o "$object" "$file" || echo "not built: $object"
    done
    $cc -c -o "of-$mpi/mtest_single.o" util/mtest_single.c || echo "no mtest_single.o"
    ar cr "of-$mpi/suite.a" of-$mpi/*.o
    for part in $parts; do
        mkdir -p "$to/$part"
    done
    if [ -n "${only:-}" ]; then
        printf '%s\n' $only
    else
        for part in $parts; do
            ls "$part"/*.c
        done | sed 's/\.c$//'
    fi | xargs -n 1 -P "$(nproc)" "of-$mpi/compile"
    echo '#include <mpi.h>' | mpicc.$mpi -E -P -x c - >"of-$mpi/header"
    (cd "of-$mpi" && awk -f "$FILES/programs/peers/wrappers.awk" header)
    mpicc.$mpi -O2 -Wall -Wextra -Werror -Iof-$mpi -I"$FILES/programs/peers" -shared -fPIC \
        -o "$to/lib/count.so" "$FILES/programs/peers/count.c"
done

[ -n "${only:-}" ] || for part in $mpich; do
    sed -n "s|^\([a-z_0-9]* [0-9].*\)|$part/\1|p" "$part/testlist"
done >"$DESTDIR/usr/local/mpich/testlist"
