/* The main program of HPL. In the HPC Challenge, HPL is one benchmark of several and has none. */
#include "hpl.h"

int HPL_main(int argc, char **argv, HPL_RuntimeData *best, int *failure);

/* Called by every rank when HPL.dat is not as it should be. The HPC Challenge goes on with settings
 * of its own; HPL by itself ends, and so do we. */
int HPCC_Defaults(HPL_T_test *test, int *ns, int *n, int *nbs, int *nb, HPL_T_ORDER *pmapping,
                  int *npqs, int *p, int *q, int *npfs, HPL_T_FACT *pf, int *nbms, int *nbm,
                  int *ndvs, int *ndv, int *nrfs, HPL_T_FACT *rf, int *ntps, HPL_T_TOP *tp,
                  int *ndhs, int *dh, HPL_T_SWAP *fswap, int *tswap, int *l1notran, int *unotran,
                  int *equil, int *align, MPI_Comm comm)
{
    int rank;
    MPI_Comm_rank(comm, &rank);
    if (rank == 0)
        fprintf(stderr, "xhpl: illegal input in HPL.dat\n");
    MPI_Finalize();
    exit(1);
}

int main(int argc, char **argv)
{
    HPL_RuntimeData best = { 0 };
    int rank, failure = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    FILE *input = rank == 0 ? fopen("HPL.dat", "r") : NULL;
    if (rank == 0 && input == NULL) {
        fprintf(stderr, "xhpl: cannot open HPL.dat in the current folder\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    if (input != NULL)
        fclose(input);
    HPL_main(argc, argv, &best, &failure);
    MPI_Finalize();
    return failure ? 1 : 0;
}
