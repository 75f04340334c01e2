/* Spawns as many children as it has ranks, sends both ways, merges, and tells everybody something.
 * usage: spawn [multiple] */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

enum { DOWN = 1000, UP = 200, ACROSS = 24 };

static char buffer[4096];

/* What both sides do with what they merged into: its rank 0 sends to the last, and tells all. */
static void meet(MPI_Comm others, int high)
{
    MPI_Comm all;
    int rank, size, value = 0;
    MPI_Intercomm_merge(others, high, &all);
    MPI_Comm_rank(all, &rank);
    MPI_Comm_size(all, &size);
    if (rank == 0)
        MPI_Send(buffer, ACROSS, MPI_CHAR, size - 1, 7, all);
    if (rank == size - 1)
        MPI_Recv(buffer, ACROSS, MPI_CHAR, 0, 7, all, MPI_STATUS_IGNORE);
    if (rank == 0)
        value = 42;
    MPI_Bcast(&value, 1, MPI_INT, 0, all);
    printf("spawn: rank %d of %d was told %d\n", rank, size, value);
    fflush(stdout);
    MPI_Comm_free(&all);
    MPI_Comm_disconnect(&others);
}

int main(int argc, char **argv)
{
    int rank, size;
    MPI_Comm others;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_get_parent(&others);
    if (others != MPI_COMM_NULL) {
        MPI_Recv(buffer, DOWN, MPI_CHAR, rank, 1, others, MPI_STATUS_IGNORE);
        MPI_Send(buffer, UP + rank, MPI_CHAR, rank, 2, others);
        meet(others, 1);
    } else {
        if (argc > 1 && strcmp(argv[1], "multiple") == 0) {
            char *commands[2] = { argv[0], argv[0] };
            int counts[2] = { 1, size - 1 };
            MPI_Info infos[2] = { MPI_INFO_NULL, MPI_INFO_NULL };
            MPI_Comm_spawn_multiple(2, commands, MPI_ARGVS_NULL, counts, infos, 0, MPI_COMM_WORLD, &others,
                                    MPI_ERRCODES_IGNORE);
        } else {
            MPI_Comm_spawn(argv[0], MPI_ARGV_NULL, size, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &others,
                           MPI_ERRCODES_IGNORE);
        }
        MPI_Send(buffer, DOWN, MPI_CHAR, rank, 1, others);
        MPI_Recv(buffer, UP + size, MPI_CHAR, rank, 2, others, MPI_STATUS_IGNORE);
        meet(others, 0);
    }
    MPI_Finalize();
    return 0;
}
