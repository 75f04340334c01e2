/* A ring of messages whose program handles errors itself: it reports an error and ends with exit code 3. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static void check(int code)
{
    if (code == MPI_SUCCESS)
        return;
    char text[MPI_MAX_ERROR_STRING];
    int length;
    MPI_Error_string(code, text, &length);
    fprintf(stderr, "error: %s\n", text);
    exit(3);
}

int main(int argc, char **argv)
{
    int rank, size;
    long value = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int round = 0; round < 30; round++) {
        if (rank == 0) {
            value++;
            check(MPI_Send(&value, 1, MPI_LONG, 1 % size, 0, MPI_COMM_WORLD));
            check(MPI_Recv(&value, 1, MPI_LONG, size - 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        } else {
            check(MPI_Recv(&value, 1, MPI_LONG, rank - 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            value++;
            check(MPI_Send(&value, 1, MPI_LONG, (rank + 1) % size, 0, MPI_COMM_WORLD));
        }
    }
    if (rank == 0)
        printf("value %ld\n", value);
    MPI_Finalize();
    return 0;
}
