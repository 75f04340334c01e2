/* Loops whose accesses run over the ends of pages, of every width and on every side of a
 * calculation; prints a checksum. */
#include <emmintrin.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#ifndef SHRINK
#define SHRINK 1
#endif

#define NOINLINE __attribute__((noinline))

enum { BYTES = 1 << 18 };
static uint8_t memory[2][BYTES] __attribute__((aligned(4096)));

/* 73 bytes, so that in turn every field lies across a boundary. */
struct __attribute__((packed)) record {
    uint8_t tag;
    uint64_t key;
    uint32_t count;
    double weight;
    uint16_t flags;
    __m128i block;
    uint64_t words[4];
    uint16_t end;
};

static NOINLINE uint64_t records(struct record *at, size_t count)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < count; i++) {
        struct record *r = at + i;
        r->key += i ^ r->count;
        r->count = (r->count << 1) | (r->tag & 1);
        r->weight += 0.5;
        r->flags ^= (uint16_t)r->key;
        r->words[i & 3] -= r->key;
        sum += r->words[0] + r->words[3] + r->flags + r->end;
        r->block = _mm_add_epi32(r->block, _mm_set1_epi32((int)sum));
    }
    return sum;
}

/* Near the boundary between two pages, forward and backward, byte by byte further. */
static NOINLINE uint64_t straddle(uint8_t *at, size_t pages)
{
    uint64_t sum = 0;
    for (size_t page = 1; page < pages; page++)
        for (int offset = -20; offset < 4; offset++) {
            uint8_t *here = at + page * 4096 + offset;
            uint64_t word;
            memcpy(&word, here, 8);
            sum = sum * 31 + word;
            __asm__ volatile("addq %1, (%0)" : : "r"(here), "r"(sum) : "memory", "cc");
            __asm__ volatile("incl 3(%0)" : : "r"(here) : "memory", "cc");
            __m128i v = _mm_loadu_si128((__m128i *)(here - 1));
            _mm_storeu_si128((__m128i *)(here + 1), _mm_add_epi8(v, v));
            __asm__ volatile("lock xaddq %1, 2(%0)" : : "r"(here), "r"(word) : "memory", "cc");
        }
    return sum;
}

/* Pushes and pops on a stack that no word of is aligned. */
static NOINLINE uint64_t stack(uint8_t *top, int rounds)
{
    uint64_t sum = 1;
    for (int i = 0; i < rounds; i++)
        __asm__ volatile("movq %%rsp, %%r8\n\t"
                         "movq %1, %%rsp\n\t"
                         "pushq %0\n\t"
                         "pushq $77\n\t"
                         "call 1f\n\t"
                         "addq 8(%%rsp), %0\n\t"
                         "movq $0, -8(%%rsp)\n\t"
                         "popq %%r9\n\t"
                         "popq %%r9\n\t"
                         "addq %%r9, %0\n\t"
                         "movq %%r8, %%rsp\n\t"
                         "jmp 2f\n"
                         "1:\tret\n"
                         "2:"
                         : "+r"(sum)
                         : "r"(top - i % 40)
                         : "r8", "r9", "memory", "cc");
    return sum;
}

/* Words beside each other, in another page each time, as often as not across its end. */
static NOINLINE uint64_t scattered(uint8_t *at, size_t pages, int rounds)
{
    uint64_t sum = 0, state = 12345;
    for (int i = 0; i < rounds; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        uint8_t *here = at + (state >> 33) % pages * 4096 + 4096 - (state >> 20) % 48;
        uint64_t words[2];
        uint32_t between;
        memcpy(&words[0], here, 8);
        memcpy(&words[1], here + 16, 8);
        memcpy(&between, here + 8, 4);
        sum = sum * 31 + (words[0] ^ words[1]);
        between ^= (uint32_t)sum;
        memcpy(here + 8, &between, 4);
    }
    return sum;
}

int main(void)
{
    uint64_t sum = 0;
    for (int i = 0; i < BYTES; i++)
        memory[0][i] = memory[1][i] = (uint8_t)(i * 13 + i / 251);
    size_t count = (BYTES - 4096) / sizeof(struct record);
    for (int round = 0; round < 400 / SHRINK; round++) {
        sum = sum * 31 + records((struct record *)(memory[0] + 1 + round % 64), count);
        sum = sum * 31 + straddle(memory[1], BYTES / 4096 - 1);
        sum = sum * 31 + stack(memory[round & 1] + 8 * 4096 + 21, 100);
        sum = sum * 31 + scattered(memory[1], BYTES / 4096 - 2, 2000);
        __builtin_memmove(memory[0] + 4090, memory[1] + 4093 + round % 7, 3 * 4096);
    }
    printf("CROSSING %016" PRIx64 "\n", sum);
    return 0;
}
