/* Three or more processes that call MPI in many ways: the same source is built against MPICH's own interface and against the standard
 * ABI. Numbers of the interface are named, never written. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

static int rank, size, data[4096];

static void messages(void)
{
    MPI_Status status;
    int flag = 0;
    if (rank == 0) {
        for (int i = 1; i < size; i++) {
            /* One at a time: so it is known which message comes. */
            MPI_Send(data, 0, MPI_INT, i, 1, MPI_COMM_WORLD);
            MPI_Recv(data, 4096, MPI_INT, MPI_ANY_SOURCE, i % 2 ? MPI_ANY_TAG : 10 + i, MPI_COMM_WORLD, &status);
            MPI_Send(data, 0, MPI_INT, i, 1, MPI_COMM_WORLD);
            MPI_Recv(data, 4096, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
        for (int i = 1; i < size; i++)
            MPI_Send(data, 0, MPI_INT, i, 2, MPI_COMM_WORLD);
        MPI_Recv(data, 10, MPI_INT, 1, 77, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Probe(1, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
        MPI_Recv(data, 4096, MPI_BYTE, status.MPI_SOURCE, status.MPI_TAG, MPI_COMM_WORLD, &status);
        MPI_Recv(data, 10, MPI_INT, MPI_PROC_NULL, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
        MPI_Send(data, 10, MPI_INT, MPI_PROC_NULL, 3, MPI_COMM_WORLD);
        MPI_Iprobe(MPI_PROC_NULL, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, &status);
    } else {
        for (int i = 0; i < 2; i++) {
            MPI_Recv(data, 0, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(data, 100 * rank, MPI_INT, 0, 10 + rank, MPI_COMM_WORLD);
        }
        /* Rank 0 has received all of those. */
        MPI_Recv(data, 0, MPI_INT, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (rank == 1) {
            MPI_Ssend(data, 7, MPI_INT, 0, 77, MPI_COMM_WORLD);
            MPI_Send(data, 33, MPI_BYTE, 0, 78, MPI_COMM_WORLD);
        }
    }
    MPI_Sendrecv(data, 5, MPI_DOUBLE, (rank + 1) % size, 4, data + 1000, 9, MPI_DOUBLE, (rank + size - 1) % size,
                 MPI_ANY_TAG, MPI_COMM_WORLD, &status);
}

static void nonblocking(void)
{
    MPI_Request requests[8];
    MPI_Status statuses[8];
    int count = 0, done, indices[8];
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        for (int i = 1; i < size; i++)
            MPI_Irecv(data + 200 * i, 200, MPI_INT, i, MPI_ANY_TAG, MPI_COMM_WORLD, &requests[count++]);
        requests[count++] = MPI_REQUEST_NULL;
        MPI_Irecv(data, 1, MPI_INT, MPI_PROC_NULL, 1, MPI_COMM_WORLD, &requests[count++]);
        MPI_Waitall(count, requests, statuses);
        MPI_Irecv(data, 200, MPI_INT, MPI_ANY_SOURCE, 6, MPI_COMM_WORLD, &requests[0]);
        /* Rank 2 sends once the receive is posted: otherwise MPICH 5.0.2 over UCX was seen to wait for ever, by both interfaces. */
        MPI_Send(data, 0, MPI_INT, 2, 7, MPI_COMM_WORLD);
        MPI_Waitsome(1, requests, &done, indices, statuses);
        MPI_Irecv(data, 200, MPI_INT, 2, 99, MPI_COMM_WORLD, &requests[0]);
        MPI_Cancel(&requests[0]);
        MPI_Wait(&requests[0], &statuses[0]);
    } else {
        MPI_Isend(data, 20 * rank, MPI_INT, 0, 5, MPI_COMM_WORLD, &requests[0]);
        MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
        if (rank == 2) {
            MPI_Recv(data, 0, MPI_INT, 0, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(data, 11, MPI_INT, 0, 6, MPI_COMM_WORLD);
        }
    }
    /* Persistent requests around a ring, twice. */
    MPI_Send_init(data, 13, MPI_INT, (rank + 1) % size, 8, MPI_COMM_WORLD, &requests[0]);
    MPI_Recv_init(data + 100, 50, MPI_INT, (rank + size - 1) % size, 8, MPI_COMM_WORLD, &requests[1]);
    for (int i = 0; i < 2; i++) {
        MPI_Startall(2, requests);
        MPI_Waitall(2, requests, statuses);
    }
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
}

static void collectives(void)
{
    int counts[16], places[16];
    MPI_Request request;
    MPI_Bcast(data, 50, MPI_LONG, 1, MPI_COMM_WORLD);
    MPI_Allreduce(MPI_IN_PLACE, data, 6, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Reduce(rank == 2 ? MPI_IN_PLACE : data, data, 4, MPI_DOUBLE, MPI_MAX, 2, MPI_COMM_WORLD);
    for (int i = 0; i < size; i++) {
        counts[i] = i + 1;
        places[i] = 10 * i;
    }
    MPI_Gatherv(data, rank + 1, MPI_SHORT, data + 1000, counts, places, MPI_SHORT, 0, MPI_COMM_WORLD);
    MPI_Iallreduce(data, data + 500, 3, MPI_FLOAT, MPI_MIN, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Alltoall(data, 2, MPI_CHAR, data + 500, 2, MPI_CHAR, MPI_COMM_WORLD);
}

static void communicators(void)
{
    MPI_Comm half, node, grid, between;
    MPI_Group all, first;
    MPI_Status status;
    int one = 0, dims[1] = {size}, periods[1] = {0}, left, right, word = 0;
    MPI_Comm_split(MPI_COMM_WORLD, rank ? 0 : MPI_UNDEFINED, -rank, &half);
    if (half != MPI_COMM_NULL) {
        MPI_Allreduce(MPI_IN_PLACE, data, 2, MPI_INT, MPI_BOR, half);
        MPI_Comm_free(&half);
    }
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    MPI_Barrier(node);
    MPI_Comm_free(&node);
    MPI_Cart_create(MPI_COMM_WORLD, 1, dims, periods, 0, &grid);
    MPI_Cart_shift(grid, 0, 1, &left, &right);
    MPI_Sendrecv(&rank, 1, MPI_INT, right, 2, &word, 1, MPI_INT, left, 2, grid, &status);
    MPI_Neighbor_allgather(&rank, 1, MPI_INT, data, 1, MPI_INT, grid);
    MPI_Comm_free(&grid);
    MPI_Comm_group(MPI_COMM_WORLD, &all);
    MPI_Group_incl(all, 1, &one, &first);
    MPI_Comm_create(MPI_COMM_WORLD, first, &half);
    if (half != MPI_COMM_NULL)
        MPI_Comm_free(&half);
    MPI_Group_free(&first);
    MPI_Group_free(&all);
    /* Between rank 0 and all others: rank 0 is the root. */
    MPI_Comm_split(MPI_COMM_WORLD, rank > 0, 0, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, rank ? 0 : 1, 12, &between);
    MPI_Bcast(data, 21, MPI_INT, rank ? 0 : MPI_ROOT, between);
    MPI_Comm_free(&between);
    MPI_Comm_free(&half);
}

static void datatypes(void)
{
    MPI_Datatype column, record, part, copy;
    MPI_Status status;
    int lengths[2] = {3, 2}, sizes[2] = {8, 8}, some[2] = {2, 5}, starts[2] = {1, 1};
    int distribution[1] = {MPI_DISTRIBUTE_BLOCK}, arguments[1] = {MPI_DISTRIBUTE_DFLT_DARG}, whole[1] = {40};
    MPI_Aint places[2] = {0, 24};
    MPI_Datatype types[2] = {MPI_DOUBLE, MPI_INT32_T};
    int to = (rank + 1) % size, from = (rank + size - 1) % size;
    MPI_Type_vector(6, 2, 5, MPI_INT, &column);
    MPI_Type_create_struct(2, lengths, places, types, &record);
    MPI_Type_create_subarray(2, sizes, some, starts, MPI_ORDER_C, MPI_FLOAT, &part);
    MPI_Type_dup(MPI_INT, &copy);
    MPI_Type_commit(&column);
    MPI_Type_commit(&record);
    MPI_Type_commit(&part);
    MPI_Sendrecv(data, 1, column, to, 1, data + 1000, 12, MPI_INT, from, 1, MPI_COMM_WORLD, &status);
    MPI_Sendrecv(data, 2, record, to, 1, data + 1000, 2, record, from, 1, MPI_COMM_WORLD, &status);
    MPI_Sendrecv(data, 1, part, to, 1, data + 1000, 1, part, from, 1, MPI_COMM_WORLD, &status);
    MPI_Sendrecv(data, 9, copy, to, 1, data + 1000, 9, MPI_INT, from, 1, MPI_COMM_WORLD, &status);
    MPI_Type_free(&copy);
    MPI_Type_free(&part);
    MPI_Type_create_darray(size, rank, 1, whole, distribution, arguments, &size, MPI_ORDER_C, MPI_INT, &part);
    MPI_Type_commit(&part);
    if (rank == 0)
        MPI_Send(data, 1, part, 0 + 1, 2, MPI_COMM_WORLD);
    if (rank == 1)
        MPI_Recv(data, 4096, MPI_BYTE, 0, 2, MPI_COMM_WORLD, &status);
    MPI_Type_free(&part);
    MPI_Type_free(&record);
    MPI_Type_free(&column);
}

static void windows(void)
{
    MPI_Win window;
    MPI_Win_create(data, sizeof(data), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    MPI_Win_fence(MPI_MODE_NOPRECEDE, window);
    if (rank)
        MPI_Put(data, 8, MPI_INT, 0, 8 * rank, 8, MPI_INT, window);
    MPI_Win_fence(MPI_MODE_NOSUCCEED, window);
    MPI_Win_lock(MPI_LOCK_SHARED, 0, MPI_MODE_NOCHECK, window);
    MPI_Get(data + 1000, 5, MPI_INT, 0, 0, 5, MPI_INT, window);
    MPI_Win_unlock(0, window);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, size - 1, 0, window);
    MPI_Accumulate(data, 5, MPI_INT, size - 1, 0, 5, MPI_INT, MPI_SUM, window);
    MPI_Win_unlock(size - 1, window);
    MPI_Win_free(&window);
}

/* Receives that are too short, and a rank that is none. */
static void errors(void)
{
    MPI_Request requests[2];
    MPI_Status statuses[2];
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (rank == 0) {
        MPI_Irecv(data, 1, MPI_INT, 1, 3, MPI_COMM_WORLD, &requests[0]);
        MPI_Irecv(data + 10, 10, MPI_INT, 1, 4, MPI_COMM_WORLD, &requests[1]);
        MPI_Barrier(MPI_COMM_WORLD);
        int result = MPI_Waitall(2, requests, statuses);
        if (result == MPI_ERR_IN_STATUS && statuses[1].MPI_ERROR == MPI_ERR_PENDING)
            MPI_Wait(&requests[1], &statuses[1]);
        MPI_Send(data, 1, MPI_INT, size, 0, MPI_COMM_WORLD);
    } else {
        if (rank == 1) {
            MPI_Send(data, 7, MPI_INT, 0, 3, MPI_COMM_WORLD);
            MPI_Send(data, 7, MPI_INT, 0, 4, MPI_COMM_WORLD);
        }
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

int main(int argc, char **argv)
{
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    messages();
    nonblocking();
    collectives();
    communicators();
    datatypes();
    windows();
    errors();
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        printf("WELL\n");
    MPI_Finalize();
    return 0;
}
