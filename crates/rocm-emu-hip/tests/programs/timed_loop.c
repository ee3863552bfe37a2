/* Times a kernel with events, again and again, and prints each time in ns; its second argument is how often. */
#include "hip.h"

int main(int argc, char **argv) {
    enum { BLOCKS = 64, BLOCK = 256 };
    void *p;
    float ms;
    hipModule_t module;
    hipFunction_t increment;
    hipStream_t stream;
    hipEvent_t start, stop;
    int count = argc > 2 ? atoi(argv[2]) : 10;
    open_hip();
    CHECK(hipModuleLoad(&module, argv[1]));
    CHECK(hipModuleGetFunction(&increment, module, "increment"));
    CHECK(hipMalloc(&p, 4 * BLOCKS * BLOCK));
    CHECK(hipStreamCreateWithFlags(&stream, 1));
    CHECK(hipEventCreate(&start));
    CHECK(hipEventCreate(&stop));
    void *params[] = {&p};
    for (int i = 0; i < count; i++) {
        CHECK(hipEventRecord(start, stream));
        CHECK(hipModuleLaunchKernel(increment, BLOCKS, 1, 1, BLOCK, 1, 1, 0, stream, params, NULL));
        CHECK(hipEventRecord(stop, stream));
        CHECK(hipEventSynchronize(stop));
        CHECK(hipEventElapsedTime(&ms, start, stop));
        printf("%.0f\n", ms * 1e6);
    }
    return 0;
}
