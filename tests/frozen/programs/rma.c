/* One-sided accesses under each synchronisation: fences, locks, flushes, and posts with starts. */
#include "work.h"
#include <mpi.h>

static double own[256], window[256];

static void fences(MPI_Win win, int rank, int ranks)
{
    for (int turn = 0; turn < 3; turn++) {
        MPI_Win_fence(turn ? 0 : MPI_MODE_NOPRECEDE, win);
        work(5000 * rank);
        MPI_Put(own, 32, MPI_DOUBLE, (rank + 1) % ranks, 0, 32, MPI_DOUBLE, win);
        MPI_Accumulate(own, 4, MPI_DOUBLE, (rank + 2) % ranks, 64, 4, MPI_DOUBLE, MPI_SUM, win);
    }
    MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
}

static void locks(MPI_Win win, int rank, int ranks)
{
    MPI_Request request;
    double result, compare = 0, value = rank;
    for (int turn = 0; turn < 3; turn++) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
        MPI_Get(own, 8, MPI_DOUBLE, 0, 0, 8, MPI_DOUBLE, win);
        MPI_Win_unlock(0, win);
    }
    MPI_Win_lock_all(0, win);
    MPI_Rput(own, 16, MPI_DOUBLE, (rank + 1) % ranks, 128, 16, MPI_DOUBLE, win, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Win_flush((rank + 1) % ranks, win);
    MPI_Rget(own, 16, MPI_DOUBLE, (rank + 1) % ranks, 128, 16, MPI_DOUBLE, win, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Fetch_and_op(&value, &result, MPI_DOUBLE, 0, 200, MPI_SUM, win);
    MPI_Win_flush_local(0, win);
    MPI_Get_accumulate(own, 4, MPI_DOUBLE, own + 8, 4, MPI_DOUBLE, 0, 204, 4, MPI_DOUBLE, MPI_SUM, win);
    MPI_Win_flush_all(win);
    long old, wanted = 0, fresh = 1;
    MPI_Compare_and_swap(&fresh, &wanted, &old, MPI_LONG, 0, 220, win);
    MPI_Win_unlock_all(win);
    (void)compare;
}

static void posts(MPI_Win win, int rank, int ranks)
{
    MPI_Group all, next, last;
    int to = (rank + 1) % ranks, from = (rank + ranks - 1) % ranks;
    MPI_Comm_group(MPI_COMM_WORLD, &all);
    MPI_Group_incl(all, 1, &to, &next);
    MPI_Group_incl(all, 1, &from, &last);
    for (int turn = 0; turn < 2; turn++) {
        work(3000 * rank);
        MPI_Win_post(last, 0, win);
        MPI_Win_start(next, 0, win);
        MPI_Put(own, 64, MPI_DOUBLE, to, 0, 64, MPI_DOUBLE, win);
        MPI_Win_complete(win);
        MPI_Win_wait(win);
    }
    MPI_Group_free(&all);
    MPI_Group_free(&next);
    MPI_Group_free(&last);
}

int main(int argc, char **argv)
{
    int rank, ranks;
    MPI_Win win;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Win_create(window, sizeof window, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    fences(win, rank, ranks);
    locks(win, rank, ranks);
    posts(win, rank, ranks);
    MPI_Win_free(&win);
    MPI_Finalize();
    return 0;
}
