/* Starts commands on other nodes, in the way of rsh: one program for both ends.
 *
 *   belljar-listen [PEER]         listens for commands, goes to the background once it does, and
 *                                 tells PEER (an address) that it is there
 *   belljar-rsh HOST COMMAND...   runs COMMAND on HOST in this directory and environment, passes
 *                                 its output on and ends with its exit code
 *   belljar-rsh --wait HOST...    ends when every HOST listens
 *   belljar-rsh --drain           ends when the console has sent everything written to it
 *   belljar-rsh --seed HEX        the kernel's random numbers depend on these bytes from now on
 *   belljar-rsh --neighbours DEV  reads lines of an address and the hardware address that it has
 *                                 behind DEV, which the kernel need not ask for then
 *
 * As with rsh, the words of COMMAND are joined with blanks and given to a shell. Standard input of
 * COMMAND is empty. If the caller goes away, COMMAND gets SIGTERM.
 *
 * Request:  length (4 bytes, little endian), then so many bytes: directory, command and each
 *           variable of the environment, all ended by NUL.
 * Response: frames of kind (1 byte: output, error, exit), length (4 bytes) and data; the data of
 *           the last one, exit, is the exit code in 4 bytes. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/random.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

enum { PORT = 7711, LARGEST_REQUEST = 8 << 20, CHUNK = 1 << 16, RETRY_NS = 10000000 };
enum { FRAME_OUTPUT = 1, FRAME_ERROR = 2, FRAME_EXIT = 3, HEADER = 5 };
/* What shells say when a command could not be run at all. */
enum { CANNOT_RUN = 126, USAGE = 2 };

extern char **environ;

static void die(const char *what, const char *name)
{
    fprintf(stderr, "belljar-rsh: %s %s: %s\n", what, name, strerror(errno));
    exit(CANNOT_RUN);
}

static void put32(unsigned char *at, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        at[i] = (unsigned char)(value >> (8 * i));
}

static uint32_t get32(const unsigned char *at)
{
    return at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

/* Writes all of it; -1 when the other side is gone. */
static int write_all(int fd, const void *data, size_t size)
{
    const char *at = data;
    while (size > 0) {
        ssize_t done = write(fd, at, size);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return -1;
        at += done;
        size -= (size_t)done;
    }
    return 0;
}

/* Reads exactly so much; -1 when the stream ends before. */
static int read_all(int fd, void *data, size_t size)
{
    char *at = data;
    while (size > 0) {
        ssize_t done = read(fd, at, size);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return -1;
        at += done;
        size -= (size_t)done;
    }
    return 0;
}

static void set_option(int socket, int level, int option)
{
    int on = 1;
    if (setsockopt(socket, level, option, &on, sizeof on) < 0)
        die("cannot set an option of", "a socket");
}

/* ---- the listening end ------------------------------------------------------------------- */

static int send_frame(int client, int kind, const void *data, uint32_t size)
{
    unsigned char header[HEADER] = { (unsigned char)kind };
    put32(header + 1, size);
    if (write_all(client, header, sizeof header) < 0)
        return -1;
    return write_all(client, data, size);
}

/* Runs in the child: becomes the command. Does not return. */
static void become(const char *directory, char *command, char **environment, int out, int error)
{
    int null = open("/dev/null", O_RDONLY);
    setpgid(0, 0);
    signal(SIGPIPE, SIG_DFL);
    if (null < 0 || dup2(null, 0) < 0 || dup2(out, 1) < 0 || dup2(error, 2) < 0)
        _exit(CANNOT_RUN);
    if (chdir(directory) < 0) {
        fprintf(stderr, "belljar-listen: cannot enter %s: %s\n", directory, strerror(errno));
        _exit(CANNOT_RUN);
    }
    char *arguments[] = { "sh", "-c", command, NULL };
    execve("/bin/sh", arguments, environment);
    fprintf(stderr, "belljar-listen: cannot run /bin/sh: %s\n", strerror(errno));
    _exit(CANNOT_RUN);
}

/* Passes on what the command writes until both its streams end; -1 if the client goes away. */
static int forward(int client, int out, int error)
{
    static char buffer[CHUNK];
    struct pollfd fds[3] = {
        { .fd = out, .events = POLLIN },
        { .fd = error, .events = POLLIN },
        { .fd = client, .events = POLLIN | POLLRDHUP },
    };
    while (fds[0].fd >= 0 || fds[1].fd >= 0) {
        if (poll(fds, 3, -1) < 0) {
            if (errno == EINTR)
                continue;
            return -1;
        }
        for (int i = 0; i < 2; i++) {
            if (fds[i].fd < 0 || fds[i].revents == 0)
                continue;
            ssize_t size = read(fds[i].fd, buffer, sizeof buffer);
            if (size < 0 && errno == EINTR)
                continue;
            if (size <= 0)
                fds[i].fd = -1;
            else if (send_frame(client, i == 0 ? FRAME_OUTPUT : FRAME_ERROR, buffer, (uint32_t)size) < 0)
                return -1;
        }
        /* A client sends nothing after its request: anything here is its end. */
        if (fds[2].revents != 0)
            return -1;
    }
    return 0;
}

static void execute(int client, const char *directory, char *command, char **environment)
{
    int out[2], error[2];
    if (pipe2(out, O_CLOEXEC) < 0 || pipe2(error, O_CLOEXEC) < 0)
        return;
    pid_t child = fork();
    if (child < 0)
        return;
    if (child == 0)
        become(directory, command, environment, out[1], error[1]);
    close(out[1]);
    close(error[1]);
    if (forward(client, out[0], error[0]) < 0) {
        kill(-child, SIGTERM);
        return;
    }
    int status;
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            return;
    unsigned char code[4];
    put32(code, WIFSIGNALED(status) ? 128 + (uint32_t)WTERMSIG(status) : (uint32_t)WEXITSTATUS(status));
    send_frame(client, FRAME_EXIT, code, sizeof code);
}

/* Reads one request and carries it out. */
static void serve(int client)
{
    unsigned char length[4];
    if (read_all(client, length, sizeof length) < 0)
        return;
    size_t size = get32(length);
    if (size == 0 || size > LARGEST_REQUEST)
        return;
    char *request = malloc(size);
    if (request == NULL || read_all(client, request, size) < 0 || request[size - 1] != '\0')
        return;
    size_t strings = 0;
    for (size_t i = 0; i < size; i++)
        strings += request[i] == '\0';
    char **list = calloc(strings + 1, sizeof *list);
    if (list == NULL || strings < 2)
        return;
    char *at = request;
    for (size_t i = 0; i < strings; i++) {
        list[i] = at;
        at += strlen(at) + 1;
    }
    execute(client, list[0], list[1], list + 2);
}

/* A datagram that nobody reads: on its way the peer learns this node's hardware address, so that
 * a connection it is trying to make need not wait for its next try. */
static void announce(const char *peer)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(PORT) };
    if (inet_pton(AF_INET, peer, &address.sin_addr) != 1)
        return;
    int socket_fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (socket_fd < 0)
        return;
    ssize_t sent = sendto(socket_fd, "up", 2, 0, (struct sockaddr *)&address, sizeof address);
    (void)sent;
    close(socket_fd);
}

