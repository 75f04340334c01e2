/* Does nothing, busily and for ever: what a hung workload looks like. */
int main(void)
{
    for (volatile unsigned long turns = 0;; turns++) {
    }
}
