/* The last rank comes late to calls in which all wait for all, and to scans, which wait for the ranks before. */
#include "work.h"
#include <mpi.h>

static int data[64], sums[64];

int main(int argc, char **argv)
{
    int rank, ranks;
    MPI_Comm copy, half;
    MPI_Win window;
    MPI_Request scan;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    long late = rank == ranks - 1 ? 200000 : 0;
    MPI_Barrier(MPI_COMM_WORLD);
    work(late);
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    work(late);
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
    work(late);
    MPI_Win_create(data, sizeof data, 4, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    work(late);
    MPI_Win_fence(0, window);
    work(late);
    MPI_Win_free(&window);
    work(late);
    MPI_Scan(data, sums, 8, MPI_INT, MPI_SUM, copy);
    MPI_Scan_init(data, sums, 8, MPI_INT, MPI_SUM, copy, MPI_INFO_NULL, &scan);
    for (int turn = 0; turn < 2; turn++) {
        work(late);
        MPI_Start(&scan);
        MPI_Wait(&scan, MPI_STATUS_IGNORE);
    }
    MPI_Request_free(&scan);
    for (int turn = 0; turn < 3; turn++) {
        if (rank == 1)
            MPI_Ssend(data, 8, MPI_INT, 0, 0, half == MPI_COMM_NULL ? copy : MPI_COMM_WORLD);
        if (rank == 0) {
            work(50000);
            MPI_Recv(data, 8, MPI_INT, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
    }
    MPI_Comm_free(&half);
    MPI_Comm_free(&copy);
    MPI_Finalize();
    return 0;
}
