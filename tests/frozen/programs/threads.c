/* Two threads in each rank send and receive at once, under tags of their own. */
#include "work.h"
#include <mpi.h>
#include <pthread.h>

static int rank, ranks;

static void *exchange(void *argument)
{
    int tag = (int)(long)argument;
    static double in[2][128], out[2][128];
    MPI_Request request;
    for (int turn = 0; turn < 5; turn++) {
        MPI_Irecv(in[tag], 128, MPI_DOUBLE, (rank + ranks - 1) % ranks, tag, MPI_COMM_WORLD, &request);
        work(1000 * (1 + tag));
        MPI_Send(out[tag], 128, MPI_DOUBLE, (rank + 1) % ranks, tag, MPI_COMM_WORLD);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    return 0;
}

int main(int argc, char **argv)
{
    int provided;
    pthread_t other;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    pthread_create(&other, 0, exchange, (void *)1);
    exchange((void *)0);
    pthread_join(other, 0);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
