// A minimal profiler that has nothing but dlopen: it configures rocprofiler-sdk, then loads HIP, launches a kernel from a code object, and
// prints what the SDK told of it.
//
// tool SDK HIP CODE: both libraries by path; the code object has a kernel `increment` of one pointer argument.
#include "rocprofiler_abi.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LAUNCHES 50
#define ABI(name, args) static int (*name) args

ABI(rocprofiler_get_version, (uint32_t*, uint32_t*, uint32_t*));
ABI(rocprofiler_force_configure, (rocprofiler_configure_func_t));
ABI(rocprofiler_create_context, (rocprofiler_context_id_t*));
ABI(rocprofiler_start_context, (rocprofiler_context_id_t));
ABI(rocprofiler_stop_context, (rocprofiler_context_id_t));
ABI(rocprofiler_create_buffer, (rocprofiler_context_id_t, size_t, size_t, int, rocprofiler_buffer_tracing_cb_t, void*,
                                rocprofiler_buffer_id_t*));
ABI(rocprofiler_flush_buffer, (rocprofiler_buffer_id_t));
ABI(rocprofiler_create_callback_thread, (rocprofiler_callback_thread_t*));
ABI(rocprofiler_assign_callback_thread, (rocprofiler_buffer_id_t, rocprofiler_callback_thread_t));
ABI(rocprofiler_configure_buffer_tracing_service, (rocprofiler_context_id_t, int, const int32_t*, size_t,
                                                   rocprofiler_buffer_id_t));
ABI(rocprofiler_configure_callback_tracing_service, (rocprofiler_context_id_t, int, const int32_t*, size_t,
                                                     rocprofiler_callback_tracing_cb_t, void*));
ABI(rocprofiler_query_available_agents, (int, rocprofiler_query_available_agents_cb_t, size_t, void*));
ABI(rocprofiler_iterate_agent_supported_counters, (rocprofiler_agent_id_t, rocprofiler_available_counters_cb_t, void*));
ABI(rocprofiler_query_counter_info, (rocprofiler_counter_id_t, int, void*));
ABI(rocprofiler_create_counter_config, (rocprofiler_agent_id_t, rocprofiler_counter_id_t*, size_t,
                                        rocprofiler_counter_config_id_t*));
ABI(rocprofiler_configure_callback_dispatch_counting_service, (rocprofiler_context_id_t,
                                                               rocprofiler_dispatch_counting_service_cb_t, void*,
                                                               rocprofiler_dispatch_counting_record_cb_t, void*));
ABI(rocprofiler_query_record_counter_id, (uint64_t, rocprofiler_counter_id_t*));
ABI(hipInit, (unsigned));
ABI(hipMalloc, (void**, size_t));
ABI(hipMemset, (void*, int, size_t));
ABI(hipModuleLoad, (void**, const char*));
ABI(hipModuleGetFunction, (void**, void*, const char*));
ABI(hipModuleLaunchKernel, (void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**, void**));
ABI(hipDeviceSynchronize, (void));

