/* Takes memory, a MiB at a time, and touches every page of it, until the kernel has no more. */
#include <stdio.h>
#include <stdlib.h>

enum { MEBIBYTE = 1 << 20, PAGE = 4096 };

int main(void)
{
    for (int taken = 0;; taken++) {
        volatile char *block = malloc(MEBIBYTE);
        if (block == NULL) {
            printf("MEMHOG malloc refused after %d MiB\n", taken);
            return 1;
        }
        for (int at = 0; at < MEBIBYTE; at += PAGE)
            block[at] = 1;
        if (taken % 16 == 15) {
            printf("MEMHOG %d MiB\n", taken + 1);
            fflush(stdout);
        }
    }
}
