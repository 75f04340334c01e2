// Looks at the frames of MPI calls from within them, and leaves them by all ways that there are. One rank.
#include <mpi.h>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <execinfo.h>
#include <pthread.h>
#include <stdexcept>
#include <unistd.h>

static bool sees_caller()
{
    void *frames[64];
    int count = backtrace(frames, 64);
    char **names = backtrace_symbols(frames, count);
    bool main_seen = false, caller_seen = false;
    for (int i = 0; i < count; i++) {
        caller_seen |= std::strstr(names[i], "calls_mpi") != nullptr;
        main_seen |= std::strstr(names[i], "(main") != nullptr;
    }
    return caller_seen && main_seen;
}

static bool throws;

static void handler(MPI_Comm *, int *, ...)
{
    if (throws)
        throw std::runtime_error("left");
    std::printf("unwinding: error handler %s\n", sees_caller() ? "sees its caller" : "is lost");
}

static void on_signal(int)
{
    std::printf("unwinding: signal handler %s\n", sees_caller() ? "sees its caller" : "is lost");
}

static void operation(void *, void *, int *, MPI_Datatype *) { raise(SIGUSR1); }

extern "C" __attribute__((noinline)) int calls_mpi(MPI_Comm comm, MPI_Op op)
{
    int x = 1, y = 2;
    int result = op == MPI_OP_NULL ? MPI_Send(&x, 1, MPI_INT, 99, 0, comm) : MPI_Reduce_local(&x, &y, 1, MPI_INT, op);
    asm volatile("" ::: "memory");
    return result;
}


struct Guard {
    ~Guard() { std::printf("unwinding: destructor runs\n"); }
};

static std::atomic<bool> enters;

// Waits for a message that no process sends, until it is cancelled.
static void *waits(void *comm)
{
    Guard guard;
    int x, type;
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &type);
    enters = true;
    MPI_Recv(&x, 1, MPI_INT, 0, 1, *static_cast<MPI_Comm *>(comm), MPI_STATUS_IGNORE);
    return nullptr;
}

int main(int argc, char **argv)
{
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    setvbuf(stdout, nullptr, _IONBF, 0);
    MPI_Comm own;
    MPI_Comm_dup(MPI_COMM_WORLD, &own);
    MPI_Errhandler on_error;
    MPI_Comm_create_errhandler(handler, &on_error);
    MPI_Comm_set_errhandler(own, on_error);
    calls_mpi(own, MPI_OP_NULL);
    std::signal(SIGUSR1, on_signal);
    MPI_Op op;
    MPI_Op_create(operation, 1, &op);
    calls_mpi(own, op);
    throws = true;
    try {
        calls_mpi(own, MPI_OP_NULL);
    } catch (const std::exception &error) {
        std::printf("unwinding: caught\n");
    }
    pthread_t thread;
    pthread_create(&thread, nullptr, waits, &own);
    while (!enters)
        usleep(1000);
    // Time to enter the call, also on a processor that is emulated on a busy host.
    usleep(100000);
    pthread_cancel(thread);
    pthread_join(thread, nullptr);
    _exit(0);
}
