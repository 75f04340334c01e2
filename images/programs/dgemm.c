/* Multiplies square matrices of doubles with packed SSE2 arithmetic, C = A * B.
 *
 *   dgemm [N [REPEATS]]      N a multiple of 4; prints "DGEMM <n> <repeats> <checksum>"
 *
 * The entries are small integers, so the checksum is exact whatever the order of the additions. */
#include <emmintrin.h>
#include <stdio.h>
#include <stdlib.h>

/* Four rows by four columns of C at a time: eight sums of pairs stay in registers. */
static void block(const double *a, const double *b, double *c, int n, int row, int column)
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

static double *matrix(int n)
{
    double *entries = aligned_alloc(64, ((size_t)n * n * sizeof *entries + 63) & ~(size_t)63);
    if (entries == NULL) {
        fprintf(stderr, "dgemm: no memory for a matrix of %d by %d\n", n, n);
        exit(1);
    }
    return entries;
}

int main(int argc, char **argv)
{
    int n = argc > 1 ? atoi(argv[1]) : 128, repeats = argc > 2 ? atoi(argv[2]) : 10;
    if (n < 4 || n % 4 != 0 || n > 8192 || repeats < 1) {
        fprintf(stderr, "dgemm: N must be a multiple of 4 up to 8192, REPEATS at least 1\n");
        return 2;
    }
    double *a = matrix(n), *b = matrix(n), *c = matrix(n), sum = 0;
    for (int i = 0; i < n * n; i++) {
        a[i] = i % 7 - 3;
        b[i] = i % 5 - 2;
    }
    for (int repeat = 0; repeat < repeats; repeat++) {
        a[repeat % n] += 1;
        for (int row = 0; row < n; row += 4)
            for (int column = 0; column < n; column += 4)
                block(a, b, c, n, row, column);
        for (int i = 0; i < n * n; i++)
            sum += c[i] * (i % 3 + 1);
    }
    printf("DGEMM %d %d %.0f\n", n, repeats, sum);
    return 0;
}
