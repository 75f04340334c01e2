/* A ring whose receives take any tag. */
#include "work.h"
#include <mpi.h>

int main(int argc, char **argv)
{
    int rank, ranks;
    static double data[1024];
    MPI_Status status;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    for (int turn = 0; turn < 20; turn++) {
        work(1000);
        MPI_Request request;
        MPI_Isend(data, 1024 / ranks, MPI_DOUBLE, (rank + 1) % ranks, 5, MPI_COMM_WORLD, &request);
        MPI_Recv(data, 1024, MPI_DOUBLE, (rank + ranks - 1) % ranks, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    MPI_Finalize();
    return 0;
}
