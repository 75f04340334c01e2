/* Ping-pong between ranks 0 and 1: half the round trip's time for messages of 0 bytes to 64 KiB.
 *
 *   pingpong [ROUNDS]
 *
 * Prints lines "PINGPONG <bytes> <rounds> <mean ns> <min ns>". Times are MPI_Wtime's, which come
 * from the guest's TSC by way of the clock. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { LARGEST = 65536, WARM_UP = 4 };

static char buffer[LARGEST];

static void bounce(int rank, int size)
{
    if (rank == 0) {
        MPI_Send(buffer, size, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
        MPI_Recv(buffer, size, MPI_BYTE, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
        MPI_Recv(buffer, size, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(buffer, size, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
    }
}

static void measure(int rank, int size, int rounds)
{
    double total = 0, least = 0;
    for (int i = 0; i < WARM_UP; i++)
        bounce(rank, size);
    for (int i = 0; i < rounds; i++) {
        double start = MPI_Wtime();
        bounce(rank, size);
        double half = (MPI_Wtime() - start) / 2;
        total += half;
        if (i == 0 || half < least)
            least = half;
    }
    if (rank == 0)
        printf("PINGPONG %d %d %.0f %.0f\n", size, rounds, 1e9 * total / rounds, 1e9 * least);
}

int main(int argc, char **argv)
{
    int rank, ranks;
    MPI_Init(&argc, &argv);
    int rounds = argc > 1 ? atoi(argv[1]) : 20;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (ranks < 2 || rounds < 1) {
        fprintf(stderr, "pingpong: needs two ranks and at least one round\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    if (rank < 2) {
        measure(rank, 0, rounds);
        for (int size = 1; size <= LARGEST; size *= 2)
            measure(rank, size, rounds);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
