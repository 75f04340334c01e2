// Plays the host to the preloaded library: replaces return addresses, and looks whether unwinders find the
// callers all the same. Arguments: the library, and where in it traced calls return to.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <execinfo.h>
#include <link.h>
#include <pthread.h>
#include <stdexcept>
#include <sys/mman.h>
#include <unistd.h>

static uint64_t returned;
// What the stub of a real host's asks that host for.
static uint64_t original;

static void map_range()
{
    void *range = mmap((void *)STUB_BASE, STUB_LENGTH, PROT_READ | PROT_WRITE | PROT_EXEC,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (range != (void *)STUB_BASE)
        std::abort();
    // movabs r11, &original; mov r11, [r11]; jmp r11
    uint8_t stub[16] = {0x49, 0xbb, 0, 0, 0, 0, 0, 0, 0, 0, 0x4d, 0x8b, 0x1b, 0x41, 0xff, 0xe3};
    uint64_t *place = &original;
    std::memcpy(stub + 2, &place, 8);
    std::memcpy((void *)RETURN_ADDRESS, stub, sizeof stub);
}

static void describe(uint64_t stack, uint64_t address, int pair)
{
    uint64_t bucket = (stack >> 4 ^ stack >> 20) & 63;
    uint64_t *words = (uint64_t *)(STUB_BASE + PENDING_OFFSET + bucket * 128 + pair * 16);
    words[0] = stack;
    words[1] = address;
}

// Calls `body` with a return address that is replaced, in the place's `pair`th pair.
__attribute__((noinline)) static void traced(void (*body)(), int pair)
{
    uint64_t *slot = (uint64_t *)__builtin_frame_address(0) + 1;
    original = *slot;
    describe((uint64_t)(slot + 1), *slot, pair);
    *slot = returned;
    body();
    asm volatile("" ::: "memory");
}

struct Guard {
    const char *name;
    ~Guard() { std::printf("%s destroyed\n", name); }
};

extern "C" __attribute__((noinline)) void calls(void (*body)(), int pair)
{
    Guard guard{"caller's"};
    traced(body, pair);
    asm volatile("" ::: "memory");
}

static void looks()
{
    void *frames[64];
    int count = backtrace(frames, 64);
    char **names = backtrace_symbols(frames, count);
    bool caller = false, main = false;
    for (int i = 0; i < count; i++) {
        caller |= std::strstr(names[i], "(calls+") != nullptr;
        main |= caller && std::strstr(names[i], "(main+") != nullptr;
    }
    std::printf("caller %d, main %d\n", caller, main);
}

static void throws() { throw std::runtime_error("left"); }

static void rethrows()
{
    uint64_t outer = original;
    calls(looks, 3);
    original = outer;
    throws();
}

static void sleeps()
{
    for (;;)
        pause();
}

static void *thread(void *)
{
    calls(sleeps, 0);
    return nullptr;
}

int main(int, char **arguments)
{
    setvbuf(stdout, nullptr, _IONBF, 0);
    auto *library = (link_map *)dlopen(arguments[1], RTLD_NOW);
    if (library == nullptr)
        return std::puts(dlerror());
    returned = library->l_addr + std::strtoull(arguments[2], nullptr, 0);
    map_range();
    for (int pair : {0, 7})
        calls(looks, pair);
    for (auto body : {throws, rethrows}) {
        try {
            calls(body, 5);
        } catch (const std::exception &) {
            std::puts("caught");
        }
    }
    // What nobody described ends every unwinder's walk.
    memset((void *)(STUB_BASE + PENDING_OFFSET), 0, 0x2000);
    pthread_t other;
    pthread_create(&other, nullptr, thread, nullptr);
    usleep(1000);
    pthread_cancel(other);
    pthread_join(other, nullptr);
    std::puts("joined");
}
