/* Reads an array again and again, one word of each cache line, between two barriers.
 *
 *   sweep KIB READS
 *
 * With arrays that outgrow one level of caches after the other, it shows what each of them is
 * worth. Every rank prints "SWEEP <rank> <kib> <reads> <sum>". */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { LINE = 64 / sizeof(uint64_t) };

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    long kib = argc > 1 ? atol(argv[1]) : 0, reads = argc > 2 ? atol(argv[2]) : 0;
    uint64_t *array = kib > 0 ? aligned_alloc(4096, (size_t)kib * 1024) : NULL;
    if (array == NULL || reads < 1) {
        fprintf(stderr, "sweep: give it KiB of an array, and reads\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
        return 2;
    }
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    size_t words = (size_t)kib * 1024 / sizeof *array;
    for (size_t i = 0; i < words; i += LINE)
        array[i] = i;
    MPI_Barrier(MPI_COMM_WORLD);
    uint64_t sum = 0;
    size_t at = 0;
    for (long i = 0; i < reads; i++) {
        sum += ((volatile uint64_t *)array)[at];
        at += LINE;
        if (at == words)
            at = 0;
    }
    MPI_Barrier(MPI_COMM_WORLD);
    printf("SWEEP %d %ld %ld %llu\n", rank, kib, reads, (unsigned long long)sum);
    MPI_Finalize();
    return 0;
}
