/* A mixed workload over the common MPI calls that keeps its own books.
 *
 *   counters [ROUNDS]
 *
 * What it does depends on the number of ranks and on ROUNDS alone; only how often MPI_Iprobe and
 * MPI_Test have to be asked is left to time, and that is counted as it happens. At its end every
 * rank prints lines "COUNT <world rank> <function> <calls> <bytes>", for a trace to be held
 * against. Calls are those made by this program, not those MPI makes inside itself.
 *
 * Bytes follow one rule, the arguments': count times the size of the datatype, taken from
 *   the buffer sent, for Send, Ssend, Isend, Send_init, Reduce, Allreduce, Scan, Gather, Allgather;
 *   the buffer posted, for Recv, Irecv and Scatter (all messages fill their buffers);
 *   the one buffer there is, for Bcast;
 *   both buffers, for Sendrecv;
 *   the part sent to one rank times the number of ranks, for Alltoall;
 *   the part sent, for Gatherv.
 * All other calls count no bytes. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FUNCTIONS(X)                                                                               \
    X(Init) X(Finalize) X(Comm_rank) X(Comm_size) X(Comm_dup) X(Comm_split) X(Comm_create)         \
    X(Comm_group) X(Comm_free) X(Group_incl) X(Group_free) X(Cart_create) X(Cart_coords)           \
    X(Cart_shift) X(Dims_create) X(Type_vector) X(Type_contiguous) X(Type_commit) X(Type_free)     \
    X(Type_size) X(Send) X(Ssend) X(Recv) X(Isend) X(Irecv) X(Sendrecv) X(Wait) X(Waitall)         \
    X(Waitany) X(Test) X(Iprobe) X(Probe) X(Get_count) X(Send_init) X(Start) X(Request_free)       \
    X(Barrier) X(Bcast) X(Reduce) X(Allreduce) X(Scan) X(Gather) X(Gatherv) X(Scatter)             \
    X(Allgather) X(Alltoall) X(Wtime)

#define NUMBER(name) F_##name,
enum function { FUNCTIONS(NUMBER) FUNCTION_COUNT };
#define NAME(name) "MPI_" #name,
static const char *const names[] = { FUNCTIONS(NAME) };

static struct {
    long long calls, bytes;
} books[FUNCTION_COUNT];

static void note(enum function function, long long bytes)
{
    books[function].calls++;
    books[function].bytes += bytes;
}

/* Makes an MPI call and enters it in the books with its bytes. */
#define CALL(name, bytes, ...) (note(F_##name, (bytes)), MPI_##name(__VA_ARGS__))

enum { WORDS = 512, LONG_WORDS = 40000 };

static int rank, size, wrong;
static double *out, *in;

static void expect(int holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "counters: rank %d: %s is wrong\n", rank, what);
        wrong = 1;
    }
}

static void fill(int round)
{
    for (int i = 0; i < LONG_WORDS; i++)
        out[i] = rank * 1000.0 + round + i;
}

/* Blocking messages round the ring, even ranks first; short ones, and one too long to be eager. */
static void ring(MPI_Comm comm, int round)
{
    int next = (rank + 1) % size, last = (rank + size - 1) % size;
    int words = round % 4 == 3 ? LONG_WORDS : WORDS;
    long long bytes = words * (long long)sizeof(double);
    MPI_Status status;
    int count;
    if (size == 1)
        return;
    if (rank % 2 == 0) {
        if (round % 2 == 0)
            CALL(Send, bytes, out, words, MPI_DOUBLE, next, round, comm);
        else
            CALL(Ssend, bytes, out, words, MPI_DOUBLE, next, round, comm);
        CALL(Recv, bytes, in, words, MPI_DOUBLE, last, round, comm, &status);
    } else {
        CALL(Probe, 0, last, round, comm, &status);
        CALL(Get_count, 0, &status, MPI_DOUBLE, &count);
        expect(count == words, "the probed length");
        CALL(Recv, bytes, in, words, MPI_DOUBLE, last, round, comm, &status);
        CALL(Send, bytes, out, words, MPI_DOUBLE, next, round, comm);
    }
    expect(in[1] == last * 1000.0 + round + 1, "a message of the ring");
}

