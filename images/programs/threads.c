/* What threads on several processors rely on, each with a check that fails when it does not hold.
 *
 *   threads [THREADS [ROUNDS]]
 *
 * THREADS (default: as many as processors, at least 2) are bound to processors in turn. Every
 * test prints "ok NAME" or "FAILED NAME: why"; the exit code is 1 if one failed. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST = 256, PAGE = 4096 };

static int threads, rounds, processors, failures;
static char why[128];

#define EXPECT(condition)                                                                          \
    do {                                                                                           \
        if (!(condition))                                                                          \
            snprintf(why, sizeof why, "line %d: %s", __LINE__, #condition);                        \
    } while (0)

/* Runs BODY in THREADS threads, thread I on processor I modulo their number, to their end. */
static void together(void *(*body)(void *))
{
    pthread_t all[MOST];
    for (long i = 0; i < threads; i++) {
        pthread_attr_t attributes;
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(i % processors, &one);
        pthread_attr_init(&attributes);
        pthread_attr_setaffinity_np(&attributes, sizeof one, &one);
        EXPECT(pthread_create(&all[i], &attributes, body, (void *)i) == 0);
        pthread_attr_destroy(&attributes);
    }
    for (int i = 0; i < threads; i++)
        pthread_join(all[i], NULL);
}

static long counter;

/* --- Locks ----------------------------------------------------------------------------------- */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_spinlock_t spin;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;

static void *count_under_mutex(void *unused)
{
    (void)unused;
    for (int i = 0; i < rounds; i++) {
        pthread_mutex_lock(&mutex);
        counter++;
        pthread_mutex_unlock(&mutex);
    }
    return NULL;
}

static void mutexes(void)
{
    counter = 0;
    together(count_under_mutex);
    EXPECT(counter == (long)threads * rounds);
}

static void *count_under_spinlock(void *unused)
{
    (void)unused;
    for (int i = 0; i < rounds; i++) {
        pthread_spin_lock(&spin);
        counter++;
        pthread_spin_unlock(&spin);
    }
    return NULL;
}

static void spinlocks(void)
{
    counter = 0;
    pthread_spin_init(&spin, PTHREAD_PROCESS_PRIVATE);
    together(count_under_spinlock);
    EXPECT(counter == (long)threads * rounds);
}

static volatile long pair[2];

static void *read_and_write(void *number)
{
    for (int i = 0; i < rounds; i++) {
        if ((i + (long)number) % 4 == 0) {
            pthread_rwlock_wrlock(&rwlock);
            pair[0]++;
            pair[1]++;
        } else {
            pthread_rwlock_rdlock(&rwlock);
            EXPECT(pair[0] == pair[1]);
        }
        pthread_rwlock_unlock(&rwlock);
    }
    return NULL;
}

static void rwlocks(void)
{
    pair[0] = pair[1] = 0;
    together(read_and_write);
    EXPECT(pair[0] == pair[1] && pair[0] > 0);
}

/* --- Waiting for each other ------------------------------------------------------------------ */

static pthread_cond_t turned = PTHREAD_COND_INITIALIZER;
static int turn;

static void *take_turns(void *number)
{
    for (int i = 0; i < rounds / 10; i++) {
        pthread_mutex_lock(&mutex);
        while (turn != (long)number)
            pthread_cond_wait(&turned, &mutex);
        counter++;
        turn = (turn + 1) % threads;
        pthread_cond_broadcast(&turned);
        pthread_mutex_unlock(&mutex);
    }
    return NULL;
}

static void condition_variables(void)
{
    counter = turn = 0;
    together(take_turns);
    EXPECT(counter == (long)threads * (rounds / 10) && turn == 0);
}

static pthread_barrier_t barrier;
static atomic_int arrived[MOST];

static void *meet(void *number)
{
    for (int i = 1; i <= rounds / 20; i++) {
        arrived[(long)number] = i;
        pthread_barrier_wait(&barrier);
        for (int other = 0; other < threads; other++)
            EXPECT(arrived[other] == i);
        pthread_barrier_wait(&barrier);
    }
    return NULL;
}

static void barriers(void)
{
    pthread_barrier_init(&barrier, NULL, threads);
    together(meet);
    pthread_barrier_destroy(&barrier);
}

static sem_t full, empty;
static atomic_long produced, consumed;

