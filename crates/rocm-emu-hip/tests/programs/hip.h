/* The few declarations that these programs need, with the types of HIP's C interface. With -DBY_DLOPEN the functions are looked
   up in the library that $HIP_LIBRARY names; else the program is linked against it. */
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int hipError_t;
typedef void *hipStream_t, *hipEvent_t, *hipModule_t, *hipFunction_t, *hipGraph_t, *hipGraphExec_t;

#define FUNCTIONS(F)                                                                                                   \
    F(hipInit, (unsigned flags))                                                                                       \
    F(hipGetDeviceCount, (int *count))                                                                                 \
    F(hipDeviceGetName, (char *name, int length, int device))                                                          \
    F(hipMalloc, (void **pointer, size_t bytes))                                                                       \
    F(hipFree, (void *pointer))                                                                                        \
    F(hipMemcpy, (void *to, const void *from, size_t bytes, int kind))                                                 \
    F(hipMemcpyAsync, (void *to, const void *from, size_t bytes, int kind, hipStream_t stream))                        \
    F(hipMemsetD32Async, (void *to, int value, size_t count, hipStream_t stream))                                      \
    F(hipModuleLoad, (hipModule_t *module, const char *file))                                                          \
    F(hipModuleUnload, (hipModule_t module))                                                                           \
    F(hipModuleGetFunction, (hipFunction_t *function, hipModule_t module, const char *name))                           \
    F(hipModuleLaunchKernel, (hipFunction_t function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, \
                              unsigned bz, unsigned lds, hipStream_t stream, void **params, void **extra))             \
    F(hipStreamCreateWithFlags, (hipStream_t *stream, unsigned flags))                                                 \
    F(hipStreamSynchronize, (hipStream_t stream))                                                                      \
    F(hipStreamQuery, (hipStream_t stream))                                                                            \
    F(hipStreamDestroy, (hipStream_t stream))                                                                          \
    F(hipEventCreate, (hipEvent_t *event))                                                                             \
    F(hipEventRecord, (hipEvent_t event, hipStream_t stream))                                                          \
    F(hipEventSynchronize, (hipEvent_t event))                                                                         \
    F(hipEventQuery, (hipEvent_t event))                                                                               \
    F(hipEventElapsedTime, (float *ms, hipEvent_t start, hipEvent_t stop))                                             \
    F(hipStreamBeginCapture, (hipStream_t stream, int mode))                                                           \
    F(hipStreamEndCapture, (hipStream_t stream, hipGraph_t *graph))                                                    \
    F(hipGraphInstantiate, (hipGraphExec_t *exec, hipGraph_t graph, void **node, char *log, size_t bytes))             \
    F(hipGraphLaunch, (hipGraphExec_t exec, hipStream_t stream))                                                       \
    F(hipGraphExecDestroy, (hipGraphExec_t exec))                                                                      \
    F(hipGraphDestroy, (hipGraph_t graph))

#ifdef BY_DLOPEN
#define DECLARE(name, arguments) static hipError_t(*name) arguments;
FUNCTIONS(DECLARE)
static void open_hip(void) {
    void *library = dlopen(getenv("HIP_LIBRARY"), RTLD_NOW);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        exit(2);
    }
#define LOOK_UP(name, arguments)                                                                                       \
    if (!(*(void **)&name = dlsym(library, #name))) {                                                                  \
        fprintf(stderr, "no %s\n", #name);                                                                             \
        exit(2);                                                                                                       \
    }
    FUNCTIONS(LOOK_UP)
}
#else
#define DECLARE(name, arguments) extern hipError_t name arguments;
FUNCTIONS(DECLARE)
static void open_hip(void) {}
#endif

#define CHECK(call)                                                                                                    \
    do {                                                                                                               \
        hipError_t code = (call);                                                                                      \
        if (code) {                                                                                                    \
            fprintf(stderr, "%s: %d\n", #call, code);                                                                  \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)
