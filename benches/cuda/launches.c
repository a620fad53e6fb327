/* A bare loop over `cuLaunchKernel`, for the bench `launches`: what a launch costs when nothing but the driver is asked.
 *
 * A shared library that needs no toolkit: cc -O2 -shared -fPIC -o liblaunches.so benches/cuda/launches.c -ldl */

#include <dlfcn.h>
#include <stddef.h>
#include <time.h>

typedef int (*load_fn)(void **module, const void *image);
typedef int (*function_fn)(void **function, void *module, const char *name);
typedef int (*launch_fn)(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                         unsigned shared, void *stream, void **arguments, void **extra);

#define WORD(n) ".param .u64 p" #n
#define FOUR(a, b, c, d) WORD(a) "," WORD(b) "," WORD(c) "," WORD(d)

static const char ptx[] = ".version 7.0\n.target sm_75\n.address_size 64\n"
                          ".visible .entry five(" FOUR(0, 1, 2, 3) "," WORD(4) ") { ret; }\n"
                          ".visible .entry sixteen(" FOUR(0, 1, 2, 3) "," FOUR(4, 5, 6, 7) "," FOUR(8, 9, 10, 11) ","
                          FOUR(12, 13, 14, 15) ") { ret; }\n";

static launch_fn launch;
static void *functions[2];

/* Loads the kernels into the calling thread's context; 0 when that worked, else the driver's answer, or -1 without a driver. */
int launches_open(void) {
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (!driver) return -1;
    load_fn load = (load_fn)dlsym(driver, "cuModuleLoadData");
    function_fn function = (function_fn)dlsym(driver, "cuModuleGetFunction");
    launch = (launch_fn)dlsym(driver, "cuLaunchKernel");
    if (!load || !function || !launch) return -1;
    void *module;
    int answer = load(&module, ptx);
    if (!answer) answer = function(&functions[0], module, "five");
    if (!answer) answer = function(&functions[1], module, "sixteen");
    return answer;
}

/* Launches the kernel of five (0) or sixteen (1) arguments so many times on a stream; gives nanoseconds, below 0 when the driver refused. */
double launches_time(int which, int count, void *stream) {
    unsigned long long values[16];
    void *arguments[16];
    for (int at = 0; at < 16; at++) {
        values[at] = at;
        arguments[at] = &values[at];
    }
    struct timespec start, end;
    clock_gettime(CLOCK_MONOTONIC, &start);
    for (int at = 0; at < count; at++) {
        values[0] = at;
        if (launch(functions[which], 1, 1, 1, 32, 1, 1, 0, stream, arguments, NULL)) return -1;
    }
    clock_gettime(CLOCK_MONOTONIC, &end);
    return (end.tv_sec - start.tv_sec) * 1e9 + (end.tv_nsec - start.tv_nsec);
}
