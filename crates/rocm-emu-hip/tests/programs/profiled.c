/* Is a profiler itself: it exports what the runtime looks for, launches two kernels, and prints what it is told. The structures are
   those of crates/rocm-emu/src/hooks.rs. */
#include "hip.h"

struct code_object;
struct dispatch;
struct tool {
    size_t size;
    void *data;
    void (*loaded)(void *data, const struct code_object *object);
    void (*unloaded)(void *data, const struct code_object *object);
    int (*enqueued)(void *data, const struct dispatch *dispatch);
    void (*completed)(void *data, const struct dispatch *dispatch);
};
struct runtime {
    size_t size;
    uint32_t abi_version, devices, hip_version, reserved;
    uint64_t (*now_ns)(void);
};
struct kernel {
    size_t size;
    uint64_t id;
    const char *name;
    uint64_t object, entry;
    int64_t entry_offset;
    uint32_t kernarg_size, kernarg_align, group_segment, private_segment, sgprs, vgprs, agprs, reserved;
};
struct code_object {
    size_t size;
    uint64_t id, agent;
    const uint8_t *bytes;
    size_t bytes_len;
    uint64_t load_base, load_size;
    int64_t load_delta;
    const char *uri;
    const struct kernel *kernels;
    size_t kernels_len;
};
struct counter {
    const char *name;
    double value;
    uint32_t kind, reserved;
};
struct dispatch {
    size_t size;
    uint64_t id, correlation, kernel, object, agent, queue, thread;
    const char *name;
    uint32_t grid[3], workgroup[3], group_segment, private_segment;
    uint64_t enqueued_ns, start_ns, end_ns;
    const struct counter *counters;
    size_t counters_len;
};
_Static_assert(sizeof(struct tool) == 48 && sizeof(struct runtime) == 32 && sizeof(struct kernel) == 80, "hooks.rs");
_Static_assert(sizeof(struct code_object) == 88 && sizeof(struct counter) == 24 && sizeof(struct dispatch) == 144, "hooks.rs");
_Static_assert(offsetof(struct dispatch, grid) == 72 && offsetof(struct dispatch, counters) == 128, "hooks.rs");

static void loaded(void *data, const struct code_object *object) {
    printf("%s loaded: %s, %zu kernels\n", (char *)data, object->bytes ? "ELF" : "none", object->kernels_len);
}

static int enqueued(void *data, const struct dispatch *dispatch) {
    (void)data;
    return dispatch->grid[0] == 512;
}

static void completed(void *data, const struct dispatch *dispatch) {
    double waves = -1;
    (void)data;
    for (size_t i = 0; i < dispatch->counters_len; i++)
        if (!strcmp(dispatch->counters[i].name, "SQ_WAVES"))
            waves = dispatch->counters[i].value;
    printf("%s grid %u waves %g %s\n", dispatch->name, dispatch->grid[0], waves,
           dispatch->end_ns > dispatch->start_ns ? "ok" : "no time");
}

__attribute__((visibility("default"))) int rocprofiler_set_api_table(void) { return 0; }

__attribute__((visibility("default"))) int rocm_emu_sdk_attach(const struct runtime *runtime, struct tool *tool) {
    if (runtime->abi_version != 1 || tool->size < sizeof *tool)
        return 1;
    tool->data = "tool:";
    tool->loaded = loaded;
    tool->enqueued = enqueued;
    tool->completed = completed;
    return 0;
}

int main(int argc, char **argv) {
    void *p;
    hipModule_t module;
    hipFunction_t increment;
    (void)argc;
    open_hip();
    CHECK(hipModuleLoad(&module, argv[1]));
    CHECK(hipModuleGetFunction(&increment, module, "increment"));
    CHECK(hipMalloc(&p, 2048));
    void *params[] = {&p};
    CHECK(hipModuleLaunchKernel(increment, 1, 1, 1, 256, 1, 1, 0, NULL, params, NULL));
    CHECK(hipModuleLaunchKernel(increment, 2, 1, 1, 256, 1, 1, 0, NULL, params, NULL));
    return 0;
}
