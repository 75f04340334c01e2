/* Two halves exchange by an intercommunicator, merge it, and reduce together. */
#include "work.h"
#include <mpi.h>

static int in[256], out[256];

int main(int argc, char **argv)
{
    int rank, size, own;
    MPI_Comm half, between, whole, copy;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int upper = rank >= size / 2;
    MPI_Comm_split(MPI_COMM_WORLD, upper, rank, &half);
    MPI_Comm_rank(half, &own);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, upper ? 0 : size / 2, 12, &between);
    for (int turn = 0; turn < 3; turn++) {
        work(3000 * rank);
        if (upper)
            MPI_Send(in, 16, MPI_INT, own, 3, between);
        else
            MPI_Recv(out, 16, MPI_INT, own, 3, between, MPI_STATUS_IGNORE);
        MPI_Bcast(in, 8, MPI_INT, upper ? 0 : own == 0 ? MPI_ROOT : MPI_PROC_NULL, between);
        MPI_Allreduce(in, out, 4, MPI_INT, MPI_SUM, between);
        MPI_Allgather(in, 4, MPI_INT, out, 4, MPI_INT, between);
        MPI_Barrier(between);
    }
    MPI_Intercomm_merge(between, upper, &whole);
    MPI_Allreduce(in, out, 1, MPI_INT, MPI_SUM, whole);
    MPI_Comm_dup(whole, &copy);
    MPI_Bcast(in, 8, MPI_INT, 0, copy);
    MPI_Comm_free(&copy);
    MPI_Comm_free(&whole);
    MPI_Comm_free(&between);
    MPI_Comm_free(&half);
    MPI_Finalize();
    return 0;
}
