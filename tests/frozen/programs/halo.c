/* A main loop of exchanges; rank 0 asks once, before it, whether MPI is over, as libraries do. */
#include "work.h"
#include <mpi.h>

int main(int argc, char **argv)
{
    int rank, ranks, over;
    double own = 0, other;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (rank == 0)
        MPI_Finalized(&over);
    for (int turn = 0; turn < 60; turn++) {
        work(500 * (1 + rank));
        MPI_Sendrecv(&own, 1, MPI_DOUBLE, (rank + 1) % ranks, 0, &other, 1, MPI_DOUBLE, (rank + ranks - 1) % ranks, 0, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        MPI_Allreduce(&own, &other, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    }
    MPI_Finalize();
    return 0;
}
