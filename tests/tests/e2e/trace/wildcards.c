/* Rank 0 receives from any source in many ways and asks for no status. Each message holds its sender, tag and length; rank 0 prints
 * these, in the order in which its calls complete them. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#define MOST 64
#define ROOM 60000

static int rank, size, data[MOST][ROOM];
static unsigned seed;

static unsigned next(unsigned below)
{
    seed = seed * 1103515245u + 12345u;
    return (seed >> 16) % below;
}

/* What way number `way` is about: every worker sends rank 0 so many messages, each at a time of its own. */
static void send(int way, int messages, int large)
{
    for (int i = 0; i < messages; i++) {
        int tag = 100 * way + (int)next(90), count = 3 + (int)next(50) + (large ? 50000 : 0);
        volatile double x = 1;
        for (unsigned turn = next(6000); turn > 0; turn--)
            x = x * 1.0000001;
        data[0][0] = rank;
        data[0][1] = tag;
        data[0][2] = count;
        MPI_Send(data[0], count, MPI_INT, 0, tag, MPI_COMM_WORLD);
    }
}

static void got(const int *buffer)
{
    printf("GOT %d %d %d\n", buffer[0], buffer[1], 4 * buffer[2]);
}

static void begin(MPI_Request *requests)
{
    for (int i = 0; i < size - 1; i++)
        MPI_Irecv(data[i], ROOM, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &requests[i]);
}

static void persistent(int workers, MPI_Request *requests)
{
    for (int i = 0; i < workers; i++)
        MPI_Recv_init(data[i], ROOM, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &requests[i]);
    MPI_Startall(workers, requests);
    MPI_Waitall(workers, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < workers; i++)
        got(data[i]);
    for (int i = 0; i < workers; i++) {
        MPI_Start(&requests[i]);
        MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
        got(data[i]);
        MPI_Request_free(&requests[i]);
    }
}

static void probed(int workers)
{
    for (int i = 0; i < workers; i++) {
        MPI_Message message;
        MPI_Request request;
        if (i % 2) {
            MPI_Mprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE);
            MPI_Mrecv(data[0], ROOM, MPI_INT, &message, MPI_STATUS_IGNORE);
        } else {
            int flag = 0;
            while (!flag)
                MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, &message, MPI_STATUS_IGNORE);
            MPI_Imrecv(data[0], ROOM, MPI_INT, &message, &request);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        }
        got(data[0]);
    }
}

static void some(int workers, MPI_Request *requests)
{
    int indices[MOST], count;
    begin(requests);
    for (int left = workers; left > 0; left -= count) {
        MPI_Waitsome(workers, requests, &count, indices, MPI_STATUSES_IGNORE);
        for (int i = 0; i < count; i++)
            got(data[indices[i]]);
    }
}

static void receive(int way, int workers, MPI_Request *requests)
{
    int flag = 0, index, word = 7;
    MPI_Datatype pairs;
    switch (way) {
    case 1: /* blocking, any tag */
    case 8: /* the same, large */
        for (int i = 0; i < workers; i++) {
            MPI_Recv(data[0], ROOM, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            got(data[0]);
        }
        break;
    case 2:
        begin(requests);
        MPI_Waitall(workers, requests, MPI_STATUSES_IGNORE);
        for (int i = 0; i < workers; i++)
            got(data[i]);
        break;
    case 3:
        for (int i = 0; i < workers; i++, flag = 0) {
            MPI_Irecv(data[0], ROOM, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, requests);
            while (!flag)
                MPI_Test(requests, &flag, MPI_STATUS_IGNORE);
            got(data[0]);
        }
        break;
    case 4:
        begin(requests);
        for (int i = 0; i < workers; i++) {
            MPI_Waitany(workers, requests, &index, MPI_STATUS_IGNORE);
            got(data[index]);
        }
        break;
    case 5:
        persistent(workers, requests);
        break;
    case 6:
        for (int i = 0; i < workers; i++) {
            MPI_Sendrecv(&word, 1, MPI_INT, i + 1, 9, data[0], ROOM, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG,
                         MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            got(data[0]);
        }
        break;
    case 7:
        probed(workers);
        break;
    case 9:
        some(workers, requests);
        break;
    case 10:
        begin(requests);
        while (!flag)
            MPI_Testall(workers, requests, &flag, MPI_STATUSES_IGNORE);
        for (int i = 0; i < workers; i++)
            got(data[i]);
        break;
    case 11: /* from one process, with a datatype that is not contiguous */
        MPI_Type_vector(ROOM / 16, 8, 16, MPI_INT, &pairs);
        MPI_Type_commit(&pairs);
        for (int i = 0; i < workers; i++) {
            MPI_Recv(data[0], 1, pairs, i + 1, MPI_ANY_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            got(data[0]);
        }
        MPI_Type_free(&pairs);
        break;
    }
}

int main(int argc, char **argv)
{
    MPI_Request requests[MOST];
    int word;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    seed = 17u * (unsigned)rank + 1;
    for (int way = 1; way <= 11; way++) {
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == 0)
            receive(way, size - 1, requests);
        else
            send(way, way == 5 ? 2 : 1, way >= 8 && way <= 10);
        if (rank && way == 6)
            MPI_Recv(&word, 1, MPI_INT, 0, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    MPI_Finalize();
    return 0;
}
