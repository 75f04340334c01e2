/* Persistent operations: sends in all modes, receives, and collective operations, started one by one and together. */
#include "work.h"
#include <mpi.h>

static double in[512], out[512];
static char room[1 << 16];

int main(int argc, char **argv)
{
    int rank, ranks, size = sizeof room;
    void *freed;
    MPI_Request each[8], scan, barrier, reduce;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Buffer_attach(room, size);
    int to = (rank + 1) % ranks, from = (rank + ranks - 1) % ranks;
    MPI_Recv_init(out, 64, MPI_DOUBLE, from, 1, MPI_COMM_WORLD, &each[0]);
    MPI_Recv_init(out + 64, 64, MPI_DOUBLE, MPI_ANY_SOURCE, 2, MPI_COMM_WORLD, &each[1]);
    MPI_Recv_init(out + 128, 64, MPI_DOUBLE, from, 3, MPI_COMM_WORLD, &each[2]);
    MPI_Recv_init(out + 192, 64, MPI_DOUBLE, from, 4, MPI_COMM_WORLD, &each[3]);
    MPI_Send_init(in, 64, MPI_DOUBLE, to, 1, MPI_COMM_WORLD, &each[4]);
    MPI_Ssend_init(in, 64, MPI_DOUBLE, to, 2, MPI_COMM_WORLD, &each[5]);
    MPI_Bsend_init(in, 64, MPI_DOUBLE, to, 3, MPI_COMM_WORLD, &each[6]);
    MPI_Rsend_init(in, 64, MPI_DOUBLE, to, 4, MPI_COMM_WORLD, &each[7]);
    MPI_Scan_init(in, out, 8, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &scan);
    MPI_Barrier_init(MPI_COMM_WORLD, MPI_INFO_NULL, &barrier);
    MPI_Reduce_init(in, out + 256, 8, MPI_DOUBLE, MPI_SUM, 1, MPI_COMM_WORLD, MPI_INFO_NULL, &reduce);
    for (int turn = 0; turn < 4; turn++) {
        MPI_Startall(4, each);
        MPI_Start(&barrier);
        MPI_Wait(&barrier, MPI_STATUS_IGNORE);
        work(5000 * rank);
        for (int i = 4; i < 8; i++)
            MPI_Start(&each[i]);
        MPI_Waitall(8, each, MPI_STATUSES_IGNORE);
        work(rank == ranks - 1 ? 30000 : 100);
        MPI_Start(&scan);
        MPI_Wait(&scan, MPI_STATUS_IGNORE);
        MPI_Start(&reduce);
        MPI_Wait(&reduce, MPI_STATUS_IGNORE);
    }
    for (int i = 0; i < 8; i++)
        MPI_Request_free(&each[i]);
    MPI_Request_free(&scan);
    MPI_Request_free(&barrier);
    MPI_Request_free(&reduce);
    MPI_Buffer_detach(&freed, &size);
    MPI_Finalize();
    return 0;
}
