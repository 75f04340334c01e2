/* An integer loop: xorshift steps with a multiply, a rotate and a branch that is hard to foresee.
 *
 *   intloop [STEPS]          prints "INTLOOP <steps> <result>" */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    uint64_t steps = argc > 1 ? strtoull(argv[1], NULL, 10) : 100000000;
    uint64_t state = 0x9e3779b97f4a7c15, sum = 0;
    for (uint64_t i = 0; i < steps; i++) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        if (state & 1)
            sum += state * 0xff51afd7ed558ccd;
        else
            sum = (sum << 9 | sum >> 55) ^ i;
    }
    printf("INTLOOP %" PRIu64 " %016" PRIx64 "\n", steps, sum);
    return 0;
}
