/* Leads the loader to files of the Slurm image, as an auditing library (rtld-audit(7)).
 *
 * Programs and plugins of the image open some libraries by the path at which the distribution installs them. On a node that path is in the image's root
 * file system below TREE; a file that is not there is looked for where it was asked for. */
#define _GNU_SOURCE
#include <limits.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#define TREE "/run/belljar/slurm"

unsigned int la_version(unsigned int version)
{
    return version < LAV_CURRENT ? version : LAV_CURRENT;
}

char *la_objsearch(const char *name, uintptr_t *cookie, unsigned int flag)
{
    static char path[PATH_MAX];
    (void)cookie;
    if (flag != LA_SER_ORIG || name[0] != '/')
        return (char *)name;
    int length = snprintf(path, sizeof path, TREE "%s", name);
    if (length < 0 || (size_t)length >= sizeof path || access(path, R_OK))
        return (char *)name;
    return path;
}
