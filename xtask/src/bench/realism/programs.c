/* Seven programs for `cargo xtask bench realism programs`: a product of matrices, a relaxation, streams, sorting, a
 * sparse product, forces between particles, and a hash table. No parameter of a processor file comes from them.
 *
 * Each is a function as in kernels.c, and returns a checksum. */
#include <inttypes.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t seed = 88172645463325252;

static uint64_t next(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    return seed ^= seed << 17;
}

static uint64_t bits(double value)
{
    uint64_t word;
    memcpy(&word, &value, sizeof word);
    return word;
}

/* C += A * B, in the order of rows, so that the inner loop is a vector's. */
static uint64_t product(void)
{
    enum { N = 160 };
    static double a[N][N], b[N][N], c[N][N];
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++)
            a[i][j] = i + 0.5 * j, b[i][j] = i - 0.25 * j, c[i][j] = 0;
    for (int i = 0; i < N; i++)
        for (int k = 0; k < N; k++)
            for (int j = 0; j < N; j++)
                c[i][j] += a[i][k] * b[k][j];
    return bits(c[N / 2][N / 3]);
}

/* Jacobi's relaxation of a plane of 1 MiB. */
static uint64_t relaxation(void)
{
    enum { N = 360 };
    static double now[N][N], then[N][N];
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++)
            now[i][j] = then[i][j] = i * j % 17;
    for (int round = 0; round < 10; round++) {
        double(*from)[N] = round % 2 ? then : now, (*to)[N] = round % 2 ? now : then;
        for (int i = 1; i < N - 1; i++)
            for (int j = 1; j < N - 1; j++)
                to[i][j] = 0.25 * (from[i - 1][j] + from[i + 1][j] + from[i][j - 1] + from[i][j + 1]);
    }
    return bits(now[N / 2][N / 2]);
}

/* Copy, scale, add and triad of three arrays of 16 MiB. */
static uint64_t streams(void)
{
    enum { N = 2 << 20 };
    static double a[N], b[N], c[N];
    for (int i = 0; i < N; i++)
        a[i] = i % 7, b[i] = 2, c[i] = 0;
    for (int i = 0; i < N; i++)
        c[i] = a[i];
    for (int i = 0; i < N; i++)
        b[i] = 3 * c[i];
    for (int i = 0; i < N; i++)
        c[i] = a[i] + b[i];
    for (int i = 0; i < N; i++)
        a[i] = b[i] + 3 * c[i];
    return bits(a[N / 2] + a[N - 1]);
}

static int by_value(const void *one, const void *other)
{
    uint32_t a = *(const uint32_t *)one, b = *(const uint32_t *)other;
    return a < b ? -1 : a > b;
}

/* The C library's qsort. */
static uint64_t sorting(void)
{
    enum { N = 200000 };
    static uint32_t values[N];
    for (int i = 0; i < N; i++)
        values[i] = (uint32_t)next();
    qsort(values, N, sizeof *values, by_value);
    return values[N / 2];
}

/* A sparse matrix in rows, times a vector. */
static uint64_t sparse(void)
{
    enum { ROWS = 40000, EACH = 12 };
    static uint32_t columns[ROWS * EACH];
    static double values[ROWS * EACH], x[ROWS], y[ROWS];
    if (columns[0] == columns[1])
        for (int i = 0; i < ROWS * EACH; i++)
            columns[i] = (uint32_t)((i / EACH + (next() % 4001) + ROWS - 2000) % ROWS), values[i] = 1.0 / (1 + i % 5);
    for (int i = 0; i < ROWS; i++)
        x[i] = i % 3;
    for (int round = 0; round < 5; round++) {
        for (int row = 0; row < ROWS; row++) {
            double sum = 0;
            for (int k = row * EACH; k < (row + 1) * EACH; k++)
                sum += values[k] * x[columns[k]];
            y[row] = sum;
        }
        for (int row = 0; row < ROWS; row++)
            x[row] = y[row] * 0.1;
    }
    return bits(y[ROWS / 2]);
}

/* Forces of Lennard-Jones with a cut-off. */
static uint64_t forces(void)
{
    enum { N = 800 };
    static double at[N][3], force[N][3];
    for (int i = 0; i < N; i++)
        for (int k = 0; k < 3; k++)
            at[i][k] = (double)(next() % 100000) * 1e-4, force[i][k] = 0;
    for (int i = 0; i < N; i++)
        for (int j = i + 1; j < N; j++) {
            double d[3], r2 = 0;
            for (int k = 0; k < 3; k++)
                d[k] = at[i][k] - at[j][k], r2 += d[k] * d[k];
            if (r2 > 9)
                continue;
            double inverse = 1 / (r2 + 0.1), sixth = inverse * inverse * inverse;
            double f = 24 * inverse * sixth * (2 * sixth - 1);
            for (int k = 0; k < 3; k++)
                force[i][k] += f * d[k], force[j][k] -= f * d[k];
        }
    return bits(force[N / 2][1]);
}

/* Open addressing: insertions, then searches of which half succeed. */
static uint64_t hashing(void)
{
    enum { SLOTS = 1 << 16, N = 40000 };
    static uint64_t table[SLOTS];
    memset(table, 0, sizeof table);
    uint64_t found = 0, key = 1;
    for (int i = 0; i < 2 * N; i++) {
        key = key * 0x5851f42d4c957f2d + 1;
        uint64_t wanted = i < N ? key : i % 2 ? key : table[key >> 48] | 1;
        uint64_t slot = (wanted * 0x9e3779b97f4a7c15) >> 48;
        while (table[slot] != 0 && table[slot] != wanted)
            slot = (slot + 1) % SLOTS;
        if (i < N)
            table[slot] = wanted;
        else
            found += table[slot] == wanted;
    }
    return found;
}

static const struct {
    const char *name;
    uint64_t (*run)(void);
} kernels[] = {
    {"product", product}, {"relaxation", relaxation}, {"streams", streams}, {"sorting", sorting},
    {"sparse", sparse},   {"forces", forces},         {"hashing", hashing},
};