static void *produce_and_consume(void *number)
{
    for (int i = 0; i < rounds / 10; i++) {
        if ((long)number % 2 == 0) {
            sem_wait(&empty);
            produced++;
            sem_post(&full);
        } else {
            sem_wait(&full);
            EXPECT(++consumed <= produced);
            sem_post(&empty);
        }
    }
    return NULL;
}

static void semaphores(void)
{
    /* As many producers as consumers, or the last one waits for ever. */
    int all = threads;
    threads -= threads % 2;
    produced = consumed = 0;
    sem_init(&full, 0, 0);
    sem_init(&empty, 0, 3);
    together(produce_and_consume);
    EXPECT(produced == consumed && produced == (long)threads / 2 * (rounds / 10));
    threads = all;
}

static atomic_int baton;

static void futex(atomic_int *word, int operation, int value)
{
    syscall(SYS_futex, word, operation | FUTEX_PRIVATE_FLAG, value, NULL, NULL, 0);
}

static void *pass_baton(void *number)
{
    for (int i = 0; i < rounds / 20; i++) {
        for (int now = baton; now % threads != (long)number; now = baton)
            futex(&baton, FUTEX_WAIT, now);
        baton++;
        futex(&baton, FUTEX_WAKE, threads);
    }
    return NULL;
}

static void futexes(void)
{
    baton = 0;
    together(pass_baton);
    EXPECT(baton == threads * (rounds / 20));
}

/* --- Atomic operations and the order of memory ----------------------------------------------- */

static atomic_long added, ored, swapped;
static struct {
    _Alignas(16) long low;
    long high;
} wide;
static char straddling[128] __attribute__((aligned(64)));

static void *work_atomically(void *number)
{
    /* Across a line's end: slow on a processor, but still atomic. */
    volatile long *split = (volatile long *)(straddling + 60);
    for (int i = 0; i < rounds; i++) {
        added++;
        atomic_fetch_or(&ored, 1L << ((long)number % 63));
        long seen = swapped;
        while (!atomic_compare_exchange_weak(&swapped, &seen, seen + 2))
            ;
        __asm__ volatile("lock incq %0" : "+m"(*split) : : "cc");
        long low = wide.low, high = wide.high;
        char done;
        do {
            __asm__ volatile("lock cmpxchg16b %1; sete %0"
                             : "=q"(done), "+m"(wide), "+a"(low), "+d"(high)
                             : "b"(low + 1), "c"(high - 1)
                             : "cc");
        } while (!done && (low + high == 0));
        EXPECT(done);
    }
    return NULL;
}

static void atomics(void)
{
    added = ored = swapped = wide.low = wide.high = 0;
    memset(straddling, 0, sizeof straddling);
    together(work_atomically);
    long all = (long)threads * rounds, split;
    memcpy(&split, straddling + 60, sizeof split);
    EXPECT(added == all && swapped == 2 * all && split == all);
    EXPECT(wide.low == all && wide.high == -all);
    EXPECT(ored == (long)(threads >= 63 ? ~0UL >> 1 : (1UL << threads) - 1));
}

static volatile int x __attribute__((aligned(64))), y __attribute__((aligned(64)));
static int result[2];
static long forbidden, weak;

/* Store buffering without a fence, which x86 lets come out as 0, 0; and with one, which it does
 * not. */
static void *buffer_stores(void *number)
{
    for (int i = 0; i < rounds / 4; i++) {
        int fenced = i % 2;
        pthread_barrier_wait(&barrier);
        if ((long)number < 2) {
            volatile int *own = (long)number ? &y : &x, *other = (long)number ? &x : &y;
            *own = 1;
            if (fenced)
                __asm__ volatile("mfence" ::: "memory");
            result[(long)number] = *other;
        }
        pthread_barrier_wait(&barrier);
        if ((long)number == 0) {
            if (result[0] == 0 && result[1] == 0)
                *(fenced ? &forbidden : &weak) += 1;
            x = y = 0;
        }
    }
    return NULL;
}

static void store_buffering(void)
{
    forbidden = weak = 0;
    pthread_barrier_init(&barrier, NULL, threads);
    together(buffer_stores);
    pthread_barrier_destroy(&barrier);
    EXPECT(forbidden == 0);
    printf("   store buffering was seen %ld times\n", weak);
}

