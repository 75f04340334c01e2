/* All collective operations, blocking and nonblocking, of several sizes, on the world and on the ranks but the last. With the
   word "ordered": reductions that are not commutative, and few others. Where Open MPI's monitoring stands between the library and its
   point-to-point layer, it counts here, and each rank writes what it sent to whom. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
enum { RANKS = 16, MOST = 9000 };
static unsigned long messages[RANKS], sent[RANKS];
static double out[RANKS * MOST], in[RANKS * MOST];
static MPI_Op op = MPI_SUM;
static MPI_Request request;

void mca_common_monitoring_record_pml(int peer, size_t bytes, int tag)
{
    (void)tag;
    messages[peer]++;
    sent[peer] += bytes;
}

static void last(void *from, void *into, int *count, MPI_Datatype *type)
{
    (void)type;
    for (int i = 0; i < *count; i++)
        ((double *)into)[i] = ((double *)from)[i];
}

#define BOTH(name, ...)                          \
    do {                                         \
        MPI_##name(__VA_ARGS__);                 \
        MPI_I##name##_(__VA_ARGS__, &request);   \
        MPI_Wait(&request, MPI_STATUS_IGNORE);   \
    } while (0)
#define MPI_IBcast_ MPI_Ibcast
#define MPI_IGather_ MPI_Igather
#define MPI_IGatherv_ MPI_Igatherv
#define MPI_IScatter_ MPI_Iscatter
#define MPI_IScatterv_ MPI_Iscatterv
#define MPI_IAllgather_ MPI_Iallgather
#define MPI_IAllgatherv_ MPI_Iallgatherv
#define MPI_IAlltoall_ MPI_Ialltoall
#define MPI_IAlltoallv_ MPI_Ialltoallv
#define MPI_IAlltoallw_ MPI_Ialltoallw
#define MPI_IReduce_ MPI_Ireduce
#define MPI_IAllreduce_ MPI_Iallreduce
#define MPI_IReduce_scatter_ MPI_Ireduce_scatter
#define MPI_IReduce_scatter_block_ MPI_Ireduce_scatter_block
#define MPI_IScan_ MPI_Iscan
#define MPI_IExscan_ MPI_Iexscan
#define MPI_IBarrier_ MPI_Ibarrier
#define D MPI_DOUBLE

static void all(int n, int root, MPI_Comm comm)
{
    int rank, size, part[RANKS], from[RANKS], place[RANKS], bytes[RANKS];
    MPI_Datatype types[RANKS];
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    root %= size;
    for (int i = 0; i < size; i++) {
        part[i] = n * (i % 3) / 2;
        from[i] = n * ((rank + i) % 3) / 2;
        place[i] = n * i;
        bytes[i] = n * i * 8;
        types[i] = D;
    }
    BOTH(Barrier, comm);
    BOTH(Bcast, out, n, D, root, comm);
    BOTH(Allgather, out, n, D, in, n, D, comm);
    BOTH(Reduce, out, in, n, D, op, root, comm);
    BOTH(Allreduce, out, in, n, D, op, comm);
    BOTH(Allreduce, MPI_IN_PLACE, in, n, D, op, comm);
    BOTH(Reduce_scatter, out, in, part, D, op, comm);
    BOTH(Reduce_scatter_block, out, in, n, D, op, comm);
    BOTH(Scan, out, in, n, D, op, comm);
    BOTH(Exscan, out, in, n, D, op, comm);
    if (op != MPI_SUM)
        return;
    BOTH(Gather, out, n, D, in, n, D, root, comm);
    BOTH(Gatherv, out, part[rank], D, in, part, place, D, root, comm);
    BOTH(Scatter, out, n, D, in, n, D, root, comm);
    BOTH(Scatterv, out, part, place, D, in, part[rank], D, root, comm);
    BOTH(Allgatherv, out, part[rank], D, in, part, place, D, comm);
    BOTH(Alltoall, out, n, D, in, n, D, comm);
    BOTH(Alltoall, MPI_IN_PLACE, n, D, in, n, D, comm);
    BOTH(Alltoallv, out, from, place, D, in, from, place, D, comm);
    BOTH(Alltoallv, MPI_IN_PLACE, from, place, D, in, from, place, D, comm);
    BOTH(Alltoallw, out, from, bytes, types, in, from, bytes, types, comm);
    BOTH(Alltoallw, MPI_IN_PLACE, from, bytes, types, in, from, bytes, types, comm);
}

int main(int argc, char **argv)
{
    static const int counts[] = {0, 1, 40, 700, MOST};
    int rank, size;
    MPI_Comm but_one;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_split(MPI_COMM_WORLD, rank + 1 < size, rank, &but_one);
    if (argc > 1)
        MPI_Op_create(last, 0, &op);
    for (int i = 0; i < RANKS; i++)
        messages[i] = sent[i] = 0;
    for (int i = 0; i < (argc > 1 ? 4 : 5); i++) {
        all(counts[i], i, MPI_COMM_WORLD);
        all(counts[i], i, but_one);
    }
    for (int i = 0; i < size; i++)
        if (messages[i] && i != rank)
            printf("SENT %d %d %lu %lu\n", rank, i, messages[i], sent[i]);
    MPI_Finalize();
    return 0;
}
