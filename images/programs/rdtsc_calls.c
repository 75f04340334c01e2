/* The time stamp counter before and after each of a fixed sequence of MPI calls.
 *
 * Prints lines "RDTSC <rank> <number> <function> <before> <after>" once all calls are made, so that
 * printing disturbs none of them. Ranks form pairs; with an odd number of ranks the last one
 * takes part in the collective calls only. */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <x86intrin.h>

enum { ROUNDS = 8, CALLS = 8 * ROUNDS, WORDS = 256 };

static struct {
    const char *function;
    uint64_t before, after;
} calls[CALLS];
static int made;

#define TIMED(call, ...)                                                                           \
    do {                                                                                           \
        uint64_t before = __rdtsc();                                                               \
        MPI_##call(__VA_ARGS__);                                                               \
        uint64_t after = __rdtsc();                                                                \
        calls[made].function = "MPI_" #call;                                                   \
        calls[made].before = before;                                                               \
        calls[made].after = after;                                                                 \
        made++;                                                                                    \
    } while (0)

static void with_partner(int rank, int partner)
{
    static double out[WORDS], in[WORDS];
    MPI_Request requests[2];
    if (rank < partner) {
        TIMED(Send, out, WORDS, MPI_DOUBLE, partner, 1, MPI_COMM_WORLD);
        TIMED(Recv, in, WORDS, MPI_DOUBLE, partner, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
        TIMED(Recv, in, WORDS, MPI_DOUBLE, partner, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        TIMED(Send, out, WORDS, MPI_DOUBLE, partner, 2, MPI_COMM_WORLD);
    }
    TIMED(Irecv, in, WORDS, MPI_DOUBLE, partner, 3, MPI_COMM_WORLD, &requests[0]);
    TIMED(Isend, out, WORDS, MPI_DOUBLE, partner, 3, MPI_COMM_WORLD, &requests[1]);
    TIMED(Waitall, 2, requests, MPI_STATUSES_IGNORE);
}

int main(int argc, char **argv)
{
    static double values[WORDS], sums[WORDS];
    int rank, ranks;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    int partner = rank ^ 1;
    for (int round = 0; round < ROUNDS; round++) {
        TIMED(Barrier, MPI_COMM_WORLD);
        if (partner < ranks)
            with_partner(rank, partner);
        TIMED(Allreduce, values, sums, WORDS, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        TIMED(Bcast, values, WORDS, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    }
    for (int i = 0; i < made; i++)
        printf("RDTSC %d %d %s %llu %llu\n", rank, i, calls[i].function,
               (unsigned long long)calls[i].before, (unsigned long long)calls[i].after);
    MPI_Finalize();
    return 0;
}
