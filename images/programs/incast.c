/* Many to one: all ranks but 0 send it their messages at the same time.
 *
 *   incast [BYTES] [ROUNDS]
 *
 * Rank 0 prints for each round how long it took until it had everything. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void fail(const char *why)
{
    fprintf(stderr, "incast: %s\n", why);
    MPI_Abort(MPI_COMM_WORLD, 2);
}

/* Receives everybody's message and sees that it is theirs. */
static int receive(int size, int bytes, char *all, MPI_Request *requests)
{
    int wrong = 0;
    for (int from = 1; from < size; from++)
        MPI_Irecv(all + (size_t)from * bytes, bytes, MPI_BYTE, from, 1, MPI_COMM_WORLD,
                  &requests[from - 1]);
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime();
    MPI_Waitall(size - 1, requests, MPI_STATUSES_IGNORE);
    double took = MPI_Wtime() - start;
    for (int from = 1; from < size; from++)
        wrong += all[(size_t)from * bytes] != from % 100 ||
                 all[(size_t)from * bytes + bytes - 1] != from % 100;
    printf("%d x %d bytes in %.3f us: %.3f Gb/s, %d wrong\n", size - 1, bytes, took * 1e6,
           8e-9 * bytes * (size - 1) / took, wrong);
    return wrong;
}

int main(int argc, char **argv)
{
    int rank, size, wrong = 0;
    MPI_Init(&argc, &argv);
    int bytes = argc > 1 ? atoi(argv[1]) : 65536, rounds = argc > 2 ? atoi(argv[2]) : 3;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (bytes < 1 || rounds < 1 || size < 2)
        fail("BYTES and ROUNDS must be at least 1, and there must be two ranks");
    char *all = malloc((size_t)bytes * (rank == 0 ? size : 1));
    MPI_Request *requests = malloc(sizeof *requests * size);
    if (!all || !requests)
        fail("there is no memory");
    for (int round = 0; round < rounds; round++) {
        if (rank == 0) {
            wrong += receive(size, bytes, all, requests);
        } else {
            memset(all, rank % 100, bytes);
            MPI_Barrier(MPI_COMM_WORLD);
            MPI_Send(all, bytes, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
        }
    }
    MPI_Finalize();
    return wrong ? 1 : 0;
}
