/* All collective operations, blocking and nonblocking, with ranks that come at different times. */
#include "work.h"
#include <mpi.h>

#define COUNT 512
static double in[16 * COUNT], out[16 * COUNT];
static int counts[16], places[16];
static MPI_Datatype types[16];

static void blocking(MPI_Comm comm, int ranks)
{
    MPI_Barrier(comm);
    MPI_Bcast(in, COUNT, MPI_DOUBLE, 1, comm);
    MPI_Reduce(in, out, COUNT, MPI_DOUBLE, MPI_SUM, 2, comm);
    MPI_Allreduce(in, out, 4 * COUNT, MPI_DOUBLE, MPI_MAX, comm);
    MPI_Allreduce(in, out, 1, MPI_DOUBLE, MPI_SUM, comm);
    MPI_Gather(in, 8, MPI_DOUBLE, out, 8, MPI_DOUBLE, 0, comm);
    MPI_Gatherv(in, 8, MPI_DOUBLE, out, counts, places, MPI_DOUBLE, 0, comm);
    MPI_Scatter(in, 8, MPI_DOUBLE, out, 8, MPI_DOUBLE, 3, comm);
    MPI_Scatterv(in, counts, places, MPI_DOUBLE, out, 8, MPI_DOUBLE, 0, comm);
    MPI_Allgather(in, 8, MPI_DOUBLE, out, 8, MPI_DOUBLE, comm);
    MPI_Allgatherv(in, 8, MPI_DOUBLE, out, counts, places, MPI_DOUBLE, comm);
    MPI_Alltoall(in, 8, MPI_DOUBLE, out, 8, MPI_DOUBLE, comm);
    MPI_Alltoallv(in, counts, places, MPI_DOUBLE, out, counts, places, MPI_DOUBLE, comm);
    for (int i = 0; i < ranks; i++)
        places[i] *= 8;
    MPI_Alltoallw(in, counts, places, types, out, counts, places, types, comm);
    for (int i = 0; i < ranks; i++)
        places[i] /= 8;
    MPI_Reduce_scatter(in, out, counts, MPI_DOUBLE, MPI_SUM, comm);
    MPI_Reduce_scatter_block(in, out, 8, MPI_DOUBLE, MPI_SUM, comm);
    MPI_Scan(in, out, 8, MPI_DOUBLE, MPI_SUM, comm);
    MPI_Exscan(in, out, 8, MPI_DOUBLE, MPI_SUM, comm);
}

static void nonblocking(MPI_Comm comm)
{
    MPI_Request all[6], one;
    MPI_Ibarrier(comm, &one);
    work(500);
    MPI_Wait(&one, MPI_STATUS_IGNORE);
    MPI_Ibcast(in, COUNT, MPI_DOUBLE, 0, comm, &all[0]);
    MPI_Iallreduce(in + 4 * COUNT, out, 8, MPI_DOUBLE, MPI_SUM, comm, &all[1]);
    MPI_Iallgather(in + 4 * COUNT, 8, MPI_DOUBLE, out + COUNT, 8, MPI_DOUBLE, comm, &all[2]);
    MPI_Ialltoall(in + 4 * COUNT, 8, MPI_DOUBLE, out + 2 * COUNT, 8, MPI_DOUBLE, comm, &all[3]);
    MPI_Ireduce(in + 4 * COUNT, out + 3 * COUNT, 8, MPI_DOUBLE, MPI_SUM, 0, comm, &all[4]);
    MPI_Iscan(in + 4 * COUNT, out + 4 * COUNT, 8, MPI_DOUBLE, MPI_SUM, comm, &all[5]);
    work(2000);
    MPI_Waitall(6, all, MPI_STATUSES_IGNORE);
}

int main(int argc, char **argv)
{
    int rank, ranks;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    for (int i = 0; i < ranks; i++) {
        counts[i] = 8;
        places[i] = 8 * i;
        types[i] = MPI_DOUBLE;
    }
    for (int turn = 0; turn < 3; turn++) {
        work(20000 * ((rank + turn) % ranks));
        blocking(MPI_COMM_WORLD, ranks);
        work(10000 * rank);
        nonblocking(MPI_COMM_WORLD);
    }
    MPI_Finalize();
    return 0;
}
