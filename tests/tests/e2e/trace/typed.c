/* Derived datatypes of equal sizes: with other type signatures, and overlapping; or with equal ones and gaps ("equal"). */
#include <mpi.h>
#include <string.h>

static MPI_Datatype structure(MPI_Datatype second)
{
    int lengths[] = {1, 1, 1};
    MPI_Aint places[] = {0, 4, 8};
    MPI_Datatype types[] = {MPI_INT, second, MPI_DOUBLE}, made;
    MPI_Type_create_struct(3, lengths, places, types, &made);
    MPI_Type_commit(&made);
    return made;
}

static void message(int rank, MPI_Datatype sent, int number, MPI_Datatype received, int room)
{
    char data[256] = {0};
    if (rank == 0)
        MPI_Send(data, number, sent, 1, 1, MPI_COMM_WORLD);
    else
        MPI_Recv(data, room, received, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void all_to_all(int rank, MPI_Datatype other)
{
    int out[4] = {0}, in[4], counts[] = {2, 2}, places[] = {0, 8};
    MPI_Datatype sent[] = {MPI_INT, MPI_INT}, received[] = {MPI_INT, MPI_INT};
    if (rank == 1)
        received[0] = other;
    MPI_Alltoallw(out, counts, places, sent, in, counts, places, received, MPI_COMM_WORLD);
}

static void columns(int rank, MPI_Datatype column, int second)
{
    int in[16], out[4] = {0};
    MPI_Request requests[2];
    if (rank == 1) {
        MPI_Irecv(in, 1, column, 0, 2, MPI_COMM_WORLD, &requests[0]);
        MPI_Irecv(in + second, 1, column, 0, 3, MPI_COMM_WORLD, &requests[1]);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    } else {
        MPI_Send(out, 4, MPI_INT, 1, 2, MPI_COMM_WORLD);
        MPI_Send(out, 4, MPI_INT, 1, 3, MPI_COMM_WORLD);
    }
}

/* Eight integers, one after the other or every second one, by several constructors. */
static void same(int rank)
{
    int places[] = {0, 2, 4, 6, 8, 10, 12, 14}, twos[] = {1, 1, 1, 1, 1, 1, 1, 1};
    int sizes[] = {4, 4}, parts[] = {4, 2}, starts[] = {0, 1};
    int block[] = {MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_CYCLIC};
    int arguments[] = {MPI_DISTRIBUTE_DFLT_DARG, 1}, grid[] = {1, 2};
    MPI_Datatype all[9];
    MPI_Type_contiguous(8, MPI_INT, &all[0]);
    MPI_Type_vector(8, 1, 2, MPI_INT, &all[1]);
    MPI_Type_create_hvector(8, 1, 8, MPI_INTEGER, &all[2]);
    MPI_Type_indexed(8, twos, places, MPI_INT, &all[3]);
    MPI_Type_create_indexed_block(8, 1, places, MPI_INT, &all[4]);
    MPI_Type_create_subarray(2, sizes, parts, starts, MPI_ORDER_C, MPI_INT, &all[5]);
    MPI_Type_create_darray(2, 1, 2, sizes, block, arguments, grid, MPI_ORDER_FORTRAN, MPI_INT, &all[6]);
    MPI_Type_dup(all[1], &all[7]);
    MPI_Type_create_resized(all[3], 0, 64, &all[8]);
    for (int one = 0; one < 9; one++)
        MPI_Type_commit(&all[one]);
    for (int one = 0; one < 9; one++)
        message(rank, all[one], 1, all[(one + 1) % 9], 2);
    for (int one = 0; one < 9; one++)
        MPI_Type_free(&all[one]);
}

int main(int argc, char **argv)
{
    int rank, is_equal = argc > 1 && strcmp(argv[1], "equal") == 0;
    MPI_Datatype one, other, column;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    one = structure(MPI_INT);
    other = structure(is_equal ? MPI_INT : MPI_FLOAT);
    MPI_Type_vector(4, 1, 4, MPI_INT, &column);
    MPI_Type_commit(&column);
    message(rank, one, 2, other, 3);
    all_to_all(rank, is_equal ? MPI_INT : MPI_FLOAT);
    columns(rank, column, is_equal ? 1 : 0);
    if (is_equal)
        same(rank);
    MPI_Bcast((char[64]){0}, 1, rank == 0 ? one : other, 0, MPI_COMM_WORLD);
    MPI_Type_free(&one);
    MPI_Type_free(&other);
    MPI_Type_free(&column);
    MPI_Finalize();
}
