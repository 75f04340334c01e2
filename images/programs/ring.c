/* A ring over all ranks: everybody sends to the next one and hears from the last one, until each
 * message has been everywhere.
 *
 *   ring [BYTES] [TURNS]
 *
 * Rank 0 prints how long a step took on average. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv)
{
    int rank, size;
    MPI_Init(&argc, &argv);
    int bytes = argc > 1 ? atoi(argv[1]) : 1024, turns = argc > 2 ? atoi(argv[2]) : 5;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (bytes < 1 || turns < 1) {
        fprintf(stderr, "ring: BYTES and TURNS must be at least 1\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    unsigned char *out = malloc(bytes), *in = malloc(bytes);
    if (!out || !in)
        MPI_Abort(MPI_COMM_WORLD, 2);
    memset(out, rank & 255, bytes);
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime();
    for (int step = 0; step < turns * size; step++) {
        MPI_Sendrecv(out, bytes, MPI_BYTE, (rank + 1) % size, 1, in, bytes, MPI_BYTE,
                     (rank + size - 1) % size, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        unsigned char *swap = out;
        out = in;
        in = swap;
    }
    double took = MPI_Wtime() - start;
    /* After whole turns everybody has their own message back. */
    int wrong = out[0] != (rank & 255) || out[bytes - 1] != (rank & 255), wrongs;
    MPI_Reduce(&wrong, &wrongs, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("ring of %d: %d bytes, %d turns, %.3f us each step, %d wrong\n", size, bytes, turns,
               took / (turns * size) * 1e6, wrongs);
    MPI_Finalize();
    return rank == 0 && wrongs ? 1 : 0;
}
