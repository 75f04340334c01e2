/* Patterns of communication that kernels.c lacks, for holding replays against runs; long enough that MPI_Init is below a tenth.
 *
 *   patterns NAME [STEPS]
 *
 * overlap   64 KiB to and from four ranks of a ring, with computation and MPI_Testall between start and completion
 * rma       MPI_Put in fences, MPI_Put and MPI_Get under locks, and general active target synchronisation
 * uneven    MPI_Alltoallv of 2 KiB to 90 KiB, most of it to the next ranks
 * sweep     wavefronts from the four corners of a grid of ranks, 8 KiB for each block of planes
 * farm      rank 0 hands tasks of different length to whoever asks, by MPI_ANY_SOURCE
 * incast    all ranks send 100,000 bytes to rank 0 at once, which answers by a broadcast
 *
 * All compute between, as long each time. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 1 << 22 };

static char *out, *in;
static int rank, size;

static void work(int thousands)
{
    volatile double sum = 0;
    for (int i = 0; i < 1000 * thousands; i++)
        sum += i * 0.5;
}

static void overlap(int steps)
{
    static const int away[] = {1, -1, 2, -2};
    const int bytes = 65536;
    for (int step = 0; step < steps; step++) {
        MPI_Request r[8];
        int done;
        for (int i = 0; i < 4; i++)
            MPI_Irecv(in + i * bytes, bytes, MPI_BYTE, (rank - away[i] + size) % size, i, MPI_COMM_WORLD, &r[i]);
        for (int i = 0; i < 4; i++)
            MPI_Isend(out + i * bytes, bytes, MPI_BYTE, (rank + away[i] + size) % size, i, MPI_COMM_WORLD, &r[4 + i]);
        for (int part = 0; part < 4; part++) {
            work(60 + rank % 3);
            MPI_Testall(8, r, &done, MPI_STATUSES_IGNORE);
        }
        if (!done)
            MPI_Waitall(8, r, MPI_STATUSES_IGNORE);
    }
}

static void rma(int steps)
{
    MPI_Win window;
    MPI_Group all, next, last;
    int to = (rank + 1) % size, from = (rank + size - 1) % size, far = (rank + size / 2) % size;
    MPI_Win_create(in, MOST, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    MPI_Comm_group(MPI_COMM_WORLD, &all);
    MPI_Group_incl(all, 1, &to, &next);
    MPI_Group_incl(all, 1, &from, &last);
    for (int step = 0; step < steps; step++) {
        MPI_Win_fence(0, window);
        MPI_Put(out, 16384, MPI_BYTE, to, 0, 16384, MPI_BYTE, window);
        MPI_Put(out, 16384, MPI_BYTE, from, 16384, 16384, MPI_BYTE, window);
        MPI_Win_fence(0, window);
        work(200);
        MPI_Win_lock(MPI_LOCK_SHARED, far, 0, window);
        MPI_Put(out, 512, MPI_BYTE, far, 32768, 512, MPI_BYTE, window);
        MPI_Win_flush(far, window);
        MPI_Get(out + 65536, 8192, MPI_BYTE, far, 65536, 8192, MPI_BYTE, window);
        MPI_Win_unlock(far, window);
        work(100);
        MPI_Win_post(last, 0, window);
        MPI_Win_start(next, 0, window);
        MPI_Put(out, 4096, MPI_BYTE, to, 131072, 4096, MPI_BYTE, window);
        MPI_Win_complete(window);
        MPI_Win_wait(window);
        work(100);
    }
    MPI_Win_free(&window);
}

static void uneven(int steps)
{
    int *counts = calloc(4 * size, sizeof *counts);
    int *places = counts + size, *from = places + size, *into = from + size;
    for (int step = 0; step < steps; step++) {
        for (int i = 0; i < size; i++) {
            int away = (i - rank + size) % size, back = (rank - i + size) % size;
            counts[i] = 90000 / (1 + away * away) + 512 * (step % 3);
            from[i] = 90000 / (1 + back * back) + 512 * (step % 3);
        }
        for (int i = 1; i < size; i++) {
            places[i] = places[i - 1] + counts[i - 1];
            into[i] = into[i - 1] + from[i - 1];
        }
        MPI_Alltoallv(out, counts, places, MPI_BYTE, in, from, into, MPI_BYTE, MPI_COMM_WORLD);
        work(600 + 20 * (rank % 2));
    }
    free(counts);
}

static void sweep(int steps)
{
    int dims[2] = {0, 0};
    MPI_Dims_create(size, 2, dims);
    int row = rank / dims[1], column = rank % dims[1];
    for (int step = 0; step < steps; step++)
        for (int corner = 0; corner < 4; corner++) {
            int down = corner & 1 ? -1 : 1, right = corner & 2 ? -1 : 1;
            int north = row - down, south = row + down, west = column - right, east = column + right;
            for (int block = 0; block < 8; block++) {
                if (north >= 0 && north < dims[0])
                    MPI_Recv(in, 8192, MPI_BYTE, north * dims[1] + column, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
                if (west >= 0 && west < dims[1])
                    MPI_Recv(in, 8192, MPI_BYTE, row * dims[1] + west, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
                work(40);
                if (south >= 0 && south < dims[0])
                    MPI_Send(out, 8192, MPI_BYTE, south * dims[1] + column, 1, MPI_COMM_WORLD);
                if (east >= 0 && east < dims[1])
                    MPI_Send(out, 8192, MPI_BYTE, row * dims[1] + east, 2, MPI_COMM_WORLD);
            }
        }
}

static void farm(int tasks)
{
    MPI_Status status;
    if (rank > 0) {
        for (;;) {
            MPI_Send(out, 12000, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
            MPI_Recv(in, 2000, MPI_BYTE, 0, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
            if (status.MPI_TAG == 0)
                return;
            work(status.MPI_TAG);
        }
    }
    for (int task = 0; task < tasks + size - 1; task++) {
        MPI_Recv(in, 12000, MPI_BYTE, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &status);
        int length = task < tasks ? 300 + task * 7919 % 500 : 0;
        MPI_Send(out, 2000, MPI_BYTE, status.MPI_SOURCE, length, MPI_COMM_WORLD);
    }
}

static void incast(int steps)
{
    for (int step = 0; step < steps; step++) {
        if (rank > 0)
            MPI_Send(out, 100000, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
        else
            for (int from = 1; from < size; from++)
                MPI_Recv(in, 100000, MPI_BYTE, from, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Bcast(in, 1000, MPI_BYTE, 0, MPI_COMM_WORLD);
        work(800);
    }
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(int steps);
        int steps;
    } patterns[] = {{"overlap", overlap, 250}, {"rma", rma, 160}, {"uneven", uneven, 120},
                    {"sweep", sweep, 40},     {"farm", farm, 700}, {"incast", incast, 80}};
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    out = calloc(MOST, 1);
    in = calloc(MOST, 1);
    for (unsigned i = 0; i < sizeof patterns / sizeof *patterns; i++)
        if (argc > 1 && !strcmp(argv[1], patterns[i].name)) {
            int steps = argc > 2 ? atoi(argv[2]) : patterns[i].steps;
            MPI_Barrier(MPI_COMM_WORLD);
            patterns[i].run(steps);
            MPI_Barrier(MPI_COMM_WORLD);
            MPI_Finalize();
            return 0;
        }
    fprintf(stderr, "patterns: overlap, rma, uneven, sweep, farm or incast\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
}
