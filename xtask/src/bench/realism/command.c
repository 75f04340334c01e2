/* Times a command, again and again: natively its processor time in cycles of a chain of additions, in a guest its
 * duration in nanoseconds, which are cycles of a clock of 1 GHz.
 *
 * command native|guest REPEATS NAME COMMAND...: a line as driver.c prints it. The output of the command is discarded. */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"

/* Processor time of all children so far. */
static double children(void)
{
    struct rusage used;
    getrusage(RUSAGE_CHILDREN, &used);
    return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
           (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1e-6;
}

static double cycles(char **command, int guest)
{
    double rate = guest ? 1e9 : clock_rate();
    double start = guest ? seconds(CLOCK_MONOTONIC) : children();
    pid_t child = fork();
    if (child == 0) {
        int nowhere = open("/dev/null", O_WRONLY);
        dup2(nowhere, 1);
        execv(command[0], command);
        _exit(127);
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
        fprintf(stderr, "%s failed: status %d\n", command[0], status);
        exit(1);
    }
    double taken = (guest ? seconds(CLOCK_MONOTONIC) : children()) - start;
    double after = guest ? rate : clock_rate();
    return taken * (after > rate ? after : rate);
}

int main(int argc, char **argv)
{
    if (argc < 5)
        return 2;
    int guest = strcmp(argv[1], "guest") == 0, repeats = atoi(argv[2]);
    cycles(argv + 4, guest);
    printf("REALISM %s", argv[3]);
    for (int repeat = 0; repeat < repeats; repeat++)
        printf(" %.0f", cycles(argv + 4, guest));
    printf(" sum 0\n");
    return 0;
}