static volatile long letter __attribute__((aligned(64))), flag __attribute__((aligned(64)));

/* One writes, without fences; all others see both in order. */
static void *pass_message(void *number)
{
    for (long i = 1; i <= rounds; i++) {
        if ((long)number == 0) {
            letter = i;
            flag = i;
        } else {
            long seen = flag, read = letter;
            EXPECT(read >= seen);
        }
    }
    return NULL;
}

static void message_passing(void)
{
    letter = flag = 0;
    together(pass_message);
}

/* --- What belongs to a thread ---------------------------------------------------------------- */

static _Thread_local long mine;

static void *keep_to_itself(void *number)
{
    mine = (long)number;
    for (int i = 0; i < rounds; i++) {
        mine += threads;
        if (i % 64 == 0)
            sched_yield();
        EXPECT(mine % threads == (long)number);
    }
    EXPECT(sched_getcpu() == (long)number % processors);
    return NULL;
}

static void thread_locals(void)
{
    together(keep_to_itself);
}

static void *migrate(void *number)
{
    double sum = 0;
    for (int i = 0; i < rounds / 10; i++) {
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET((i + (long)number) % processors, &one);
        EXPECT(sched_setaffinity(0, sizeof one, &one) == 0);
        EXPECT(sched_getcpu() == (i + (long)number) % processors);
        sum += i * 0.5;
    }
    EXPECT(sum == (rounds / 10) * (rounds / 10 - 1.0) / 4);
    return NULL;
}

static void migration(void)
{
    together(migrate);
}

static atomic_long received;
static pthread_t listeners[MOST];
static atomic_int listening, heard;

static void on_signal(int signal)
{
    (void)signal;
    received++;
}

static void *signal_neighbour(void *number)
{
    listeners[(long)number] = pthread_self();
    listening++;
    while (listening < threads)
        sched_yield();
    for (int i = 0; i < rounds / 20; i++) {
        long before = received;
        EXPECT(pthread_kill(listeners[((long)number + 1) % threads], SIGUSR1) == 0);
        while (received == before)
            sched_yield();
    }
    heard++;
    /* The last may have to hear of others yet. */
    while (heard < threads)
        sched_yield();
    return NULL;
}

static void signals(void)
{
    struct sigaction action = { .sa_handler = on_signal };
    sigaction(SIGUSR1, &action, NULL);
    received = listening = heard = 0;
    together(signal_neighbour);
    EXPECT(received > 0);
}

/* --- Address spaces -------------------------------------------------------------------------- */

static char *shared;
static atomic_int phase;
static _Thread_local sigjmp_buf back;
static _Thread_local volatile int faults;

static void on_fault(int signal)
{
    (void)signal;
    faults++;
    siglongjmp(back, 1);
}

/* Whether a store to the page faults. */
static int store_faults(volatile char *at)
{
    int before = faults;
    if (sigsetjmp(back, 1) == 0)
        *at = 7;
    return faults != before;
}

/* Thread 0 takes rights away and gives them back; right after it, no other may write, nor may
 * any not write once it may again. */
static void *watch_rights(void *number)
{
    for (int i = 0; i < rounds / 40; i++) {
        pthread_barrier_wait(&barrier);
        if ((long)number == 0)
            EXPECT(mprotect(shared, PAGE, PROT_READ) == 0);
        else if (i % 2)
            store_faults(shared);
        pthread_barrier_wait(&barrier);
        EXPECT(store_faults(shared));
        pthread_barrier_wait(&barrier);
        if ((long)number == 0)
            EXPECT(mprotect(shared, PAGE, PROT_READ | PROT_WRITE) == 0);
        pthread_barrier_wait(&barrier);
        EXPECT(!store_faults(shared));
    }
    return NULL;
}

