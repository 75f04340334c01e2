/* Not linked to MPI: opens a plugin that is, as interpreters open extension modules.
 * usage: opener PLUGIN [deep] */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>

int main(int count, char **arguments)
{
    int deep = count > 2 ? RTLD_DEEPBIND : 0;
    void *plugin = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL | deep);
    if (plugin == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    int (*run)(void);
    *(void **)&run = dlsym(plugin, "run");
    return run == NULL ? 1 : run();
}