#define CHECK(call)                                                              \
    do {                                                                         \
        int code = (call);                                                       \
        if(code) {                                                               \
            fprintf(stderr, "%s:%d: %s gives %d\n", __FILE__, __LINE__, #call, code); \
            _exit(9);                                                            \
        }                                                                        \
    } while(0)

static void* library(const char* path, int scope) {
    void* handle = dlopen(path, RTLD_NOW | scope);
    if(!handle) {
        fprintf(stderr, "%s\n", dlerror());
        _exit(8);
    }
    return handle;
}
static void find(void* handle, const char* name, void* function) {
    void* address = dlsym(handle, name);
    if(!address) {
        fprintf(stderr, "no %s\n", name);
        _exit(7);
    }
    memcpy(function, &address, sizeof address);
}
#define FIND(handle, name) find(handle, #name, &name)

static rocprofiler_context_id_t objects, tracing, counting;
static rocprofiler_buffer_id_t buffer;
static rocprofiler_agent_id_t gpu;
static rocprofiler_counter_id_t waves, active;
static rocprofiler_counter_config_id_t config;
static uint64_t increment_kernel;
static volatile size_t traced, traced_kernel, own, counted;
static uint64_t last_grid;
static double waves_sum, active_max;

static rocprofiler_status_t take_agents(int version, const void** agents, size_t count, void* data) {
    (void) version, (void) data;
    for(size_t i = 0; i < count; ++i) {
        const rocprofiler_agent_v0_t* agent = agents[i];
        if(agent->type != 2) continue;
        gpu = agent->id;
        printf("agent %s %u CUs %u XCCs size %d\n", agent->name, agent->cu_count, agent->num_xcc, agent->size >= 304);
    }
    return 0;
}
static rocprofiler_status_t take_counters(rocprofiler_agent_id_t agent, rocprofiler_counter_id_t* list, size_t count, void* data) {
    (void) agent, (void) data;
    for(size_t i = 0; i < count; ++i) {
        rocprofiler_counter_info_v0_t info;
        CHECK(rocprofiler_query_counter_info(list[i], 1, &info));
        if(!strcmp(info.name, "SQ_WAVES")) waves = list[i];
        if(!strcmp(info.name, "GRBM_GUI_ACTIVE")) active = list[i];
    }
    return 0;
}
static void on_object(rocprofiler_callback_tracing_record_t record, rocprofiler_user_data_t* user, void* data) {
    (void) user;
    if(data != &objects || record.kind != 10 || record.phase != 1 || record.operation != 2) return;
    const rocprofiler_callback_tracing_code_object_kernel_symbol_register_data_t* symbol = record.payload;
    if(!strcmp(symbol->kernel_name, "increment.kd")) increment_kernel = symbol->kernel_id;
}
static void on_buffer(rocprofiler_context_id_t context, rocprofiler_buffer_id_t id, rocprofiler_record_header_t** headers, size_t count,
                      void* data, uint64_t dropped) {
    if(context.handle != tracing.handle || id.handle != buffer.handle || data != &buffer || dropped) _exit(6);
    for(size_t i = 0; i < count; ++i) {
        if(headers[i]->category != 1 || headers[i]->kind != 11) continue;
        const rocprofiler_buffer_tracing_kernel_dispatch_record_t* record = headers[i]->payload;
        if(record->size < sizeof *record || record->end_timestamp <= record->start_timestamp) _exit(5);
        ++traced;
        if(record->dispatch_info.kernel_id != increment_kernel) {
            ++own;
            continue;
        }
        ++traced_kernel;
        last_grid = record->dispatch_info.grid_size.x;
    }
}
static void choose(rocprofiler_dispatch_counting_service_data_t data, rocprofiler_counter_config_id_t* out,
                   rocprofiler_user_data_t* user, void* tool) {
    if(data.size != sizeof data || data.start_timestamp || tool != &counting) _exit(4);
    user->value = data.dispatch_info.dispatch_id + 1000;
    *out = config;
}
static void on_counted(rocprofiler_dispatch_counting_service_data_t data, rocprofiler_counter_record_t* records, size_t count,
                       rocprofiler_user_data_t user, void* tool) {
    if(tool != &counting || user.value != data.dispatch_info.dispatch_id + 1000 || !data.end_timestamp) _exit(3);
    for(size_t i = 0; i < count; ++i) {
        rocprofiler_counter_id_t id = {0};
        CHECK(rocprofiler_query_record_counter_id(records[i].id, &id));
        if((id.handle & 0xffff) == (waves.handle & 0xffff)) waves_sum += records[i].counter_value;
        else if(records[i].counter_value > active_max) active_max = records[i].counter_value;
    }
    ++counted;
}

static int initialize(rocprofiler_client_finalize_t finalize, void* data) {
    (void) finalize, (void) data;
    CHECK(rocprofiler_create_context(&objects));
    CHECK(rocprofiler_create_context(&tracing));
    CHECK(rocprofiler_create_context(&counting));
    const int32_t operations[] = {1, 2};
    CHECK(rocprofiler_configure_callback_tracing_service(objects, 10, operations, 2, on_object, &objects));
    CHECK(rocprofiler_start_context(objects));
    rocprofiler_callback_thread_t thread = {0};
    CHECK(rocprofiler_create_buffer(tracing, 4096, 3072, 2, on_buffer, &buffer, &buffer));
    CHECK(rocprofiler_create_callback_thread(&thread));
    CHECK(rocprofiler_assign_callback_thread(buffer, thread));
    CHECK(rocprofiler_configure_buffer_tracing_service(tracing, 11, NULL, 0, buffer));
    CHECK(rocprofiler_query_available_agents(1, take_agents, 296, NULL));
    CHECK(rocprofiler_iterate_agent_supported_counters(gpu, take_counters, NULL));
    rocprofiler_counter_id_t wanted[] = {waves, active};
    CHECK(rocprofiler_create_counter_config(gpu, wanted, 2, &config));
    CHECK(rocprofiler_configure_callback_dispatch_counting_service(counting, choose, &counting, on_counted, &counting));
    return 0;
}
static void finalize(void* data) {
    if(data != &gpu) _exit(2);
    printf("finalized\n");
    fflush(stdout);
}
static rocprofiler_tool_configure_result_t* configure(uint32_t version, const char* runtime, uint32_t priority,
                                                      rocprofiler_client_id_t* client) {
    static rocprofiler_tool_configure_result_t result = {sizeof result, initialize, finalize, &gpu};
    printf("configure %u %s %u\n", version, runtime, priority);
    client->name = "a tool in C";
    return &result;
}

int main(int argc, char** argv) {
    if(argc != 4) return 1;
    void* sdk = library(argv[1], RTLD_GLOBAL);
    FIND(sdk, rocprofiler_get_version);
    FIND(sdk, rocprofiler_force_configure);
    FIND(sdk, rocprofiler_create_context);
    FIND(sdk, rocprofiler_start_context);
    FIND(sdk, rocprofiler_stop_context);
    FIND(sdk, rocprofiler_create_buffer);
    FIND(sdk, rocprofiler_flush_buffer);
    FIND(sdk, rocprofiler_create_callback_thread);
    FIND(sdk, rocprofiler_assign_callback_thread);
    FIND(sdk, rocprofiler_configure_buffer_tracing_service);
    FIND(sdk, rocprofiler_configure_callback_tracing_service);
    FIND(sdk, rocprofiler_query_available_agents);
    FIND(sdk, rocprofiler_iterate_agent_supported_counters);
    FIND(sdk, rocprofiler_query_counter_info);
    FIND(sdk, rocprofiler_create_counter_config);
    FIND(sdk, rocprofiler_configure_callback_dispatch_counting_service);
    FIND(sdk, rocprofiler_query_record_counter_id);
    uint32_t major, minor, patch;
    CHECK(rocprofiler_get_version(&major, &minor, &patch));
    printf("version %u.%u.%u\n", major, minor, patch);
    CHECK(rocprofiler_force_configure(configure));

    void* hip = library(argv[2], RTLD_LOCAL);
    FIND(hip, hipInit);
    FIND(hip, hipMalloc);
    FIND(hip, hipMemset);
    FIND(hip, hipModuleLoad);
    FIND(hip, hipModuleGetFunction);
    FIND(hip, hipModuleLaunchKernel);
    FIND(hip, hipDeviceSynchronize);
    void *module, *function, *memory;
    CHECK(hipInit(0));
    CHECK(hipMalloc(&memory, 1 << 20));
    CHECK(hipModuleLoad(&module, argv[3]));
    CHECK(hipModuleGetFunction(&function, module, "increment"));
    void* arguments[] = {&memory};

    CHECK(rocprofiler_start_context(tracing));
    CHECK(hipMemset(memory, 0, 1 << 20));
    for(unsigned i = 1; i <= LAUNCHES; ++i) CHECK(hipModuleLaunchKernel(function, i, 1, 1, 64, 1, 1, 0, NULL, arguments, NULL));
    CHECK(hipDeviceSynchronize());
    for(int i = 0; i < 200 && traced < LAUNCHES + 1; ++i) {
        int code = rocprofiler_flush_buffer(buffer);
        if(code && code != 14) CHECK(code);
        usleep(5000);
    }
    CHECK(rocprofiler_stop_context(tracing));
    printf("traced %zu of the kernel, %zu of the runtime, last grid %lu\n", traced_kernel, own, (unsigned long) last_grid);

    CHECK(rocprofiler_start_context(counting));
    CHECK(hipModuleLaunchKernel(function, 123, 1, 1, 64, 1, 1, 0, NULL, arguments, NULL));
    CHECK(hipDeviceSynchronize());
    for(int i = 0; i < 200 && !counted; ++i) usleep(5000);
    CHECK(rocprofiler_stop_context(counting));
    printf("counted %zu: %.0f waves, active %d\n", counted, waves_sum, active_max > 0);
    fflush(stdout);
    return 0;
}
