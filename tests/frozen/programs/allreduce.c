/* Reductions for all of several sizes, with own work between them. */
#include "work.h"
#include <mpi.h>

static double in[16384], out[16384];

int main(int argc, char **argv)
{
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int turn = 0; turn < 8; turn++)
        for (int count = 1; count <= 16384; count *= 16) {
            work(1000 * (1 + rank % 3));
            MPI_Allreduce(in, out, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        }
    MPI_Finalize();
    return 0;
}
