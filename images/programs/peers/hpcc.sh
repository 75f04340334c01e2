# Builds the HPC Challenge for MPICH out of its source package, as Debian's own binary is linked to Open
# MPI, and the layer that counts calls for both; runs in the unpacked folder. FILES is where the
# recipe's files lie, DESTDIR where the result goes.
[ -e /usr/bin/awk ] || ln -s mawk /usr/bin/awk
for mpi in mpich openmpi; do
    to=$DESTDIR/usr/local/$mpi
    mkdir -p "$to/lib" "of-$mpi"
    echo '#include <mpi.h>' | mpicc.$mpi -E -P -x c - >"of-$mpi/header"
    (cd "of-$mpi" && awk -f "$FILES/programs/peers/wrappers.awk" header)
    mpicc.$mpi -O2 -Wall -Wextra -Werror -Iof-$mpi -I"$FILES/programs/peers" -shared -fPIC \
        -o "$to/lib/count.so" "$FILES/programs/peers/count.c"
done

sed "s|^TOPdir .*|TOPdir = $PWD/hpl|" "$FILES/programs/Make.belljar" >hpl/Make.belljar
# OpenBLAS is named by its folder: dpkg's alternatives do not exist where packages are not configured.
blas=/usr/lib/x86_64-linux-gnu/openblas-serial
cat >>hpl/Make.belljar <<END
LAlib = $blas/libopenblas.so.0 -Wl,-rpath,$blas
HPL_LIBS = \$(HPLlib) \$(LAlib) -lm
END
make arch=belljar MKDIR="mkdir -p"
strip hpcc
mkdir -p "$DESTDIR/usr/local/mpich/bin"
cp hpcc "$DESTDIR/usr/local/mpich/bin/hpcc"
