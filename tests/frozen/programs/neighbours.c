/* All neighbourhood operations, on a Cartesian grid and on a distributed graph. */
#include "work.h"
#include <mpi.h>

static double in[512], out[512];
static int counts[4] = {8, 8, 8, 8}, places[4] = {0, 8, 16, 24};
static MPI_Aint bytes[4] = {0, 64, 128, 192};

static void operations(MPI_Comm comm)
{
    MPI_Request request;
    MPI_Datatype types[4] = {MPI_DOUBLE, MPI_DOUBLE, MPI_DOUBLE, MPI_DOUBLE};
    MPI_Neighbor_allgather(in, 8, MPI_DOUBLE, out, 8, MPI_DOUBLE, comm);
    MPI_Neighbor_allgatherv(in, 8, MPI_DOUBLE, out, counts, places, MPI_DOUBLE, comm);
    MPI_Neighbor_alltoall(in, 8, MPI_DOUBLE, out, 8, MPI_DOUBLE, comm);
    MPI_Neighbor_alltoallv(in, counts, places, MPI_DOUBLE, out, counts, places, MPI_DOUBLE, comm);
    MPI_Neighbor_alltoallw(in, counts, bytes, types, out, counts, bytes, types, comm);
    MPI_Ineighbor_alltoall(in, 8, MPI_DOUBLE, out, 8, MPI_DOUBLE, comm, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Ineighbor_allgather(in, 8, MPI_DOUBLE, out, 8, MPI_DOUBLE, comm, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

int main(int argc, char **argv)
{
    int rank, ranks, dimensions[2] = {0, 0}, around[2] = {1, 0}, from, to;
    MPI_Comm grid, graph;
    MPI_Request request;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Dims_create(ranks, 2, dimensions);
    MPI_Cart_create(MPI_COMM_WORLD, 2, dimensions, around, 0, &grid);
    from = (rank + ranks - 1) % ranks;
    to = (rank + 1) % ranks;
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, &from, MPI_UNWEIGHTED, 1, &to, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &graph);
    for (int turn = 0; turn < 3; turn++) {
        work(4000 * rank);
        operations(grid);
        operations(graph);
    }
    MPI_Neighbor_alltoall_init(in, 8, MPI_DOUBLE, out, 8, MPI_DOUBLE, graph, MPI_INFO_NULL, &request);
    for (int turn = 0; turn < 2; turn++) {
        work(4000 * rank);
        MPI_Start(&request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    MPI_Request_free(&request);
    MPI_Comm_free(&graph);
    MPI_Comm_free(&grid);
    MPI_Finalize();
    return 0;
}
