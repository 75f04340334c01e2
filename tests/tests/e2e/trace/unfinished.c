/* Errors at the end: all ranks end without MPI_Finalize (all), one does (one), or one is killed (kill). */
#include <mpi.h>
#include <signal.h>
#include <string.h>

int main(int argc, char **argv)
{
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Barrier(MPI_COMM_WORLD);
    if (!strcmp(argv[1], "all") || (rank == 1 && !strcmp(argv[1], "one")))
        return 0;
    if (rank == 1)
        raise(SIGKILL);
    MPI_Finalize();
    return 0;
}
