/* A token goes round a ring, by MPI_Send and MPI_Recv and by MPI_Sendrecv; then the ranks reduce their sums. */
#include "work.h"
#include <mpi.h>

static double data[4096];

static void turn(int rank, int ranks, int count)
{
    int next = (rank + 1) % ranks, last = (rank + ranks - 1) % ranks;
    if (rank == 0)
        MPI_Send(data, count, MPI_DOUBLE, next, 1, MPI_COMM_WORLD);
    MPI_Recv(data, count, MPI_DOUBLE, last, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (rank != 0)
        MPI_Send(data, count, MPI_DOUBLE, next, 1, MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    int rank, ranks;
    double own = 1, sum;
    MPI_Status status;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    for (int i = 0; i < 6; i++) {
        work(1000 + 500 * rank);
        turn(rank, ranks, i % 2 ? 4096 : 16);
        MPI_Sendrecv(data, 64, MPI_DOUBLE, (rank + 1) % ranks, 2, data + 64, 64, MPI_DOUBLE, (rank + ranks - 1) % ranks, 2,
                     MPI_COMM_WORLD, &status);
    }
    MPI_Sendrecv_replace(data, 8, MPI_DOUBLE, (rank + 1) % ranks, 3, (rank + ranks - 1) % ranks, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Allreduce(&own, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
