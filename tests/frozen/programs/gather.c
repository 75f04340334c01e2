/* Rank 0 receives from any source, without a status, as many messages as there are workers; under one tag and under tags of the turn. */
#include "work.h"
#include <mpi.h>

static int data[4096];

int main(int argc, char **argv)
{
    int rank, ranks;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    for (int turn = 0; turn < 8; turn++) {
        int tag = turn < 4 ? 0 : turn;
        for (int other = 1; rank == 0 && other < ranks; other++)
            MPI_Recv(data, 4096, MPI_INT, MPI_ANY_SOURCE, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (rank) {
            work(5000L * rank);
            MPI_Send(data, rank == 1 ? 8 : 1024, MPI_INT, 0, tag, MPI_COMM_WORLD);
        }
        if (turn % 2)
            MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_Finalize();
    return 0;
}