/* The page is taken away and another put in its place: nobody may see the old one. */
static void *watch_mapping(void *number)
{
    for (int i = 0; i < rounds / 40; i++) {
        char expected = (char)(i % 100 + 1);
        pthread_barrier_wait(&barrier);
        if ((long)number == 0) {
            void *at = mmap(shared, PAGE, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
            EXPECT(at == shared);
            shared[0] = expected;
        }
        pthread_barrier_wait(&barrier);
        EXPECT(*(volatile char *)shared == expected);
        EXPECT(((volatile char *)shared)[1] == 0);
        pthread_barrier_wait(&barrier);
        shared[1] = 5;
    }
    return NULL;
}

static void with_shared_page(void *(*body)(void *))
{
    struct sigaction action = { .sa_handler = on_fault }, before;
    sigaction(SIGSEGV, &action, &before);
    shared = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT(shared != MAP_FAILED);
    pthread_barrier_init(&barrier, NULL, threads);
    together(body);
    pthread_barrier_destroy(&barrier);
    munmap(shared, PAGE);
    sigaction(SIGSEGV, &before, NULL);
}

static void changed_rights(void)
{
    with_shared_page(watch_rights);
}

static void changed_mappings(void)
{
    with_shared_page(watch_mapping);
}

/* Code that one thread writes and all run: the next call does what was written last. */
static void *run_written_code(void *number)
{
    int (*function)(void) = (int (*)(void))(void *)shared;
    for (int i = 0; i < rounds / 20; i++) {
        pthread_barrier_wait(&barrier);
        if ((long)number == i % threads) {
            /* mov eax, i; ret */
            unsigned char code[] = { 0xb8, i & 0xff, i >> 8 & 0xff, 0, 0, 0xc3 };
            memcpy(shared, code, sizeof code);
        }
        pthread_barrier_wait(&barrier);
        for (int call = 0; call < 20; call++)
            EXPECT(function() == i);
    }
    return NULL;
}

static void written_code(void)
{
    shared = mmap(NULL, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                  0);
    EXPECT(shared != MAP_FAILED);
    pthread_barrier_init(&barrier, NULL, threads);
    together(run_written_code);
    pthread_barrier_destroy(&barrier);
    munmap(shared, PAGE);
}

/* Children of a process whose other threads write on: they see memory as it was. */
static void *fork_or_write(void *number)
{
    if ((long)number != 0) {
        while (!phase)
            for (int i = 0; i < 64; i++) {
                pthread_mutex_lock(&mutex);
                pair[0]++;
                pair[1]++;
                pthread_mutex_unlock(&mutex);
            }
        return NULL;
    }
    for (int i = 0; i < rounds / 100; i++) {
        pthread_mutex_lock(&mutex);
        pid_t child = fork();
        if (child == 0) {
            long first = pair[0];
            for (int look = 0; look < 1000; look++)
                if (pair[0] != first || pair[1] != first)
                    _exit(1);
            _exit(0);
        }
        pthread_mutex_unlock(&mutex);
        int status = -1;
        EXPECT(child > 0 && waitpid(child, &status, 0) == child && status == 0);
    }
    phase = 1;
    return NULL;
}

static void forks(void)
{
    phase = 0;
    pair[0] = pair[1] = 0;
    together(fork_or_write);
}

/* --------------------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    void (*run)(void);
} tests[] = {
    { "mutexes", mutexes },
    { "spinlocks", spinlocks },
    { "rwlocks", rwlocks },
    { "condition variables", condition_variables },
    { "barriers", barriers },
    { "semaphores", semaphores },
    { "futexes", futexes },
    { "atomics", atomics },
    { "store buffering", store_buffering },
    { "message passing", message_passing },
    { "thread locals", thread_locals },
    { "migration", migration },
    { "signals", signals },
    { "changed rights", changed_rights },
    { "changed mappings", changed_mappings },
    { "written code", written_code },
    { "forks", forks },
};

int main(int argc, char **argv)
{
    processors = (int)sysconf(_SC_NPROCESSORS_ONLN);
    threads = argc > 1 ? atoi(argv[1]) : processors < 2 ? 2 : processors;
    rounds = argc > 2 ? atoi(argv[2]) : 1000;
    if (threads < 2 || threads > MOST || rounds < 100) {
        fprintf(stderr, "threads: 2 to %d threads, 100 rounds at least\n", MOST);
        return 2;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (unsigned i = 0; i < sizeof tests / sizeof tests[0]; i++) {
        why[0] = 0;
        tests[i].run();
        if (why[0])
            printf("FAILED %s: %s\n", tests[i].name, why);
        else
            printf("ok %s\n", tests[i].name);
        failures += why[0] != 0;
    }
    printf("threads: %d threads on %d processors, %d tests failed\n", threads, processors, failures);
    return failures != 0;
}
