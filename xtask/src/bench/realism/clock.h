/* Clocks, and the rate of this processor's. */
#include <stdint.h>
#include <time.h>

static double seconds(clockid_t clock)
{
    struct timespec at;
    clock_gettime(clock, &at);
    return (double)at.tv_sec + (double)at.tv_nsec * 1e-9;
}

/* Cycles per second of thread time: an addition takes one cycle. */
static double clock_rate(void)
{
    double best = 1e9;
    for (int round = 0; round < 4; round++) {
        uint64_t sum = 0, left = 20000, one = 1;
        double start = seconds(CLOCK_THREAD_CPUTIME_ID);
        __asm__ volatile("1:\n .rept 50\n add %2, %0\n .endr\n dec %1\n jnz 1b\n" : "+r"(sum), "+r"(left) : "r"(one));
        double taken = seconds(CLOCK_THREAD_CPUTIME_ID) - start;
        best = taken < best ? taken : best;
    }
    return 1e6 / best;
}
