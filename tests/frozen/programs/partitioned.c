/* Partitioned messages, whose partitions become ready out of order. */
#include "work.h"
#include <mpi.h>

static double in[1024], out[1024];

int main(int argc, char **argv)
{
    int rank, ranks, arrived;
    MPI_Request send, receive;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    int to = (rank + 1) % ranks, from = (rank + ranks - 1) % ranks;
    MPI_Psend_init(in, 4, 64, MPI_DOUBLE, to, 5, MPI_COMM_WORLD, MPI_INFO_NULL, &send);
    MPI_Precv_init(out, 4, 64, MPI_DOUBLE, from, 5, MPI_COMM_WORLD, MPI_INFO_NULL, &receive);
    for (int turn = 0; turn < 3; turn++) {
        MPI_Start(&receive);
        MPI_Start(&send);
        work(4000 * rank);
        MPI_Pready(2, send);
        MPI_Pready_range(0, 1, send);
        MPI_Pready_list(1, (int[]){3}, send);
        MPI_Parrived(receive, 0, &arrived);
        MPI_Wait(&send, MPI_STATUS_IGNORE);
        MPI_Wait(&receive, MPI_STATUS_IGNORE);
    }
    MPI_Request_free(&send);
    MPI_Request_free(&receive);
    MPI_Finalize();
    return 0;
}
