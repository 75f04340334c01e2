/* A master hands out work: it polls for requests, tests for results, and cancels a receive at the end. */
#include "work.h"
#include <mpi.h>

#define TASKS 18

static void master(int ranks)
{
    int task = 0, ended = 0, flag, index, cancelled, none;
    double results[16];
    MPI_Request pending[16];
    MPI_Status status;
    for (int i = 0; i < 16; i++)
        pending[i] = MPI_REQUEST_NULL;
    while (ended < ranks - 1) {
        MPI_Iprobe(MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &flag, &status);
        if (flag) {
            int worker = status.MPI_SOURCE;
            MPI_Recv(&none, 1, MPI_INT, worker, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            int next = task < TASKS ? task++ : -1;
            MPI_Send(&next, 1, MPI_INT, worker, 2, MPI_COMM_WORLD);
            if (next < 0)
                ended++;
            else {
                MPI_Wait(&pending[worker], MPI_STATUS_IGNORE);
                MPI_Irecv(&results[worker], 1, MPI_DOUBLE, worker, 3, MPI_COMM_WORLD, &pending[worker]);
            }
        }
        MPI_Testany(ranks, pending, &index, &flag, &status);
        work(500);
    }
    MPI_Waitall(ranks, pending, MPI_STATUSES_IGNORE);
    MPI_Irecv(&none, 1, MPI_INT, MPI_ANY_SOURCE, 9, MPI_COMM_WORLD, &pending[0]);
    MPI_Cancel(&pending[0]);
    MPI_Wait(&pending[0], &status);
    MPI_Test_cancelled(&status, &cancelled);
}

static void worker(int rank)
{
    int task = 0;
    double result = rank;
    for (;;) {
        MPI_Send(&task, 1, MPI_INT, 0, 1, MPI_COMM_WORLD);
        MPI_Recv(&task, 1, MPI_INT, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (task < 0)
            return;
        work(4000 + 1500 * (task % 5));
        MPI_Send(&result, 1, MPI_DOUBLE, 0, 3, MPI_COMM_WORLD);
    }
}

int main(int argc, char **argv)
{
    int rank, ranks;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (rank == 0)
        master(ranks);
    else
        worker(rank);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
