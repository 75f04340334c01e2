/* Kernels whose communication is that of well-known programs, for holding replays against runs.
 *
 *   kernels NAME [SCALE]
 *
 * halo      a five-point stencil on a grid of ranks: nonblocking halos, a reduction every tenth step
 * cg        conjugate gradients: exchanges with partners of a hypercube, two reductions of a number each iteration
 * ft        a three-dimensional FFT: transposes by MPI_Alltoall
 * is        a bucket sort: a reduction of counts, MPI_Alltoall of sizes, MPI_Alltoallv of keys
 * lu        a wavefront over a grid of ranks: many small messages in a pipeline
 * mg        multigrid cycles: halos that shrink level by level
 * bfs       breadth-first search by levels: MPI_Alltoallv of what was found, and whether anything was
 * osu       MPI_Allreduce and MPI_Alltoall of sizes from 8 bytes to 64 KiB
 *
 * All compute between, as long each time. None of them is the program of that name. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 1 << 22 };

static char *out, *in;
static int rank, size, scale = 1;

static void work(int thousands)
{
    volatile double sum = 0;
    for (int i = 0; i < 1000 * thousands; i++)
        sum += i * 0.5;
}

/* The sides of the most square grid of all ranks. */
static void grid(int dims[2])
{
    dims[0] = dims[1] = 0;
    MPI_Dims_create(size, 2, dims);
}

static int at(const int dims[2], int row, int column)
{
    int inside = row >= 0 && row < dims[0] && column >= 0 && column < dims[1];
    return inside ? row * dims[1] + column : MPI_PROC_NULL;
}

static void exchange(const int near[4], int bytes)
{
    MPI_Request r[8];
    for (int i = 0; i < 4; i++) {
        MPI_Irecv(in + i * bytes, bytes, MPI_BYTE, near[i], 1, MPI_COMM_WORLD, &r[i]);
        MPI_Isend(out + i * bytes, bytes, MPI_BYTE, near[i], 1, MPI_COMM_WORLD, &r[4 + i]);
    }
    MPI_Waitall(8, r, MPI_STATUSES_IGNORE);
}

static void neighbours(int near[4])
{
    int dims[2];
    grid(dims);
    int row = rank / dims[1], column = rank % dims[1];
    near[0] = at(dims, row - 1, column);
    near[1] = at(dims, row + 1, column);
    near[2] = at(dims, row, column - 1);
    near[3] = at(dims, row, column + 1);
}

static void reduce(int count)
{
    MPI_Allreduce(out, in, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

static void halo(void)
{
    int near[4];
    neighbours(near);
    for (int step = 0; step < 60 * scale; step++) {
        exchange(near, 8192);
        work(40 + rank % 3);
        if (step % 10 == 0)
            reduce(1);
    }
}

static void cg(void)
{
    for (int step = 0; step < 60 * scale; step++) {
        for (int bit = 1; bit < size; bit *= 2)
            if ((rank ^ bit) < size)
                MPI_Sendrecv(out, 11200, MPI_BYTE, rank ^ bit, 1, in, 11200, MPI_BYTE, rank ^ bit, 1,
                             MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        work(60);
        reduce(1);
        work(10);
        reduce(1);
    }
}

static void ft(void)
{
    for (int step = 0; step < 8 * scale; step++) {
        work(800);
        MPI_Alltoall(out, 65536, MPI_BYTE, in, 65536, MPI_BYTE, MPI_COMM_WORLD);
        work(400);
        reduce(2);
    }
}

static void is(void)
{
    int *counts = calloc(4 * size, sizeof *counts);
    int *places = counts + size, *from = places + size, *into = from + size;
    for (int step = 0; step < 12 * scale; step++) {
        reduce(512);
        for (int i = 0; i < size; i++)
            counts[i] = 20000 + 3000 * ((rank + i + step) % 4);
        MPI_Alltoall(counts, 1, MPI_INT, from, 1, MPI_INT, MPI_COMM_WORLD);
        for (int i = 1; i < size; i++) {
            places[i] = places[i - 1] + counts[i - 1];
            into[i] = into[i - 1] + from[i - 1];
        }
        MPI_Alltoallv(out, counts, places, MPI_BYTE, in, from, into, MPI_BYTE, MPI_COMM_WORLD);
        work(300 + 20 * (rank % 2));
    }
    free(counts);
}

static void lu(void)
{
    int near[4];
    neighbours(near);
    for (int sweep = 0; sweep < 6 * scale; sweep++)
        for (int plane = 0; plane < 30; plane++) {
            int forth = sweep % 2;
            for (int side = 0; side < 4; side += 2)
                MPI_Recv(in, 1000, MPI_BYTE, near[side + forth], 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            work(12);
            for (int side = 0; side < 4; side += 2)
                MPI_Send(out, 1000, MPI_BYTE, near[side + 1 - forth], 2, MPI_COMM_WORLD);
        }
}

static void mg(void)
{
    int near[4];
    neighbours(near);
    for (int cycle = 0; cycle < 10 * scale; cycle++) {
        for (int bytes = 32768, points = 128; bytes >= 64; bytes /= 4, points /= 2) {
            exchange(near, bytes);
            work(points);
        }
        for (int bytes = 128, points = 8; bytes <= 32768; bytes *= 4, points *= 2) {
            exchange(near, bytes);
            work(points);
        }
        reduce(1);
    }
}

static void bfs(void)
{
    int *counts = calloc(4 * size, sizeof *counts);
    int *places = counts + size, *from = places + size, *into = from + size;
    static const int found[] = {8, 300, 6000, 40000, 9000, 500, 16};
    for (int search = 0; search < 6 * scale; search++)
        for (int level = 0; level < 7; level++) {
            for (int i = 0; i < size; i++)
                counts[i] = found[level] * (1 + (rank * 7 + i * 3 + search) % 3) / 2;
            MPI_Alltoall(counts, 1, MPI_INT, from, 1, MPI_INT, MPI_COMM_WORLD);
            for (int i = 1; i < size; i++) {
                places[i] = places[i - 1] + counts[i - 1];
                into[i] = into[i - 1] + from[i - 1];
            }
            MPI_Alltoallv(out, counts, places, MPI_BYTE, in, from, into, MPI_BYTE, MPI_COMM_WORLD);
            work(1 + found[level] / 100);
            reduce(1);
        }
    free(counts);
}

static void osu(void)
{
    for (int bytes = 8; bytes <= 65536; bytes *= 8)
        for (int turn = 0; turn < 8 * scale; turn++) {
            reduce(bytes / 8);
            MPI_Alltoall(out, bytes, MPI_BYTE, in, bytes, MPI_BYTE, MPI_COMM_WORLD);
        }
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } kernels[] = {{"halo", halo}, {"cg", cg}, {"ft", ft}, {"is", is}, {"lu", lu}, {"mg", mg}, {"bfs", bfs}, {"osu", osu}};
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    out = calloc(MOST, 1);
    in = calloc(MOST, 1);
    if (argc > 2)
        scale = atoi(argv[2]);
    for (unsigned i = 0; i < sizeof kernels / sizeof *kernels; i++)
        if (argc > 1 && !strcmp(argv[1], kernels[i].name)) {
            MPI_Barrier(MPI_COMM_WORLD);
            kernels[i].run();
            MPI_Barrier(MPI_COMM_WORLD);
            MPI_Finalize();
            return 0;
        }
    fprintf(stderr, "kernels: halo, cg, ft, is, lu, mg, bfs or osu\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
}