/* A column of a matrix as a derived datatype, and the same through Sendrecv. */
static void derived(MPI_Comm comm, int round)
{
    enum { ROWS = 16, COLUMNS = 32 };
    int next = (rank + 1) % size, last = (rank + size - 1) % size, bytes;
    MPI_Datatype column, pair;
    CALL(Type_vector, 0, ROWS, 1, COLUMNS, MPI_DOUBLE, &column);
    CALL(Type_commit, 0, &column);
    CALL(Type_size, 0, column, &bytes);
    expect(bytes == ROWS * (int)sizeof(double), "the size of a column");
    CALL(Sendrecv, 2LL * bytes, out, 1, column, next, 7, in, 1, column, last, 7, comm,
         MPI_STATUS_IGNORE);
    expect(in[COLUMNS] == last * 1000.0 + round + COLUMNS, "a column");
    CALL(Type_contiguous, 0, 2, MPI_INT, &pair);
    CALL(Type_commit, 0, &pair);
    CALL(Type_size, 0, pair, &bytes);
    int here[6] = { rank, round, 3, 4, 5, 6 }, there[6];
    CALL(Sendrecv, 6LL * bytes, here, 3, pair, next, 8, there, 3, pair, last, 8, comm,
         MPI_STATUS_IGNORE);
    expect(there[0] == last && there[1] == round, "a pair of numbers");
    CALL(Type_free, 0, &pair);
    CALL(Type_free, 0, &column);
}

/* Requests completed in every common way: Waitall, Waitany, Wait, Test; one of them persistent. */
static void nonblocking(MPI_Comm comm, int round)
{
    int next = (rank + 1) % size, last = (rank + size - 1) % size, index, done = 0;
    long long bytes = WORDS * (long long)sizeof(double);
    MPI_Request requests[4], again;
    for (int i = 0; i < 4; i += 2) {
        CALL(Irecv, bytes, in + i * WORDS, WORDS, MPI_DOUBLE, last, 20 + i, comm, &requests[i]);
        CALL(Isend, bytes, out + i * WORDS, WORDS, MPI_DOUBLE, next, 20 + i, comm, &requests[i + 1]);
    }
    CALL(Waitany, 0, 4, requests, &index, MPI_STATUS_IGNORE);
    CALL(Waitall, 0, 4, requests, MPI_STATUSES_IGNORE);
    expect(in[2 * WORDS] == last * 1000.0 + round + 2 * WORDS, "a message received by Irecv");

    CALL(Send_init, bytes, out, WORDS, MPI_DOUBLE, next, 30, comm, &again);
    CALL(Irecv, bytes, in, WORDS, MPI_DOUBLE, last, 30, comm, &requests[0]);
    CALL(Start, 0, &again);
    while (!done)
        CALL(Test, 0, &requests[0], &done, MPI_STATUS_IGNORE);
    CALL(Wait, 0, &again, MPI_STATUS_IGNORE);
    CALL(Request_free, 0, &again);
}

/* Rank 0 looks out for a message from each other rank, in whatever order they come. */
static void probing(MPI_Comm comm)
{
    MPI_Status status;
    int value = rank, there;
    if (rank > 0) {
        CALL(Send, sizeof value, &value, 1, MPI_INT, 0, 40, comm);
        return;
    }
    for (int i = 1; i < size; i++) {
        for (there = 0; !there;)
            CALL(Iprobe, 0, MPI_ANY_SOURCE, 40, comm, &there, &status);
        CALL(Recv, sizeof value, &value, 1, MPI_INT, status.MPI_SOURCE, 40, comm, MPI_STATUS_IGNORE);
        expect(value == status.MPI_SOURCE, "a probed message");
    }
}

static void collectives(MPI_Comm comm, int round)
{
    int me, ranks, root;
    long long bytes = WORDS * (long long)sizeof(double);
    CALL(Comm_rank, 0, comm, &me);
    CALL(Comm_size, 0, comm, &ranks);
    root = round % ranks;
    double part = me + 1, sum, scan, *all = calloc((size_t)ranks, sizeof *all);
    int *ours = calloc((size_t)ranks, sizeof *ours), *theirs = calloc((size_t)ranks, sizeof *theirs);
    if (all == NULL || ours == NULL || theirs == NULL)
        MPI_Abort(MPI_COMM_WORLD, 3);
    CALL(Barrier, 0, comm);
    CALL(Bcast, bytes, in, WORDS, MPI_DOUBLE, root, comm);
    CALL(Reduce, sizeof part, &part, &sum, 1, MPI_DOUBLE, MPI_SUM, root, comm);
    expect(me != root || sum == ranks * (ranks + 1) / 2.0, "a sum by Reduce");
    CALL(Allreduce, sizeof part, &part, &sum, 1, MPI_DOUBLE, MPI_SUM, comm);
    expect(sum == ranks * (ranks + 1) / 2.0, "a sum by Allreduce");
    CALL(Scan, sizeof part, &part, &scan, 1, MPI_DOUBLE, MPI_SUM, comm);
    expect(scan == (me + 1) * (me + 2) / 2.0, "a sum by Scan");
    CALL(Gather, sizeof part, &part, 1, MPI_DOUBLE, all, 1, MPI_DOUBLE, root, comm);
    CALL(Scatter, sizeof part, all, 1, MPI_DOUBLE, &part, 1, MPI_DOUBLE, root, comm);
    expect(part == me + 1, "a value gathered and scattered");
    CALL(Allgather, sizeof part, &part, 1, MPI_DOUBLE, all, 1, MPI_DOUBLE, comm);
    expect(all[ranks - 1] == ranks, "a value by Allgather");
    for (int i = 0; i < ranks; i++)
        ours[i] = me * 100 + i;
    CALL(Alltoall, ranks * (long long)sizeof(int), ours, 1, MPI_INT, theirs, 1, MPI_INT, comm);
    expect(theirs[ranks - 1] == (ranks - 1) * 100 + me, "a value by Alltoall");
    free(all);
    free(ours);
    free(theirs);
}

