/* Starts itself again and again, one process at a time, and adds up their exit codes.
 *
 *   forkexec [COUNT]         prints "FORKEXEC <count> <sum>", the sum being of i modulo 7 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int run_one(int code)
{
    char text[16];
    snprintf(text, sizeof text, "%d", code);
    pid_t child = fork();
    if (child < 0)
        return -1;
    if (child == 0) {
        char *arguments[] = { "forkexec", "--exit", text, NULL };
        execv("/proc/self/exe", arguments);
        _exit(127);
    }
    int status;
    if (waitpid(child, &status, 0) != child || !WIFEXITED(status))
        return -1;
    return WEXITSTATUS(status);
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "--exit") == 0)
        return atoi(argv[2]);
    int count = argc > 1 ? atoi(argv[1]) : 20, sum = 0;
    for (int i = 0; i < count; i++) {
        int code = run_one(i % 7);
        if (code != i % 7) {
            fprintf(stderr, "forkexec: process %d gave %d, not %d\n", i, code, i % 7);
            return 1;
        }
        sum += code;
    }
    printf("FORKEXEC %d %d\n", count, sum);
    return 0;
}
