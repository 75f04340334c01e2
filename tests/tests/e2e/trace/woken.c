/* Ranks that look stuck by their MPI calls until something besides MPI wakes one. The argument is what does. */
#include <mpi.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int rank;

static void send_to(int to)
{
	MPI_Send(&rank, 1, MPI_INT, to, 5, MPI_COMM_WORLD);
}

static void receive(int from)
{
	int got;
	MPI_Recv(&got, 1, MPI_INT, from, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* Ends a rank that waits. */
static void on_signal(int number)
{
	(void)number;
	if (write(1, "signal\n", 7) == 7)
		_exit(0);
}

static void *send_later(void *unused)
{
	(void)unused;
	sleep(2);
	send_to(rank);
	return NULL;
}

int main(int argc, char **argv)
{
	const char *waker = argc > 1 ? argv[1] : "";
	int is = 0, given;
	char command[100];
	pthread_t thread;
#define WAKER(name) (is = strcmp(waker, name) == 0)
	if (WAKER("late") && getenv("PMI_RANK") && atoi(getenv("PMI_RANK")) == 1)
		sleep(2);
	MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &given);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	signal(SIGALRM, on_signal);
	signal(SIGUSR1, on_signal);
	if (WAKER("rank") || WAKER("late")) {
		if (rank == 0)
			receive(1);
		else if (WAKER("rank"))
			sleep(2);
		if (rank == 1)
			send_to(0);
	} else if (WAKER("pipe")) {
		FILE *slow = rank ? popen("sleep 2; echo 1", "r") : NULL;
		if (slow && fscanf(slow, "%d", &given) == 1)
			send_to(0);
		if (!rank)
			receive(1);
	} else if (WAKER("timer")) {
		alarm(2);
		receive(rank);
	} else if (WAKER("thread")) {
		pthread_create(&thread, NULL, send_later, NULL);
		receive(rank);
		pthread_join(thread, NULL);
	} else if (WAKER("process")) {
		snprintf(command, sizeof command, "(sleep 2; kill -USR1 %d) &", (int)getpid());
		is = system(command);
		receive(rank);
	} else if (WAKER("exit")) {
		if (rank == 1)
			_exit(0);
		receive(1);
	}
	printf("%s %d\n", waker, rank);
	MPI_Finalize();
	return 0;
}
