/* Small computing kernels that stress one thing each, for measuring what a machine costs.
 *
 *   kernels NAME [REPEATS]       prints "KERNEL <name> <repeats> <checksum>"
 *   kernels list                 prints the names
 *
 * Every kernel is sized so that one repeat takes some tens of milliseconds on a processor of the
 * 2020s. Those whose names end in -avx2 need AVX2 and FMA; the rest run on any x86-64. The
 * checksums depend on nothing but NAME and REPEATS, and on SHRINK: compiled with -DSHRINK=8, a
 * kernel does about an eighth of the work, on less memory. */
#include <immintrin.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef SHRINK
#define SHRINK 1
#endif

#define NOINLINE __attribute__((noinline))
#define AVX2 __attribute__((noinline, target("avx2,fma")))

static uint64_t seed = 0x9e3779b97f4a7c15;

static uint64_t next(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed;
}

static void *memory(size_t bytes)
{
    void *at = aligned_alloc(64, (bytes + 63) & ~(size_t)63);
    if (at == NULL) {
        fprintf(stderr, "kernels: no memory for %zu bytes\n", bytes);
        exit(1);
    }
    return at;
}

/* Integer steps in registers, one branch in two hard to foresee. */
static uint64_t xorshift(void)
{
    uint64_t sum = 0;
    for (int i = 0; i < 10000000 / SHRINK; i++) {
        uint64_t x = next();
        if (x & 1)
            sum += x * 0xff51afd7ed558ccd;
        else
            sum = (sum << 9 | sum >> 55) ^ x;
    }
    return sum;
}

/* CRC-32 a byte at a time through a table. */
static uint64_t crc32(void)
{
    static uint32_t table[256];
    static uint8_t data[1 << 16];
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t c = i;
        for (int k = 0; k < 8; k++)
            c = c & 1 ? 0xedb88320 ^ c >> 1 : c >> 1;
        table[i] = c;
    }
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (uint8_t)(i * 31);
    uint32_t crc = ~0u;
    for (int round = 0; round < 150 / SHRINK; round++)
        for (size_t i = 0; i < sizeof data; i++)
            crc = table[(crc ^ data[i]) & 255] ^ crc >> 8;
    return crc;
}

/* The sieve of Eratosthenes. */
static uint64_t sieve(void)
{
    enum { N = 4000000 / SHRINK };
    static uint8_t composite[N];
    uint64_t primes = 0;
    memset(composite, 0, sizeof composite);
    for (uint32_t i = 2; i < N; i++) {
        if (composite[i])
            continue;
        primes++;
        for (uint64_t j = (uint64_t)i * i; j < N; j += i)
            composite[j] = 1;
    }
    return primes;
}

