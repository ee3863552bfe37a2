/* Adds two vectors on the GPU: module, function, copies, one launch. */
#include "hip.h"

enum { N = 1000 };

int main(int argc, char **argv) {
    static uint32_t a[N], b[N], c[N];
    void *da, *db, *dc;
    uint32_t n = N;
    hipModule_t module;
    hipFunction_t add;
    char name[64];
    (void)argc;
    open_hip();
    CHECK(hipInit(0));
    CHECK(hipDeviceGetName(name, sizeof name, 0));
    for (uint32_t i = 0; i < N; i++) {
        a[i] = i;
        b[i] = 7 * i;
    }
    CHECK(hipMalloc(&da, sizeof a));
    CHECK(hipMalloc(&db, sizeof b));
    CHECK(hipMalloc(&dc, sizeof c));
    CHECK(hipMemcpy(da, a, sizeof a, 1));
    CHECK(hipMemcpy(db, b, sizeof b, 1));
    CHECK(hipModuleLoad(&module, argv[1]));
    CHECK(hipModuleGetFunction(&add, module, "add"));
    void *params[] = {&da, &db, &dc, &n};
    CHECK(hipModuleLaunchKernel(add, (N + 255) / 256, 1, 1, 256, 1, 1, 0, NULL, params, NULL));
    CHECK(hipMemcpy(c, dc, sizeof c, 2));
    for (uint32_t i = 0; i < N; i++)
        if (c[i] != 8 * i) {
            fprintf(stderr, "c[%u] = %u\n", i, c[i]);
            return 1;
        }
    CHECK(hipModuleUnload(module));
    CHECK(hipFree(da));
    CHECK(hipFree(db));
    CHECK(hipFree(dc));
    printf("%s: %d sums are right\n", name, N);
    return 0;
}
