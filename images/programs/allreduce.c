/* All ranks add up what they hold, again and again.
 *
 *   allreduce [COUNT] [TIMES]
 *
 * COUNT doubles each time. Every sum is checked; rank 0 prints how long one took on average. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    int rank, size;
    MPI_Init(&argc, &argv);
    int count = argc > 1 ? atoi(argv[1]) : 128, times = argc > 2 ? atoi(argv[2]) : 10;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (count < 1 || times < 1) {
        fprintf(stderr, "allreduce: COUNT and TIMES must be at least 1\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    double *mine = malloc(count * sizeof *mine), *sum = malloc(count * sizeof *sum);
    if (!mine || !sum)
        MPI_Abort(MPI_COMM_WORLD, 2);
    int wrong = 0, wrongs;
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime();
    for (int turn = 0; turn < times; turn++) {
        for (int i = 0; i < count; i++)
            mine[i] = rank + i + turn;
        MPI_Allreduce(mine, sum, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        double ranks = (double)size * (size - 1) / 2;
        for (int i = 0; i < count; i++)
            wrong += sum[i] != ranks + (double)size * (i + turn);
    }
    double took = MPI_Wtime() - start;
    MPI_Reduce(&wrong, &wrongs, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("allreduce over %d: %d doubles, %d times, %.3f us each, %d wrong\n", size, count,
               times, took / times * 1e6, wrongs);
    MPI_Finalize();
    return rank == 0 && wrongs ? 1 : 0;
}
