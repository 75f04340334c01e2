/* belljar-collect: carries out commands of the host. Files of this node are requested after the run's last
 * cycle. All processes are stopped then and stay so.
 *
 * Standard input and output are the console /dev/hvc0, in raw mode.
 *
 * A line "kill RANK", or "kill all": sends SIGKILL to the processes that a launcher started as this rank of
 * a job, by their environment. There is no answer.
 *
 * Request: a line "files LIMIT", then one pattern a line, then an empty line. LIMIT is the most
 *          bytes of files that are sent.
 * Answer:  a line "files"; for each file a line "file MODE SIZE NAME" (MODE in octal) and so many
 *          bytes; for one that is left out a line "left SIZE NAME", with SIZE "-" where it is no plain
 *          file or cannot be read; now and then a line "looking"; at the end a line "done".
 *          In NAME, "%XX" stands for a byte that is no printable character, a blank or "%".
 *
 * A pattern is a path in /root, or begins with "/". "*", "?" and "[...]" stand for what they do in a
 * shell, "**" for any number of folders. A pattern that a folder matches takes all that is in it.
 * NAME is the path in /root, or the absolute one without its "/". Links to plain files are sent as
 * these files; folders are not followed through links, nor into other file systems. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { MOST_PATTERNS = 1024, LINE = 8192, CHUNK = 1 << 16, LOOK_EVERY = 512, SETTLE_NS = 10000000 };
#define HOME "/root/"

struct pattern {
    char *path; /* absolute, without "/" at the end */
    int in_home;
};

static struct pattern patterns[MOST_PATTERNS];
static int count;
static unsigned long long room;
static unsigned looked;

static void put(const void *data, size_t size)
{
    const char *at = data;
    while (size > 0) {
        ssize_t done = write(STDOUT_FILENO, at, size);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            _exit(1);
        at += done;
        size -= (size_t)done;
    }
}

static void say(const char *line)
{
    put(line, strlen(line));
}

/* A line of what the host writes, without its end; 0 when nothing comes any more. */
static int get_line(char *line)
{
    size_t used = 0;
    char byte;
    for (;;) {
        ssize_t got = read(STDIN_FILENO, &byte, 1);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return 0;
        if (byte == '\n')
            break;
        if (used < LINE - 1)
            line[used++] = byte;
    }
    line[used] = 0;
    return 1;
}

/* Whether the folders and the name at `path` are those of `pattern`, or the last of them is in a
 * folder that is. */
static int matches(const char *pattern, const char *path)
{
    while (*pattern == '/')
        pattern++;
    while (*path == '/')
        path++;
    if (!*pattern)
        return 1;
    if (!*path)
        return 0;
    size_t own = strcspn(pattern, "/"), part = strcspn(path, "/");
    if (own == 2 && pattern[0] == '*' && pattern[1] == '*') {
        if (!pattern[own])
            return 1;
        return matches(pattern + own, path) || matches(pattern, path + part);
    }
    char wanted[LINE], name[LINE];
    if (own >= LINE || part >= LINE)
        return 0;
    memcpy(wanted, pattern, own);
    wanted[own] = 0;
    memcpy(name, path, part);
    name[part] = 0;
    return fnmatch(wanted, name, FNM_PERIOD) == 0 && matches(pattern + own, path + part);
}

/* Says "KIND... NAME". */
static void tell(const char *kind, const char *name)
{
    static char line[64 + 3 * LINE];
    size_t used = (size_t)snprintf(line, 64, "%s ", kind);
    for (; *name && used < sizeof line - 4; name++) {
        unsigned char byte = (unsigned char)*name;
        if (byte <= ' ' || byte >= 127 || byte == '%')
            used += (size_t)sprintf(line + used, "%%%02X", byte);
        else
            line[used++] = (char)byte;
    }
    line[used++] = '\n';
    put(line, used);
}

static void leave(const char *name, const struct stat *what)
{
    char kind[64] = "left -";
    if (what)
        snprintf(kind, sizeof kind, "left %llu", (unsigned long long)what->st_size);
    tell(kind, name);
}

static void send_file(const char *path, const char *name)
{
    static char data[CHUNK];
    struct stat what;
    int file = -1;
    if (stat(path, &what) == 0 && S_ISREG(what.st_mode))
        file = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (file < 0 || fstat(file, &what) != 0 || !S_ISREG(what.st_mode)) {
        if (file >= 0)
            close(file);
        leave(name, NULL);
        return;
    }
    unsigned long long size = (unsigned long long)what.st_size;
    if (size > room) {
        leave(name, &what);
    } else {
        char kind[64];
        room -= size;
        snprintf(kind, sizeof kind, "file %o %llu", what.st_mode & 0777, size);
        tell(kind, name);
        while (size > 0) {
            size_t wanted = size < CHUNK ? (size_t)size : CHUNK;
            ssize_t got = read(file, data, wanted);
            if (got <= 0) {
                /* It says how long it is, and the host counts on that. */
                memset(data, 0, wanted);
                got = (ssize_t)wanted;
            }
            put(data, (size_t)got);
            size -= (size_t)got;
        }
    }
    close(file);
}

