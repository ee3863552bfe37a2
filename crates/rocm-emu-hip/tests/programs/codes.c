/* Prints the codes of a few launches of `add` and `increment` and of what follows them, whatever they are. */
#include "hip.h"

int main(int argc, char **argv) {
    void *p = NULL;
    uint32_t n = 64;
    hipModule_t module = NULL;
    hipFunction_t functions[2] = {NULL, NULL};
    hipStream_t stream = NULL;
    hipEvent_t event = NULL;
    (void)argc;
    open_hip();
    printf("init %d\n", hipInit(0));
    printf("load %d\n", hipModuleLoad(&module, argv[1]));
    hipModuleGetFunction(&functions[0], module, "increment");
    hipModuleGetFunction(&functions[1], module, "add");
    for (int i = 1; i <= 3; i++)
        printf("malloc %d\n", hipMalloc(&p, 256));
    hipStreamCreateWithFlags(&stream, 1);
    hipEventCreate(&event);
    for (int i = 0; i < 4; i++) {
        void *of_add[] = {&p, &p, &p, &n}, *of_increment[] = {&p};
        hipFunction_t function = functions[i % 2];
        void **params = i % 2 ? of_add : of_increment;
        int launched = hipModuleLaunchKernel(function, 1, 1, 1, 64, 1, 1, 0, stream, params, NULL);
        int recorded = hipEventRecord(event, stream);
        printf("%s %d %d %d %d\n", i % 2 ? "add" : "increment", launched, recorded, hipEventQuery(event), hipStreamQuery(stream));
        fflush(stdout);
    }
    printf("sync %d\n", hipStreamSynchronize(stream));
    return 0;
}
