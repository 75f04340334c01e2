/* Nonblocking sends in all modes, receives that are posted early and late, probes with matched receives, and every form of completion. */
#include "work.h"
#include <mpi.h>

static double in[8][8192], out[8][8192];
static char room[1 << 18];

static void exchange(int rank, int ranks, int turn)
{
    int to = (rank + 1) % ranks, from = (rank + ranks - 1) % ranks, done, indices[8];
    MPI_Request all[8];
    MPI_Status statuses[8];
    for (int i = 0; i < 3; i++)
        MPI_Irecv(in[i], 8192, MPI_DOUBLE, i == 1 ? MPI_ANY_SOURCE : from, i == 2 ? MPI_ANY_TAG : i, MPI_COMM_WORLD, &all[i]);
    MPI_Barrier(MPI_COMM_WORLD);
    work(3000 * rank);
    MPI_Isend(out[0], turn % 2 ? 8192 : 8, MPI_DOUBLE, to, 0, MPI_COMM_WORLD, &all[4]);
    MPI_Issend(out[1], 16, MPI_DOUBLE, to, 1, MPI_COMM_WORLD, &all[5]);
    MPI_Ibsend(out[2], 32, MPI_DOUBLE, to, 2, MPI_COMM_WORLD, &all[6]);
    MPI_Irsend(out[3], 8, MPI_DOUBLE, MPI_PROC_NULL, 3, MPI_COMM_WORLD, &all[7]);
    MPI_Irecv(in[3], 8, MPI_DOUBLE, from, 4, MPI_COMM_WORLD, &all[3]);
    MPI_Bsend(out[4], 8, MPI_DOUBLE, to, 4, MPI_COMM_WORLD);
    MPI_Waitany(4, all, &done, statuses);
    MPI_Waitsome(8, all, &done, indices, statuses);
    MPI_Testall(8, all, &done, statuses);
    MPI_Waitall(8, all, statuses);
}

static void probes(int rank, int ranks)
{
    MPI_Message message;
    MPI_Status status;
    MPI_Request request;
    int to = (rank + 1) % ranks, from = (rank + ranks - 1) % ranks;
    MPI_Isend(out[0], 20, MPI_DOUBLE, to, 6, MPI_COMM_WORLD, &request);
    MPI_Mprobe(MPI_ANY_SOURCE, 6, MPI_COMM_WORLD, &message, &status);
    MPI_Mrecv(in[0], 20, MPI_DOUBLE, &message, MPI_STATUS_IGNORE);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Isend(out[0], 20, MPI_DOUBLE, to, 7, MPI_COMM_WORLD, &request);
    MPI_Probe(from, 7, MPI_COMM_WORLD, &status);
    MPI_Recv(in[0], 20, MPI_DOUBLE, from, 7, MPI_COMM_WORLD, &status);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

int main(int argc, char **argv)
{
    int rank, ranks, size = sizeof room;
    void *freed;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Buffer_attach(room, size);
    for (int turn = 0; turn < 4; turn++) {
        exchange(rank, ranks, turn);
        probes(rank, ranks);
    }
    if (rank == 0)
        MPI_Ssend(out[0], 8, MPI_DOUBLE, 1, 8, MPI_COMM_WORLD);
    if (rank == 1) {
        work(20000);
        MPI_Recv(in[0], 8, MPI_DOUBLE, 0, 8, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    MPI_Buffer_detach(&freed, &size);
    MPI_Finalize();
    return 0;
}
