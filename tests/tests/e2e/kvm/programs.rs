//! Programs that are difficult for the method of stopping a guest at traced calls.

use std::path::Path;
use std::process::Command;

use belljar_tests::{Dir, Machine, root};

/// A program with its own breakpoints: INT3 three times, and then a debug register's on the
/// execution of a function of its child, which computes for a while before that.
const DEBUGGER: &str = r#"
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile int traps;
static void on_trap(int signal) { (void)signal; traps++; }
__attribute__((noinline)) static void watched(void) { __asm__ volatile("nop"); }

static long debug_register(pid_t child, int number, unsigned long value)
{
    size_t at = offsetof(struct user, u_debugreg) + number * sizeof(long);
    return ptrace(PTRACE_POKEUSER, child, at, value);
}

int main(void)
{
    signal(SIGTRAP, on_trap);
    for (int i = 0; i < 3; i++)
        __asm__ volatile("int3");
    signal(SIGTRAP, SIG_DFL);
    pid_t child = fork();
    if (child == 0) {
        ptrace(PTRACE_TRACEME, 0, 0, 0);
        raise(SIGSTOP);
        for (clock_t end = clock() + CLOCKS_PER_SEC / 20; clock() < end;) {}
        watched();
        _exit(0);
    }
    int status;
    waitpid(child, &status, 0);
    debug_register(child, 0, (unsigned long)watched);
    debug_register(child, 7, 1);
    ptrace(PTRACE_CONT, child, 0, 0);
    waitpid(child, &status, 0);
    struct user_regs_struct registers = {0};
    int stopped = WIFSTOPPED(status) && WSTOPSIG(status) == SIGTRAP;
    if (stopped)
        ptrace(PTRACE_GETREGS, child, 0, &registers);
    printf("own traps: %d, watched: %d\n", traps,
           stopped && registers.rip == (unsigned long)watched);
    if (stopped)
        ptrace(PTRACE_KILL, child, 0, 0);
    return 0;
}
"#;

/// A program with its own MPI functions: as a stub's jump leads into another page, the call
/// may find that page not mapped. It first calls in a child, then after the page cache was
/// dropped, and then without the page's access rights, which a handler restores.
const CALLER: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE ((void *)0x4a4200000000)

static volatile int faults;
int MPI_Wait(int *request, int *status) __attribute__((weak));
int PMPI_Init(int *count, char ***values) { (void)count; (void)values; return 0; }
int PMPI_Wait(int *request, int *status) { *status = *request; return 0; }

static void on_fault(int signal)
{
    (void)signal;
    // A call that was lost leads to where nothing is.
    if (++faults > 1)
        _exit(1);
    mprotect(PAGE, 4096, PROT_READ | PROT_EXEC);
}

static int call(void)
{
    static int value = 7;
    int request = value++, status[8] = {0};
    return MPI_Wait(&request, status) == 0 && status[0] == request;
}

int main(void)
{
    int status = 1;
    pid_t child = fork();
    if (child == 0)
        _exit(!call());
    waitpid(child, &status, 0);
    int drop = open("/proc/sys/vm/drop_caches", O_WRONLY);
    int dropped = write(drop, "3", 1) == 1 && call();
    signal(SIGSEGV, on_fault);
    mprotect(PAGE, 4096, PROT_NONE);
    int unmapped = call();
    printf("called: child %d, dropped %d, unmapped %d, faults %d\n",
           status == 0, dropped, unmapped, faults);
    return 0;
}
"#;

/// Its output if no call was lost.
pub(super) const CALLED: &str = "called: child 1, dropped 1, unmapped 1, faults 1\n";

/// Output of a program that inspects the frames of MPI calls and leaves them in all possible
/// ways (`images/programs/unwinding.cc`).
pub(super) const UNWOUND: [&str; 4] = [
    "unwinding: error handler sees its caller",
    "unwinding: signal handler sees its caller",
    "unwinding: caught",
    "unwinding: destructor runs",
];

/// Libraries of that program that the image lacks.
const LIBRARIES: [&str; 2] = ["libstdc++.so.6", "libgcc_s.so.1"];

/// Paths of the programs and their libraries, for the scenarios.
pub(super) fn files() -> String {
    let names = ["debugger", "caller", "unwinding"];
    let names = names.iter().chain(&LIBRARIES);
    let lines = names.map(|name| format!("\n\"{name}\" = \"{name}\""));
    format!("[workload.files]{}", lines.collect::<String>())
}

/// Compiles all programs to the paths in the scenarios, in the machine and here.
pub(super) fn build(dir: &Dir, machine: &Machine<'_>) {
    let compile = |compiler: &str, source: &Path, name: &str, how: &[&str]| {
        let compiled = Command::new(compiler)
            .args(["-O1", "-o"])
            .args([&dir.path(name), source])
            .args(how)
            .status();
        assert!(compiled.expect("a compiler starts").success());
    };
    for (name, text, how) in [
        ("debugger", DEBUGGER, "-static"),
        ("caller", CALLER, "-rdynamic"),
    ] {
        let source = dir.write(&format!("{name}.c"), text);
        compile("cc", &source, name, &[how]);
    }
    let source = root().join("images/programs/unwinding.cc");
    compile(
        "mpicc.mpich",
        &source,
        "unwinding",
        &["-rdynamic", "-pthread", "-lstdc++"],
    );
    for name in LIBRARIES {
        let asked = Command::new("cc")
            .arg(format!("-print-file-name={name}"))
            .output();
        let printed = asked.expect("cc starts").stdout;
        let library = String::from_utf8_lossy(&printed);
        let copied = std::fs::copy(library.trim(), dir.path(name));
        copied.expect("the C++ compiler's library is there");
    }
    for name in ["debugger", "caller", "unwinding"].iter().chain(&LIBRARIES) {
        let copied = std::fs::copy(dir.path(name), machine.path(name));
        copied.expect("the temporary folder is writable");
    }
}