/* Each rank hands in as many numbers as its own number plus one. */
static void uneven(MPI_Comm comm)
{
    int *counts = calloc((size_t)size, sizeof *counts), *starts = calloc((size_t)size, sizeof *starts);
    if (counts == NULL || starts == NULL)
        MPI_Abort(MPI_COMM_WORLD, 3);
    int total = 0;
    for (int i = 0; i < size; i++) {
        counts[i] = i % 8 + 1;
        starts[i] = total;
        total += counts[i];
    }
    double *all = calloc((size_t)total, sizeof *all);
    if (all == NULL)
        MPI_Abort(MPI_COMM_WORLD, 3);
    int mine = rank % 8 + 1;
    CALL(Gatherv, mine * (long long)sizeof(double), out, mine, MPI_DOUBLE, all, counts, starts,
         MPI_DOUBLE, 0, comm);
    expect(rank != 0 || all[total - 1] == (size - 1) * 1000.0 + out[0] + counts[size - 1] - 1,
           "an uneven part");
    free(all);
    free(counts);
    free(starts);
}

/* Communicators made by dup, split, create and as a grid, each used and freed. */
static void communicators(int round)
{
    MPI_Comm made;
    MPI_Group world, some;
    int first[1] = { 0 }, dims[2] = { 0, 0 }, periods[2] = { 1, 0 }, at[2], from, to, place;
    CALL(Comm_dup, 0, MPI_COMM_WORLD, &made);
    ring(made, round);
    CALL(Comm_free, 0, &made);

    CALL(Comm_split, 0, MPI_COMM_WORLD, rank % 2, -rank, &made);
    collectives(made, round);
    CALL(Comm_free, 0, &made);

    CALL(Comm_group, 0, MPI_COMM_WORLD, &world);
    CALL(Group_incl, 0, world, 1, first, &some);
    CALL(Comm_create, 0, MPI_COMM_WORLD, some, &made);
    expect((made != MPI_COMM_NULL) == (rank == 0), "membership of a created communicator");
    if (made != MPI_COMM_NULL) {
        collectives(made, round);
        CALL(Comm_free, 0, &made);
    }
    CALL(Group_free, 0, &some);
    CALL(Group_free, 0, &world);

    CALL(Dims_create, 0, size, 2, dims);
    CALL(Cart_create, 0, MPI_COMM_WORLD, 2, dims, periods, 0, &made);
    CALL(Comm_rank, 0, made, &place);
    CALL(Cart_coords, 0, made, place, 2, at);
    CALL(Cart_shift, 0, made, 0, 1, &from, &to);
    CALL(Sendrecv, 2LL * sizeof(int), at, 1, MPI_INT, to, 50, &place, 1, MPI_INT, from, 50, made,
         MPI_STATUS_IGNORE);
    expect(place == (at[0] + dims[0] - 1) % dims[0], "a neighbour in the grid");
    CALL(Comm_free, 0, &made);
}

int main(int argc, char **argv)
{
    CALL(Init, 0, &argc, &argv);
    CALL(Comm_rank, 0, MPI_COMM_WORLD, &rank);
    CALL(Comm_size, 0, MPI_COMM_WORLD, &size);
    int rounds = argc > 1 ? atoi(argv[1]) : 4;
    out = calloc(LONG_WORDS, sizeof *out);
    in = calloc(LONG_WORDS, sizeof *in);
    if (out == NULL || in == NULL)
        MPI_Abort(MPI_COMM_WORLD, 3);
    double start = CALL(Wtime, 0);
    for (int round = 0; round < rounds; round++) {
        fill(round);
        ring(MPI_COMM_WORLD, round);
        derived(MPI_COMM_WORLD, round);
        nonblocking(MPI_COMM_WORLD, round);
        probing(MPI_COMM_WORLD);
        collectives(MPI_COMM_WORLD, round);
        uneven(MPI_COMM_WORLD);
        communicators(round);
    }
    expect(CALL(Wtime, 0) >= start, "the clock");
    /* Still to come, but nothing may be printed after it. */
    note(F_Finalize, 0);
    for (int i = 0; i < FUNCTION_COUNT; i++)
        if (books[i].calls > 0)
            printf("COUNT %d %s %lld %lld\n", rank, names[i], books[i].calls, books[i].bytes);
    printf("COUNTERS %d %s\n", rank, wrong ? "WRONG" : "RIGHT");
    free(out);
    free(in);
    MPI_Finalize();
    return wrong;
}
