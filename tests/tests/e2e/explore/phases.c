/* Two phases of an exchange have one tag, and receive from any source: a fast rank's message of the second phase may be taken
   for a message of the first one. */
#include <mpi.h>
#include <stdio.h>

enum { TAG = 222 };

static int receive(void)
{
    int value;
    MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return value;
}

static void send(int value)
{
    MPI_Send(&value, 1, MPI_INT, 0, TAG, MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0) {
        int requests = receive() + receive();
        int row = receive();
        printf("requests %d, row %d\n", requests, row);
        if (row != 100)
            MPI_Abort(MPI_COMM_WORLD, 3);
    } else {
        send(rank);
        if (rank == 1) {
            for (volatile int i = 0; i < 1000000; i++)
                ;
            send(100);
        }
    }
    MPI_Finalize();
}
