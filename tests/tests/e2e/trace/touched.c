/* Loads and stores of memory that operations of MPI own. With an argument, the same calls with accesses to neighbours alone. */
#include <mpi.h>

static int sent[4], received[4], other[4], window[4], origin[2];

int main(int argc, char **argv)
{
    int rank, neighbours = argc > 1, sum = 0;
    int near = neighbours ? 2 : 0;
    MPI_Request request;
    MPI_Win win;
    volatile int *touched;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Win_create(window, sizeof window, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    if (rank == 0) {
        MPI_Isend(sent, 2, MPI_INT, 1, 0, MPI_COMM_WORLD, &request);
        sum += sent[0];
        touched = &sent[near];
        *touched = 1;
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        sent[0] = 2;
    } else {
        MPI_Irecv(received, 2, MPI_INT, 0, 0, MPI_COMM_WORLD, &request);
        touched = &received[near + 1];
        sum += *touched;
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        sum += received[0];
    }
    if (rank == 0) {
        MPI_Send_init(other, 2, MPI_INT, 1, 1, MPI_COMM_WORLD, &request);
        other[0] = 3;
        MPI_Start(&request);
        touched = &other[near];
        *touched += 4;
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        other[1] = 5;
        MPI_Request_free(&request);
    } else {
        MPI_Recv(other, 2, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    window[0] = 6;
    MPI_Win_fence(0, win);
    if (rank == 0) {
        MPI_Put(origin, 2, MPI_INT, 1, 0, 2, MPI_INT, win);
        touched = &origin[0];
        if (!neighbours)
            *touched = 7;
    } else {
        touched = &window[near];
        *touched = 8;
    }
    MPI_Win_fence(0, win);
    window[0] = sum;
    MPI_Win_free(&win);
    MPI_Finalize();
    return sum == 100;
}
