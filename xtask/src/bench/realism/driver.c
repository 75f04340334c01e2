/* Times each repeat of kernels: natively in cycles of a chain of additions, in a guest in nanoseconds.
 *
 * driver native|guest REPEATS KERNEL...: a line for each kernel with the cycles of each repeat after the first. A
 * guest's clock is 1 GHz, so its nanoseconds are cycles. The native clock is measured before and after each repeat,
 * and the faster one counts: a slower one was disturbed. */
#ifdef PROGRAMS
#include "programs.c"
#else
#define main kernels_main
#include "kernels.c"
#undef main
#endif
#include "clock.h"

static double cycles(uint64_t (*run)(void), int guest, uint64_t *sum)
{
    double rate = guest ? 1e9 : clock_rate();
    clockid_t clock = guest ? CLOCK_MONOTONIC : CLOCK_THREAD_CPUTIME_ID;
    double start = seconds(clock);
    *sum = *sum * 31 + run();
    double taken = seconds(clock) - start;
    double after = guest ? rate : clock_rate();
    return taken * (after > rate ? after : rate);
}

int main(int argc, char **argv)
{
    if (argc < 4)
        return 2;
    int guest = strcmp(argv[1], "guest") == 0, repeats = atoi(argv[2]);
    for (int name = 3; name < argc; name++)
        for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++) {
            if (strcmp(argv[name], kernels[i].name) != 0)
                continue;
            uint64_t sum = kernels[i].run();
            printf("REALISM %s", kernels[i].name);
            for (int repeat = 0; repeat < repeats; repeat++)
                printf(" %.0f", cycles(kernels[i].run, guest, &sum));
            printf(" sum %016" PRIx64 "\n", sum);
            fflush(stdout);
        }
    return 0;
}
