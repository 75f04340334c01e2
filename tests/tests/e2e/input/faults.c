// Preloaded into belljar, makes calls fail that write below the folder $FAULTS_BELOW:
//
//   FAULTS_FILE=TEXT   all on files whose paths have this in them
//   FAULTS_AT=N        the Nth of them all, from 1, and that alone
//   FAULTS_COUNT=FILE  none; how many there were is written there at the end
//
// What writes fails with ENOSPC, what syncs with EIO.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static long calls;

static int is_below(const char *path) {
    const char *below = getenv("FAULTS_BELOW");
    return below && strncmp(path, below, strlen(below)) == 0;
}

// Whether the call on `path` fails.
static int is_hit(const char *path) {
    if (!is_below(path)) return 0;
    const char *file = getenv("FAULTS_FILE"), *at = getenv("FAULTS_AT");
    long call = __atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED);
    return (file && strstr(path, file)) || (at && call == atol(at));
}

static int is_hit_open(int fd) {
    char link[64], path[PATH_MAX + 1];
    int before = errno;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, PATH_MAX);
    errno = before;
    if (length < 0) return 0;
    path[length] = 0;
    return is_hit(path);
}

static int is_hit_at(int folder, const char *name) {
    char link[64], path[2 * PATH_MAX + 2];
    ssize_t length = 0;
    if (*name != '/') {
        snprintf(link, sizeof link, "/proc/self/fd/%d", folder);
        length = readlink(folder < 0 ? "/proc/self/cwd" : link, path, PATH_MAX);
        if (length < 0) return 0;
        path[length++] = '/';
    }
    snprintf(path + length, sizeof path - length, "%s", name);
    return is_hit(path);
}

__attribute__((destructor)) static void count(void) {
    const char *file = getenv("FAULTS_COUNT");
    FILE *to = file ? fopen(file, "w") : NULL;
    if (to) fprintf(to, "%ld", calls), fclose(to);
}

#define FAIL(hit, with) do { if (hit) { errno = (with); return -1; } } while (0)
#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

ssize_t write(int fd, const void *bytes, size_t length) {
    FAIL(is_hit_open(fd), ENOSPC);
    return REAL(write)(fd, bytes, length);
}
ssize_t writev(int fd, const struct iovec *pieces, int count) {
    FAIL(is_hit_open(fd), ENOSPC);
    return REAL(writev)(fd, pieces, count);
}
ssize_t pwrite64(int fd, const void *bytes, size_t length, off64_t at) {
    FAIL(is_hit_open(fd), ENOSPC);
    return REAL(pwrite64)(fd, bytes, length, at);
}
ssize_t copy_file_range(int from, off64_t *at, int to, off64_t *to_at, size_t length, unsigned flags) {
    FAIL(is_hit_open(to), ENOSPC);
    return REAL(copy_file_range)(from, at, to, to_at, length, flags);
}
int ftruncate64(int fd, off64_t length) {
    FAIL(is_hit_open(fd), ENOSPC);
    return REAL(ftruncate64)(fd, length);
}
int fsync(int fd) {
    FAIL(is_hit_open(fd), EIO);
    return REAL(fsync)(fd);
}
int rename(const char *from, const char *to) {
    FAIL(is_hit_at(-1, to), ENOSPC);
    return REAL(rename)(from, to);
}
int renameat(int from_folder, const char *from, int folder, const char *to) {
    FAIL(is_hit_at(folder, to), ENOSPC);
    return REAL(renameat)(from_folder, from, folder, to);
}
int renameat2(int from_folder, const char *from, int folder, const char *to, unsigned flags) {
    FAIL(is_hit_at(folder, to), ENOSPC);
    return REAL(renameat2)(from_folder, from, folder, to, flags);
}
