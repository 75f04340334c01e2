/* Runs a program of the Slurm image on a node that has any root file system.
 *
 *   NAME [ARGUMENT...]      NAME is a link to this program
 *
 * The image's root file system is mounted at TREE. Its programs need its C library and the other libraries that they were linked to, and the node's
 * root file system may have others or none. The loader of the tree is therefore called by its path, with the tree's folders of libraries. All
 * other paths are those of the node (an absolute link in the tree leads to the node's files, too), and the environment is passed on as it is, so that a program that Slurm starts finds nothing of the tree. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TREE "/run/belljar/slurm"
#define LIBRARIES TREE "/usr/lib/x86_64-linux-gnu"

/* As shells end when a program cannot be started. */
enum { CANNOT_RUN = 126 };

int main(int count, char **words)
{
    static const char *const folders[] = {TREE "/usr/bin", TREE "/usr/sbin"};
    char program[PATH_MAX];
    const char *slash = strrchr(words[0], '/');
    const char *name = slash ? slash + 1 : words[0];
    char **own = calloc((size_t)count + 9, sizeof *own);
    if (!own)
        return CANNOT_RUN;
    snprintf(program, sizeof program, "%s/%s", folders[0], name);
    if (access(program, X_OK))
        snprintf(program, sizeof program, "%s/%s", folders[1], name);
    char *start[] = {TREE "/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2",
                     "--argv0",
                     words[0],
                     "--audit",
                     TREE "/usr/lib/belljar/slurm-paths.so",
                     "--library-path",
                     LIBRARIES ":" LIBRARIES "/slurm-wlm:" TREE "/lib/x86_64-linux-gnu",
                     program};
    memcpy(own, start, sizeof start);
    memcpy(own + sizeof start / sizeof *start, words + 1, (size_t)count * sizeof *words);
    execv(own[0], own);
    fprintf(stderr, "%s: cannot start %s: %s\n", name, program, strerror(errno));
    return CANNOT_RUN;
}
