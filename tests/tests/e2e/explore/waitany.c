/* A sum that depends on the order of MPI_Waitany. */
#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv)
{
    int rank, values[2], index;
    MPI_Request requests[2];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0) {
        double sum = 0;
        for (int i = 0; i < 2; i++)
            MPI_Irecv(&values[i], 1, MPI_INT, i + 1, 0, MPI_COMM_WORLD, &requests[i]);
        for (int i = 0; i < 2; i++) {
            MPI_Waitany(2, requests, &index, MPI_STATUS_IGNORE);
            sum = sum / 2 + values[index];
        }
        printf("sum %.1f\n", sum);
    } else {
        MPI_Send(&rank, 1, MPI_INT, 0, 0, MPI_COMM_WORLD);
    }
    MPI_Finalize();
}