static int listen_main(const char *peer)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(PORT) };
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (listener < 0)
        die("cannot make", "a socket");
    set_option(listener, SOL_SOCKET, SO_REUSEADDR);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) < 0 || listen(listener, 1024) < 0)
        die("cannot listen on", "its port");
    if (peer != NULL)
        announce(peer);
    pid_t background = fork();
    if (background < 0)
        die("cannot go to", "the background");
    if (background > 0)
        return 0;
    setsid();
    signal(SIGPIPE, SIG_IGN);
    /* Nobody waits for the processes that serve a client: let them go by themselves. */
    signal(SIGCHLD, SIG_IGN);
    for (;;) {
        int client = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (client < 0)
            continue;
        if (fork() == 0) {
            close(listener);
            signal(SIGCHLD, SIG_DFL);
            set_option(client, IPPROTO_TCP, TCP_NODELAY);
            serve(client);
            _exit(0);
        }
        close(client);
    }
}

/* ---- the calling end --------------------------------------------------------------------- */

/* Finds HOST in /etc/hosts, or takes it as an address. */
static struct in_addr look_up(const char *host)
{
    struct in_addr address;
    if (inet_pton(AF_INET, host, &address) == 1)
        return address;
    FILE *hosts = fopen("/etc/hosts", "re");
    if (hosts == NULL)
        die("cannot open", "/etc/hosts");
    char line[1024];
    while (fgets(line, sizeof line, hosts) != NULL) {
        char *rest = line;
        char *number = strsep(&rest, " \t\n");
        if (inet_pton(AF_INET, number, &address) != 1)
            continue;
        for (char *name; (name = strsep(&rest, " \t\n")) != NULL;)
            if (strcmp(name, host) == 0) {
                fclose(hosts);
                return address;
            }
    }
    errno = ENOENT;
    die("cannot find in /etc/hosts the node", host);
    return address;
}

/* Connects to HOST; with `patient` nonzero tries until it listens. */
static int connect_to(const char *host, int patient)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(PORT), .sin_addr = look_up(host)
    };
    for (;;) {
        int server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (server < 0)
            die("cannot make", "a socket");
        if (connect(server, (struct sockaddr *)&address, sizeof address) == 0)
            return server;
        if (!patient)
            die("cannot reach", host);
        close(server);
        nanosleep(&(struct timespec){ .tv_nsec = RETRY_NS }, NULL);
    }
}

static int wait_main(char **hosts)
{
    for (; *hosts != NULL; hosts++)
        close(connect_to(*hosts, 1));
    return 0;
}

static int drain_main(void)
{
    int console = open("/dev/console", O_WRONLY | O_NOCTTY);
    if (console < 0 || tcdrain(console) < 0)
        die("cannot drain", "/dev/console");
    return 0;
}

/* Appends a string with its NUL to the request. */
static void append(FILE *request, const char *text)
{
    fputs(text, request);
    fputc('\0', request);
}

