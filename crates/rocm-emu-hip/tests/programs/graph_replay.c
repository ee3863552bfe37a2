/* Captures a fill, kernels and a copy, and replays the graph. */
#include "hip.h"

enum { N = 256, KERNELS = 5, REPLAYS = 3 };

int main(int argc, char **argv) {
    static uint32_t out[N];
    void *p;
    hipModule_t module;
    hipFunction_t increment;
    hipStream_t stream;
    hipGraph_t graph;
    hipGraphExec_t exec;
    (void)argc;
    open_hip();
    CHECK(hipModuleLoad(&module, argv[1]));
    CHECK(hipModuleGetFunction(&increment, module, "increment"));
    CHECK(hipMalloc(&p, sizeof out));
    CHECK(hipStreamCreateWithFlags(&stream, 1));
    CHECK(hipStreamBeginCapture(stream, 0));
    CHECK(hipMemsetD32Async(p, 100, N, stream));
    void *params[] = {&p};
    for (int i = 0; i < KERNELS; i++)
        CHECK(hipModuleLaunchKernel(increment, 1, 1, 1, N, 1, 1, 0, stream, params, NULL));
    CHECK(hipMemcpyAsync(out, p, sizeof out, 2, stream));
    CHECK(hipStreamEndCapture(stream, &graph));
    CHECK(hipGraphInstantiate(&exec, graph, NULL, NULL, 0));
    for (int replay = 0; replay < REPLAYS; replay++) {
        memset(out, 0, sizeof out);
        CHECK(hipGraphLaunch(exec, stream));
        CHECK(hipStreamSynchronize(stream));
        for (int i = 0; i < N; i++)
            if (out[i] != 100 + KERNELS) {
                fprintf(stderr, "replay %d: out[%d] = %u\n", replay, i, out[i]);
                return 1;
            }
    }
    CHECK(hipGraphExecDestroy(exec));
    CHECK(hipGraphDestroy(graph));
    CHECK(hipStreamDestroy(stream));
    printf("%d replays are right\n", REPLAYS);
    return 0;
}
