/* Two copies of MPI_COMM_WORLD, on which messages with one tag are received the other way round. */
#include <mpi.h>

int main(int argc, char **argv)
{
    static char first[1000], second[3000];
    int rank;
    MPI_Comm a, b;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_dup(MPI_COMM_WORLD, &a);
    MPI_Comm_dup(MPI_COMM_WORLD, &b);
    for (int turn = 0; turn < 3; turn++)
        if (rank == 0) {
            MPI_Send(first, 1000, MPI_CHAR, 1, 4, a);
            MPI_Send(second, 3000, MPI_CHAR, 1, 4, b);
        } else if (rank == 1) {
            MPI_Recv(second, 3000, MPI_CHAR, 0, 4, b, MPI_STATUS_IGNORE);
            MPI_Recv(first, 1000, MPI_CHAR, 0, 4, a, MPI_STATUS_IGNORE);
        }
    MPI_Barrier(a);
    MPI_Finalize();
    return 0;
}
