/* Preloaded into a master: no more threads or processes, and a wall clock that jumps, while it runs.
 *
 * TARN_TEST_SHIM names a file of two numbers: whether threads and processes are refused, and how
 * many seconds the wall clock is ahead. It is mapped, so that a change counts at once. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile long *said;

__attribute__((constructor)) static void map(void) {
    const char *path = getenv("TARN_TEST_SHIM");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return;
    void *page = mmap(NULL, 2 * sizeof(long), PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (page != MAP_FAILED) said = page;
}

int pthread_create(pthread_t *thread, const pthread_attr_t *how, void *(*work)(void *), void *with) {
    static int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    if (said && said[0]) return EAGAIN;
    if (!real) real = dlsym(RTLD_NEXT, "pthread_create");
    return real(thread, how, work, with);
}

pid_t fork(void) {
    static pid_t (*real)(void);
    if (said && said[0]) { errno = EAGAIN; return -1; }
    if (!real) real = dlsym(RTLD_NEXT, "fork");
    return real();
}

/* A wrapper's frame may not return twice, so the slower one stands in for it. */
pid_t vfork(void) { return fork(); }

int clock_gettime(clockid_t which, struct timespec *now) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
    int done = real(which, now);
    if (!done && said && which == CLOCK_REALTIME) now->tv_sec += said[1];
    return done;
}

time_t time(time_t *into) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (into) *into = now.tv_sec;
    return now.tv_sec;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    (void)zone;
    struct timespec whole;
    clock_gettime(CLOCK_REALTIME, &whole);
    now->tv_sec = whole.tv_sec;
    now->tv_usec = whole.tv_nsec / 1000;
    return 0;
}
