/* Rank 0 tells every rank the first of its rows; each rank sums its own. */
#include <mpi.h>
#include <stdio.h>

#define ROWS 1000000

static double rows[ROWS];

static double sum(int start, int size)
{
	double sum = 0;
	for (int row = start; row < start + ROWS / size; row++)
		sum += rows[row];
	return sum;
}

int main(int argc, char **argv)
{
	int rank, size, start = 0;
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	if (rank == 0) {
		for (int to = 1; to < size; to++) {
			int first = to * 1000000000 / size / (1000000000 / ROWS);
			MPI_Send(&first, 1, MPI_INT, to, 0, MPI_COMM_WORLD);
		}
	} else {
		MPI_Recv(&start, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	}
	double mine = sum(start, size), all;
	MPI_Reduce(&mine, &all, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
	if (rank == 0)
		printf("%.1f\n", all);
	MPI_Finalize();
	return 0;
}
