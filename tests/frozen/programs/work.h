/* Own work of a rank, in turns of a loop that the compiler keeps. */
static void work(long turns)
{
    volatile double x = 1;
    for (long i = 0; i < turns; i++)
        x = x * 1.0000001 + 1;
}
