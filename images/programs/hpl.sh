# Builds HPL out of the source package of the HPC Challenge; runs in its unpacked folder. FILES is
# where the recipe's files lie, DESTDIR where the result goes.
cd hpl
cp "$FILES/programs/Make.belljar" .
sed -i "s|^TOPdir .*|TOPdir = $PWD|" Make.belljar

# Give HPL back its own names of input and output: inside the HPC Challenge it reads and writes the
# files of the whole suite.
info=testing/ptest/HPL_pdinfo.c
sed -i -e 's|"hpccinf.txt"|"HPL.dat"|' -e '/fid = 8;/d' -e '/strcpy( file, "hpccoutf.txt" );/d' $info
grep -q '"HPL.dat"' $info
if grep -q hpccoutf $info; then exit 1; fi

# The stages depend on each other's results and not through make's rules: one at a time.
make arch=belljar install
# OpenBLAS is named by its folder: which BLAS `libblas.so.3` means is settled by dpkg's alternatives,
# which do not exist where packages are unpacked but not configured.
blas=/usr/lib/x86_64-linux-gnu/openblas-serial
mpicc.mpich -O2 -Iinclude -Iinclude/belljar -o xhpl "$FILES/programs/xhpl-main.c" \
    lib/belljar/libhpl.a $blas/libopenblas.so.0 \
    -Wl,-rpath,$blas -lm
strip xhpl
cp xhpl "$DESTDIR/usr/local/bin/xhpl"