static int ascending(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* The C library's sort with a comparison through a pointer. */
static uint64_t sort(void)
{
    enum { N = 300000 / SHRINK };
    static uint32_t values[N];
    for (int i = 0; i < N; i++)
        values[i] = (uint32_t)next();
    qsort(values, N, sizeof *values, ascending);
    uint64_t sum = 0;
    for (int i = 0; i < N; i++)
        sum = sum * 31 + values[i];
    return sum;
}

static uint32_t rotate(uint32_t x, int by) { return x >> by | x << (32 - by); }

/* Rounds as in SHA-256 over a 64-word schedule. */
static uint64_t sha_rounds(void)
{
    uint32_t w[64], s[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    for (int i = 0; i < 64; i++)
        w[i] = (uint32_t)next();
    for (int block = 0; block < 100000 / SHRINK; block++) {
        uint32_t a = s[0], b = s[1], c = s[2], d = s[3], e = s[4], f = s[5], g = s[6], h = s[7];
        for (int i = 0; i < 64; i++) {
            uint32_t t1 = h + (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) + ((e & f) ^ (~e & g)) + w[i];
            uint32_t t2 = (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
            h = g, g = f, f = e, e = d + t1, d = c, c = b, b = a, a = t1 + t2;
        }
        s[0] += a, s[1] += b, s[2] += c, s[3] += d, s[4] += e, s[5] += f, s[6] += g, s[7] += h;
        w[block & 63] ^= s[0];
    }
    return (uint64_t)s[0] << 32 | s[7];
}

/* An interpreter of a small bytecode: indirect jumps, loads and stores on a stack. */
static NOINLINE uint64_t interpret(const uint8_t *code, uint64_t count)
{
    uint64_t stack[64], *top = stack, accumulator = 0;
    stack[0] = count;
    for (;;) {
        switch (*code++) {
        case 0: accumulator += *top; break;
        case 1: *++top = accumulator; break;
        case 2: accumulator ^= *top--; break;
        case 3: accumulator = accumulator << 5 | accumulator >> 59; break;
        case 4: *top -= 1; break;
        case 5: if (*top != 0) code -= *code; else code++; break;
        case 6: accumulator *= 0x9e3779b97f4a7c15; break;
        case 7: return accumulator;
        default: accumulator += code[-1]; break;
        }
    }
}

static uint64_t bytecode(void)
{
    static const uint8_t program[] = {0, 3, 1, 0, 6, 2, 9, 1, 3, 0, 2, 8, 4, 5, 14, 7};
    return interpret(program, 1000000 / SHRINK);
}

static NOINLINE uint64_t fibonacci(unsigned n)
{
    return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
}

/* Recursion: calls, returns, pushes and pops. */
static uint64_t fib(void) { return fibonacci(SHRINK > 1 ? 29 : 33); }

/* C += A * B with four by four sums in registers, as a library's inner kernel does. */
static NOINLINE void dgemm_block(const double *a, const double *b, double *c, int n, int row, int column)
{
    __m128d s[4][2];
    for (int i = 0; i < 4; i++)
        s[i][0] = s[i][1] = _mm_setzero_pd();
    for (int k = 0; k < n; k++) {
        __m128d b0 = _mm_load_pd(b + (size_t)k * n + column);
        __m128d b1 = _mm_load_pd(b + (size_t)k * n + column + 2);
        for (int i = 0; i < 4; i++) {
            __m128d x = _mm_load1_pd(a + (size_t)(row + i) * n + k);
            s[i][0] = _mm_add_pd(s[i][0], _mm_mul_pd(x, b0));
            s[i][1] = _mm_add_pd(s[i][1], _mm_mul_pd(x, b1));
        }
    }
    for (int i = 0; i < 4; i++) {
        double *at = c + (size_t)(row + i) * n + column;
        _mm_store_pd(at, s[i][0]);
        _mm_store_pd(at + 2, s[i][1]);
    }
}

AVX2 static void dgemm_block_avx2(const double *a, const double *b, double *c, int n, int row, int column)
{
    __m256d s[4][2];
    for (int i = 0; i < 4; i++)
        s[i][0] = s[i][1] = _mm256_setzero_pd();
    for (int k = 0; k < n; k++) {
        __m256d b0 = _mm256_load_pd(b + (size_t)k * n + column);
        __m256d b1 = _mm256_load_pd(b + (size_t)k * n + column + 4);
        for (int i = 0; i < 4; i++) {
            __m256d x = _mm256_broadcast_sd(a + (size_t)(row + i) * n + k);
            s[i][0] = _mm256_fmadd_pd(x, b0, s[i][0]);
            s[i][1] = _mm256_fmadd_pd(x, b1, s[i][1]);
        }
    }
    for (int i = 0; i < 4; i++) {
        double *at = c + (size_t)(row + i) * n + column;
        _mm256_store_pd(at, s[i][0]);
        _mm256_store_pd(at + 4, s[i][1]);
    }
}

enum { ORDER = SHRINK > 1 ? 128 : 256 };
static double left[ORDER * ORDER] __attribute__((aligned(64)));
static double right[ORDER * ORDER] __attribute__((aligned(64)));
static double product[ORDER * ORDER] __attribute__((aligned(64)));

static uint64_t matrices(int wide)
{
    for (int i = 0; i < ORDER * ORDER; i++) {
        left[i] = i % 7 - 3;
        right[i] = i % 5 - 2;
    }
    for (int repeat = 0; repeat < 3; repeat++)
        for (int row = 0; row < ORDER; row += 4)
            for (int column = 0; column < ORDER; column += wide ? 8 : 4)
                (wide ? dgemm_block_avx2 : dgemm_block)(left, right, product, ORDER, row, column);
    double sum = 0;
    for (int i = 0; i < ORDER * ORDER; i++)
        sum += product[i] * (i % 3 + 1);
    return (uint64_t)(int64_t)sum;
}

static uint64_t dgemm(void) { return matrices(0); }
static uint64_t dgemm_avx2(void) { return matrices(1); }

/* Bodies that attract each other: scalar arithmetic with square roots and divisions. */
static uint64_t nbody(void)
{
    enum { N = 40 };
    static double p[N][3], v[N][3];
    for (int i = 0; i < N; i++)
        for (int k = 0; k < 3; k++) {
            p[i][k] = (double)((i * 7 + k * 13) % 29);
            v[i][k] = 0;
        }
    for (int step = 0; step < 1500 / SHRINK; step++) {
        for (int i = 0; i < N; i++)
            for (int j = i + 1; j < N; j++) {
                double d[3], square = 0.01;
                for (int k = 0; k < 3; k++) {
                    d[k] = p[i][k] - p[j][k];
                    square += d[k] * d[k];
                }
                double pull = 1e-3 / (square * __builtin_sqrt(square));
                for (int k = 0; k < 3; k++) {
                    v[i][k] -= d[k] * pull;
                    v[j][k] += d[k] * pull;
                }
            }
        for (int i = 0; i < N; i++)
            for (int k = 0; k < 3; k++)
                p[i][k] += v[i][k] * 0.01;
    }
    double sum = 0;
    for (int i = 0; i < N; i++)
        sum += p[i][0] + p[i][1] + p[i][2];
    uint64_t bits;
    memcpy(&bits, &sum, sizeof bits);
    return bits;
}

enum { STREAM = (1 << 20) / SHRINK };
static double *streams[3];

static void fill_streams(void)
{
    for (int k = 0; k < 3 && streams[k] == NULL; k++) {
        streams[k] = memory(STREAM * sizeof(double));
        for (int i = 0; i < STREAM; i++)
            streams[k][i] = k + i % 11;
    }
}

static NOINLINE void triad_sse2(double *restrict a, const double *b, const double *c)
{
    const __m128d three = _mm_set1_pd(3);
    for (int i = 0; i < STREAM; i += 2)
        _mm_store_pd(a + i, _mm_add_pd(_mm_load_pd(b + i), _mm_mul_pd(three, _mm_load_pd(c + i))));
}

AVX2 static void triad_with_avx2(double *restrict a, const double *b, const double *c)
{
    const __m256d three = _mm256_set1_pd(3);
    for (int i = 0; i < STREAM; i += 4)
        _mm256_store_pd(a + i, _mm256_fmadd_pd(three, _mm256_load_pd(c + i), _mm256_load_pd(b + i)));
}

static uint64_t streaming(void (*triad)(double *restrict, const double *, const double *))
{
    fill_streams();
    for (int round = 0; round < 10; round++)
        triad(streams[round % 3], streams[(round + 1) % 3], streams[(round + 2) % 3]);
    double sum = 0;
    for (int k = 0; k < 3; k++)
        for (int i = 0; i < STREAM; i += 97)
            sum += streams[k][i];
    for (int k = 0; k < 3; k++)
        for (int i = 0; i < STREAM; i++)
            streams[k][i] = k + i % 11;
    return (uint64_t)(sum * 16);
}

static uint64_t triad(void) { return streaming(triad_sse2); }
static uint64_t triad_avx2(void) { return streaming(triad_with_avx2); }

/* Follows a ring of pointers in random order; one load after the other. */
static uint64_t chase(size_t count, int steps)
{
    static struct { size_t count; uint32_t *ring; } kept;
    if (kept.count != count) {
        uint32_t *order = memory(count * sizeof *order);
        kept.ring = memory(count * 16 * sizeof *kept.ring);
        kept.count = count;
        for (size_t i = 0; i < count; i++)
            order[i] = (uint32_t)i;
        for (size_t i = count - 1; i > 0; i--) {
            size_t j = next() % (i + 1);
            uint32_t t = order[i];
            order[i] = order[j];
            order[j] = t;
        }
        for (size_t i = 0; i < count; i++)
            kept.ring[(size_t)order[i] * 16] = order[(i + 1) % count];
        free(order);
    }
    uint32_t at = 0;
    uint64_t sum = 0;
    for (int i = 0; i < steps; i++) {
        at = kept.ring[(size_t)at * 16];
        sum += at;
    }
    return sum;
}

static uint64_t chase_near(void) { return chase(256, 20000000 / SHRINK); }
static uint64_t chase_far(void) { return chase((1 << 20) / SHRINK, 1000000 / SHRINK); }

struct node {
    struct node *child[2];
    uint64_t key, value;
};

/* Looks keys up in a binary search tree. */
static uint64_t tree(void)
{
    enum { N = 20000 };
    static struct node nodes[N], *root;
    if (root == NULL)
        for (int i = 0; i < N; i++) {
            nodes[i].key = next();
            nodes[i].value = i;
            struct node **at = &root;
            while (*at != NULL)
                at = &(*at)->child[nodes[i].key > (*at)->key];
            *at = &nodes[i];
        }
    uint64_t sum = 0;
    for (int i = 0; i < 200000 / SHRINK; i++) {
        uint64_t key = nodes[(i * 7919) % N].key;
        const struct node *at = root;
        while (at->key != key)
            at = at->child[key > at->key];
        sum += at->value;
    }
    return sum;
}

/* A five-point stencil over a grid of floats, the loop as the compiler makes it. */
static uint64_t stencil(void)
{
    enum { SIDE = 512 };
    static float grids[2][SIDE][SIDE];
    for (int y = 0; y < SIDE; y++)
        for (int x = 0; x < SIDE; x++)
            grids[0][y][x] = grids[1][y][x] = (float)((x * y) % 17);
    for (int step = 0; step < 80 / SHRINK; step++) {
        float (*from)[SIDE] = grids[step & 1], (*to)[SIDE] = grids[~step & 1];
        for (int y = 1; y < SIDE - 1; y++)
            for (int x = 1; x < SIDE - 1; x++)
                to[y][x] = 0.2f * (from[y][x] + from[y][x - 1] + from[y][x + 1] + from[y - 1][x] + from[y + 1][x]);
    }
    double sum = 0;
    for (int y = 0; y < SIDE; y++)
        for (int x = 0; x < SIDE; x++)
            sum += grids[0][y][x];
    return (uint64_t)sum;
}

enum { TEXT = 1 << 16 };
static char text[2][TEXT];

/* Copies with REP MOVSB, of many sizes. */
static uint64_t rep_movsb(void)
{
    for (int i = 0; i < TEXT; i++)
        text[0][i] = (char)(i * 7);
    uint64_t sum = 0;
    for (int i = 0; i < 30000; i++) {
        size_t bytes = 1 + (size_t)i * 37 % (TEXT - 64);
        void *to = text[1] + i % 64;
        const void *from = text[0];
        size_t left_over = bytes;
        __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(left_over) : : "memory");
        sum += (unsigned char)text[1][bytes - 1];
    }
    return sum;
}

/* The C library's memcpy, memset and memchr. */
static uint64_t strings(void)
{
    uint64_t sum = 0;
    for (int i = 0; i < 30000 / SHRINK; i++) {
        size_t bytes = 1 + (size_t)i * 37 % (TEXT - 64);
        memset(text[0], 'a', bytes);
        text[0][bytes] = 'b';
        memcpy(text[1] + i % 64, text[0], bytes);
        sum += (uint64_t)((char *)memchr(text[0], 'b', TEXT) - text[0]);
    }
    return sum;
}

static const struct { const char *name; uint64_t (*run)(void); } kernels[] = {
    {"xorshift", xorshift},   {"crc32", crc32},           {"sieve", sieve},
    {"sort", sort},           {"sha-rounds", sha_rounds}, {"bytecode", bytecode},
    {"fib", fib},             {"nbody", nbody},           {"dgemm", dgemm},
    {"dgemm-avx2", dgemm_avx2}, {"stencil", stencil},     {"triad", triad},
    {"triad-avx2", triad_avx2}, {"chase-near", chase_near}, {"chase-far", chase_far},
    {"tree", tree},           {"rep-movsb", rep_movsb},   {"strings", strings},
};

int main(int argc, char **argv)
{
    int repeats = argc > 2 ? atoi(argv[2]) : 10;
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++) {
        if (argc > 1 && strcmp(argv[1], "list") == 0) {
            puts(kernels[i].name);
        } else if (argc > 1 && strcmp(argv[1], kernels[i].name) == 0) {
            uint64_t sum = 0;
            for (int repeat = 0; repeat < repeats; repeat++)
                sum = sum * 31 + kernels[i].run();
            printf("KERNEL %s %d %016" PRIx64 "\n", kernels[i].name, repeats, sum);
            return 0;
        }
    }
    if (argc > 1 && strcmp(argv[1], "list") == 0)
        return 0;
    fprintf(stderr, "kernels: NAME is one of those that `kernels list` prints\n");
    return 2;
}
