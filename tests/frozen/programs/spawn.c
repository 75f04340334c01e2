/* A job that spawns two more processes and exchanges messages with them. */
#include "work.h"
#include <mpi.h>

int main(int argc, char **argv)
{
    int rank, data[64] = {0}, sum;
    MPI_Comm parent, between, whole;
    MPI_Init(&argc, &argv);
    MPI_Comm_get_parent(&parent);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (parent == MPI_COMM_NULL)
        MPI_Comm_spawn(argv[0], MPI_ARGV_NULL, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &between, MPI_ERRCODES_IGNORE);
    else
        between = parent;
    for (int turn = 0; turn < 3 && rank < 2; turn++) {
        work(2000 * rank);
        if (parent == MPI_COMM_NULL)
            MPI_Send(data, 64, MPI_INT, rank, turn, between);
        else
            MPI_Recv(data, 64, MPI_INT, rank, turn, between, MPI_STATUS_IGNORE);
    }
    MPI_Intercomm_merge(between, parent != MPI_COMM_NULL, &whole);
    MPI_Allreduce(data, &sum, 1, MPI_INT, MPI_SUM, whole);
    MPI_Comm_free(&whole);
    MPI_Comm_disconnect(&between);
    MPI_Finalize();
    return 0;
}