static void send_request(int server, const char *host, char **words)
{
    char *bytes;
    size_t size;
    char *directory = getcwd(NULL, 0);
    FILE *request = open_memstream(&bytes, &size);
    if (request == NULL || directory == NULL)
        die("cannot put together a request for", host);
    fwrite("size", 1, 4, request);
    append(request, directory);
    for (; *words != NULL; words++) {
        fputs(*words, request);
        if (words[1] != NULL)
            fputc(' ', request);
    }
    fputc('\0', request);
    for (char **variable = environ; *variable != NULL; variable++)
        append(request, *variable);
    if (fclose(request) != 0)
        die("cannot put together a request for", host);
    if (size - 4 > LARGEST_REQUEST) {
        errno = E2BIG;
        die("cannot send the environment to", host);
    }
    put32((unsigned char *)bytes, (uint32_t)(size - 4));
    if (write_all(server, bytes, size) < 0)
        die("lost the connection to", host);
}

static int call_main(const char *host, char **words)
{
    static char buffer[CHUNK];
    int server = connect_to(host, 0);
    set_option(server, IPPROTO_TCP, TCP_NODELAY);
    send_request(server, host, words);
    for (;;) {
        unsigned char header[HEADER];
        if (read_all(server, header, sizeof header) < 0)
            die("lost the connection to", host);
        uint32_t size = get32(header + 1);
        if (size > sizeof buffer || read_all(server, buffer, size) < 0)
            die("lost the connection to", host);
        if (header[0] == FRAME_EXIT && size == 4)
            return (int)get32((unsigned char *)buffer);
        if (write_all(header[0] == FRAME_ERROR ? 2 : 1, buffer, size) < 0)
            return CANNOT_RUN;
    }
}

/* Nodes that are clones of one snapshot would draw the same numbers for up to a minute. */
static int seed_main(const char *hex)
{
    /* As struct rand_pool_info, with room at its end. */
    struct {
        int entropy_count, buf_size;
        unsigned char bytes[32];
    } seed = {0, 0, {0}};
    size_t count = 0;
    unsigned byte;
    while (count < sizeof seed.bytes && sscanf(hex + 2 * count, "%2x", &byte) == 1)
        seed.bytes[count++] = (unsigned char)byte;
    if (count == 0 || hex[2 * count] != 0) {
        errno = EINVAL;
        die("cannot read the seed", hex);
    }
    seed.entropy_count = (int)(8 * count);
    seed.buf_size = (int)count;
    int fd = open("/dev/urandom", O_RDWR | O_CLOEXEC);
    if (fd < 0 || ioctl(fd, RNDADDENTROPY, &seed) != 0 || ioctl(fd, RNDRESEEDCRNG) != 0)
        die("cannot seed", "/dev/urandom");
    return 0;
}

/* Where hundreds of nodes ask each other all at once, each hears tens of thousands of questions. */
static int neighbours_main(const char *device)
{
    char address[16], line[64];
    unsigned char bytes[6];
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    while (fgets(line, sizeof line, stdin) != NULL) {
        struct arpreq entry = {.arp_flags = ATF_COM | ATF_PERM};
        struct sockaddr_in *who = (struct sockaddr_in *)&entry.arp_pa;
        who->sin_family = AF_INET;
        entry.arp_ha.sa_family = ARPHRD_ETHER;
        strncpy(entry.arp_dev, device, sizeof entry.arp_dev - 1);
        int fields = sscanf(line, "%15s %2hhx:%2hhx:%2hhx:%2hhx:%2hhx:%2hhx", address, &bytes[0],
                            &bytes[1], &bytes[2], &bytes[3], &bytes[4], &bytes[5]);
        if (fields != 7 || inet_pton(AF_INET, address, &who->sin_addr) != 1) {
            errno = EINVAL;
            die("cannot read the neighbour", line);
        }
        memcpy(entry.arp_ha.sa_data, bytes, sizeof bytes);
        if (fd < 0 || ioctl(fd, SIOCSARP, &entry) != 0)
            die("cannot set the neighbour", line);
    }
    return 0;
}

int main(int argc, char **argv)
{
    const char *slash = argc > 0 ? strrchr(argv[0], '/') : NULL;
    const char *name = slash != NULL ? slash + 1 : argc > 0 ? argv[0] : "";
    if (strcmp(name, "belljar-listen") == 0)
        return listen_main(argc > 1 ? argv[1] : NULL);
    if (argc > 1 && strcmp(argv[1], "--wait") == 0)
        return wait_main(argv + 2);
    if (argc > 1 && strcmp(argv[1], "--drain") == 0)
        return drain_main();
    if (argc > 2 && strcmp(argv[1], "--seed") == 0)
        return seed_main(argv[2]);
    if (argc > 2 && strcmp(argv[1], "--neighbours") == 0)
        return neighbours_main(argv[2]);
    if (argc < 3) {
        fprintf(stderr, "usage: belljar-rsh HOST COMMAND...\n");
        return USAGE;
    }
    return call_main(argv[1], argv + 2);
}
