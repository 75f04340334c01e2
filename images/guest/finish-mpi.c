/* Lets MPI_Finalize of MPICH 4.0 end; preloaded into the guest's programs by
 * /etc/ld.so.preload, so that nothing of it stands in their environment.
 *
 * In MPI_Finalize each rank first flushes its connections, which the other side has to answer, and
 * then waits for all ranks in PMI's barrier. MPICH before 4.2 does not answer while it waits there,
 * so a rank that flushes last waits for ever for one that waits in the barrier for it. (MPICH has
 * since taken the barrier out.) Here, from the first flush on, a thread answers in place of the
 * main thread whenever that sleeps. Nothing happens before MPI_Finalize. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { INTERVAL_NS = 200000, WORKERS = 64 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void *workers[WORKERS];
static unsigned (*progress)(void *worker);
static pid_t finalizing;

/* Whether the thread that called MPI_Finalize sleeps, as it does in the barrier and not before. */
static int caller_sleeps(void)
{
    char path[64], text[512];
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)finalizing);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return 0;
    ssize_t size = read(file, text, sizeof text - 1);
    close(file);
    if (size <= 0)
        return 0;
    text[size] = '\0';
    /* The state is the letter behind the name, which stands in brackets and may hold any byte. */
    const char *name_end = strrchr(text, ')');
    return name_end != NULL && name_end[1] == ' ' && name_end[2] == 'S';
}

static void *answer(void *nothing)
{
    (void)nothing;
    for (;;) {
        nanosleep(&(struct timespec){ .tv_nsec = INTERVAL_NS }, NULL);
        if (!caller_sleeps())
            continue;
        pthread_mutex_lock(&lock);
        for (int i = 0; i < WORKERS; i++)
            if (workers[i] != NULL)
                progress(workers[i]);
        pthread_mutex_unlock(&lock);
    }
    return NULL;
}

/* The function that a call of ours is to lead to: the next one in the search order, or, where a
 * program opened MPICH at run time and nothing comes next, that of the library which is loaded. */
static void *real(const char *name)
{
    void *next = dlsym(RTLD_NEXT, name);
    if (next == NULL) {
        void *library = dlopen("libucp.so.0", RTLD_LAZY | RTLD_NOLOAD);
        if (library != NULL)
            next = dlsym(library, name);
    }
    return next;
}

int ucp_worker_create(void *context, const void *parameters, void **worker)
{
    int (*create)(void *, const void *, void **) = real("ucp_worker_create");
    int status = create(context, parameters, worker);
    pthread_mutex_lock(&lock);
    for (int i = 0; status == 0 && i < WORKERS; i++)
        if (workers[i] == NULL) {
            workers[i] = *worker;
            break;
        }
    pthread_mutex_unlock(&lock);
    return status;
}

void ucp_worker_destroy(void *worker)
{
    void (*destroy)(void *) = real("ucp_worker_destroy");
    pthread_mutex_lock(&lock);
    for (int i = 0; i < WORKERS; i++)
        if (workers[i] == worker)
            workers[i] = NULL;
    pthread_mutex_unlock(&lock);
    destroy(worker);
}

void *ucp_disconnect_nb(void *endpoint)
{
    void *(*disconnect)(void *) = real("ucp_disconnect_nb");
    if (finalizing == 0) {
        pthread_t thread;
        finalizing = gettid();
        progress = real("ucp_worker_progress");
        if (progress != NULL && pthread_create(&thread, NULL, answer, NULL) == 0)
            pthread_detach(thread);
    }
    return disconnect(endpoint);
}
