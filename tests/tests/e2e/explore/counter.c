/* Two threads add to a counter. Without -DLOCK the addition of the first one is not atomic: its result is wrong if the second one
 * adds between its load and its store, which no run without delays does. */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>

static volatile long counter;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void work(long steps)
{
	for (volatile long step = 0; step < steps; step++)
		;
}

static void add(long steps)
{
#ifdef LOCK
	pthread_mutex_lock(&mutex);
#endif
	long value = counter;
	work(steps);
	counter = value + 1;
#ifdef LOCK
	pthread_mutex_unlock(&mutex);
#endif
}

static void *other(void *unused)
{
	add(200000);
	return unused;
}

int main(int argc, char **argv)
{
	pthread_t thread;
	MPI_Init(&argc, &argv);
	pthread_create(&thread, NULL, other, NULL);
	work(400000);
	add(10);
	pthread_join(thread, NULL);
	printf("%ld\n", counter);
	MPI_Finalize();
	return 0;
}
