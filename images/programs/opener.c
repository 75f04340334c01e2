/* Not linked to MPI: opens a plugin that is, as interpreters open extension modules.
 * usage: opener PLUGIN [deep | global] */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

int main(int count, char **arguments)
{
    const char *way = count > 2 ? arguments[2] : "";
    int deep = strcmp(way, "deep") == 0 ? RTLD_DEEPBIND : 0;
    int visible = strcmp(way, "global") == 0 ? RTLD_GLOBAL : RTLD_LOCAL;
    void *plugin = dlopen(arguments[1], RTLD_NOW | visible | deep);
    if (plugin == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    int (*run)(void);
    *(void **)&run = dlsym(plugin, "run");
    return run == NULL ? 1 : run();
}
