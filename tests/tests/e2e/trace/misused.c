/* Errors of MPI use that an MPI library does not report. */
#include <mpi.h>

int main(int argc, char **argv)
{
    int rank, numbers[8] = {0};
    float value = 1;
    MPI_Comm copy;
    MPI_Request requests[2];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    if (rank == 0) {
        MPI_Send(&value, 1, MPI_FLOAT, 1, 5, copy);
        MPI_Send(numbers, 4, MPI_INT, 1, 6, copy);
    } else {
        MPI_Irecv(numbers, 1, MPI_INT, 0, 5, copy, &requests[0]);
        MPI_Irecv(numbers, 4, MPI_INT, 0, 6, copy, &requests[1]);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    }
    MPI_Finalize();
}