static int by_name(const struct dirent **one, const struct dirent **other)
{
    return strcmp((*one)->d_name, (*other)->d_name);
}

static void visit(const char *path, int number, dev_t device);

static void visit_folder(const char *path, int number, dev_t device)
{
    struct dirent **entries;
    int found = scandir(path, &entries, NULL, by_name);
    for (int i = 0; i < found; i++) {
        char below[LINE];
        const char *name = entries[i]->d_name;
        int used = snprintf(below, sizeof below, "%s/%s", strcmp(path, "/") ? path : "", name);
        if (strcmp(name, ".") && strcmp(name, "..") && used < LINE)
            visit(below, number, device);
        free(entries[i]);
    }
    if (found >= 0)
        free(entries);
}

/* Sends what is at `path` and below it, as far as it matches this pattern and none before. */
static void visit(const char *path, int number, dev_t device)
{
    struct stat what;
    if (++looked % LOOK_EVERY == 0)
        say("looking\n");
    if (lstat(path, &what) != 0)
        return;
    if (S_ISDIR(what.st_mode)) {
        if (what.st_dev == device)
            visit_folder(path, number, device);
        return;
    }
    for (int i = 0; i < number; i++)
        if (matches(patterns[i].path, path))
            return;
    if (matches(patterns[number].path, path))
        send_file(path, path + (patterns[number].in_home ? strlen(HOME) : 1));
}

/* Where what a pattern matches begins: the folders before the first that has a wildcard. */
static void send_matches(int number)
{
    char base[LINE];
    struct stat what;
    snprintf(base, sizeof base, "%s", patterns[number].path);
    char *wild = strpbrk(base, "*?[");
    if (wild) {
        *wild = 0;
        char *end = strrchr(base, '/');
        end[end == base] = 0;
    }
    if (stat(base, &what) == 0)
        visit(base, number, what.st_dev);
}

static void take_patterns(void)
{
    static char line[LINE];
    while (get_line(line) && *line) {
        if (count == MOST_PATTERNS)
            continue;
        int in_home = line[0] != '/';
        if (asprintf(&patterns[count].path, "%s%s", in_home ? HOME : "", line) < 0)
            continue;
        char *end = patterns[count].path + strlen(patterns[count].path);
        while (end > patterns[count].path + 1 && end[-1] == '/')
            *--end = 0;
        patterns[count++].in_home = in_home;
    }
}

/* True if the environment at `path` has a launcher's variable with this rank; all ranks if it is NULL. */
static int is_rank(const char *path, const char *rank)
{
    static const char *const names[] = {"PMI_RANK=", "PMIX_RANK=", "OMPI_COMM_WORLD_RANK="};
    static char text[1 << 17];
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return 0;
    size_t used = 0;
    ssize_t got;
    while (used < sizeof text - 1 && (got = read(file, text + used, sizeof text - 1 - used)) > 0)
        used += (size_t)got;
    close(file);
    text[used] = 0;
    for (const char *at = text; at < text + used; at += strlen(at) + 1)
        for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
            size_t length = strlen(names[i]);
            if (strncmp(at, names[i], length) == 0 && (!rank || strcmp(at + length, rank) == 0))
                return 1;
        }
    return 0;
}

/* Ends the processes of a rank. */
static void kill_rank(const char *rank)
{
    DIR *folder = opendir("/proc");
    struct dirent *entry;
    while (folder && (entry = readdir(folder))) {
        char path[64];
        int process = atoi(entry->d_name);
        if (process <= 1 || process == getpid())
            continue;
        snprintf(path, sizeof path, "/proc/%d/environ", process);
        if (is_rank(path, rank))
            kill(process, SIGKILL);
    }
    if (folder)
        closedir(folder);
}

int main(void)
{
    static char line[LINE];
    struct timespec settle = {0, SETTLE_NS};
    while (get_line(line)) {
        if (strncmp(line, "kill ", 5) == 0) {
            kill_rank(strcmp(line + 5, "all") ? line + 5 : NULL);
            continue;
        }
        if (sscanf(line, "files %llu", &room) != 1)
            continue;
        take_patterns();
        /* All but this one and init; other processors have a moment to notice. */
        kill(-1, SIGSTOP);
        nanosleep(&settle, NULL);
        say("files\n");
        for (int i = 0; i < count; i++)
            send_matches(i);
        say("done\n");
        return 0;
    }
    return 1;
}
