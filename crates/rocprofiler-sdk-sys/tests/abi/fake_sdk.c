// A library that looks like rocprofiler-sdk to the crate, for its tests: every value it hands over is a known one, by value where the
// interface says so. What happens is driven by the fake_* functions. Built with -DMAJOR -DMINOR -DPATCH, and -DLACKS_SAMPLING for a
// library without one mandatory function, -DWITHOUT_OPTIONAL for one without the optional ones.
#include "rocprofiler_abi.h"

#include <stdlib.h>
#include <string.h>

#define API __attribute__((visibility("default")))
#define DONE 0
#define LOCKED 16
#define MAX_RECORDS 512

static int initialized, finalized, contexts, buffers, threads, configs, started[8], in_initialize, early_busy;
static rocprofiler_buffer_tracing_cb_t buffer_cb;
static void* buffer_data;
static rocprofiler_callback_tracing_cb_t code_cb;
static void* code_data;
static rocprofiler_dispatch_counting_service_cb_t choose_cb;
static void* choose_data;
static rocprofiler_dispatch_counting_record_cb_t counted_cb;
static void* counted_data;
static rocprofiler_device_counting_service_cb_t device_cb;
static void* device_data;
static rocprofiler_counter_config_id_t device_config;
static rocprofiler_tool_configure_result_t result;
static void* pending[MAX_RECORDS];
static rocprofiler_record_header_t headers[MAX_RECORDS];
static size_t pending_count, late_count;
static const char* client_name;

API rocprofiler_status_t rocprofiler_get_version(uint32_t* major, uint32_t* minor, uint32_t* patch) {
    *major = MAJOR;
    *minor = MINOR;
    *patch = PATCH;
    return DONE;
}
API const char* rocprofiler_get_status_name(rocprofiler_status_t status) {
    return status == LOCKED ? "ROCPROFILER_STATUS_ERROR_CONFIGURATION_LOCKED" : status == 38 ? "EXCEEDS" : NULL;
}
API const char* rocprofiler_get_status_string(rocprofiler_status_t status) { return status == LOCKED ? "too late" : NULL; }
API rocprofiler_status_t rocprofiler_get_timestamp(uint64_t* ns) { return *ns = 123456789, DONE; }
API rocprofiler_status_t rocprofiler_is_initialized(int* answer) { return *answer = initialized, DONE; }
API rocprofiler_status_t rocprofiler_is_finalized(int* answer) { return *answer = finalized, DONE; }
API rocprofiler_status_t rocprofiler_force_configure(rocprofiler_configure_func_t configure) {
    rocprofiler_client_id_t client = {sizeof client, NULL, 77};
    if(initialized) return LOCKED;
    rocprofiler_tool_configure_result_t* tool = configure(MAJOR * 10000 + MINOR * 100 + PATCH, "fake", 0, &client);
    if(!tool) return DONE;
    result = *tool;
    client_name = client.name;
    initialized = -1;
    in_initialize = 1;
    result.initialize(NULL, result.tool_data);
    in_initialize = 0;
    initialized = 1;
    return DONE;
}
API rocprofiler_status_t rocprofiler_create_context(rocprofiler_context_id_t* context) {
    if(!in_initialize) return LOCKED;
    if(context->handle) return 13;
    return context->handle = (uint64_t) ++contexts, DONE;
}
API rocprofiler_status_t rocprofiler_start_context(rocprofiler_context_id_t context) {
    started[context.handle] = 1;
    if(device_cb) {
        extern rocprofiler_status_t fake_set(rocprofiler_context_id_t, rocprofiler_counter_config_id_t);
        device_cb(context, (rocprofiler_agent_id_t){0xa9e47}, fake_set, device_data);
    }
    return DONE;
}
rocprofiler_status_t fake_set(rocprofiler_context_id_t context, rocprofiler_counter_config_id_t config) {
    (void) context;
    return device_config = config, DONE;
}
API rocprofiler_status_t rocprofiler_stop_context(rocprofiler_context_id_t context) {
    if(!started[context.handle]) return 2;
    return started[context.handle] = 0, DONE;
}
API rocprofiler_status_t rocprofiler_context_is_valid(rocprofiler_context_id_t context, int* answer) {
    return *answer = context.handle != 0, DONE;
}
API rocprofiler_status_t rocprofiler_context_is_active(rocprofiler_context_id_t context, int* answer) {
    return *answer = started[context.handle], DONE;
}
API rocprofiler_status_t rocprofiler_create_buffer(rocprofiler_context_id_t context, size_t size, size_t watermark, int policy,
                                                   rocprofiler_buffer_tracing_cb_t callback, void* data,
                                                   rocprofiler_buffer_id_t* buffer) {
    if(!in_initialize) return LOCKED;
    if(!size || !context.handle || watermark >= size || (policy != 1 && policy != 2)) abort();
    buffer_cb = callback;
    buffer_data = data;
    return buffer->handle = 40 + (uint64_t) ++buffers, DONE;
}
static void deliver(size_t count, uint64_t dropped) {
    rocprofiler_record_header_t* list[MAX_RECORDS];
    for(size_t i = 0; i < count; ++i) list[i] = &headers[i];
    if(count) buffer_cb((rocprofiler_context_id_t){1}, (rocprofiler_buffer_id_t){41}, list, count, buffer_data, dropped);
    for(size_t i = 0; i < count; ++i) free(pending[i]);
    memmove(pending, pending + count, (pending_count - count) * sizeof *pending);
    memmove(headers, headers + count, (pending_count - count) * sizeof *headers);
    pending_count -= count;
}
API rocprofiler_status_t rocprofiler_flush_buffer(rocprofiler_buffer_id_t buffer) {
    if(buffer.handle != 41) abort();
    if(early_busy) return early_busy = 0, 14;
    size_t late = late_count < pending_count ? late_count : pending_count;
    late_count = 0;
    deliver(pending_count - late, 5);
    return DONE;
}
API rocprofiler_status_t rocprofiler_destroy_buffer(rocprofiler_buffer_id_t buffer) { return (void) buffer, DONE; }
API rocprofiler_status_t rocprofiler_create_callback_thread(rocprofiler_callback_thread_t* thread) {
    return thread->handle = 90 + (uint64_t) ++threads, DONE;
}
API rocprofiler_status_t rocprofiler_assign_callback_thread(rocprofiler_buffer_id_t buffer, rocprofiler_callback_thread_t thread) {
    return buffer.handle == 41 && thread.handle == 91 ? DONE : 6;
}
API rocprofiler_status_t rocprofiler_configure_buffer_tracing_service(rocprofiler_context_id_t context, int kind,
                                                                      const int32_t* operations, size_t count,
                                                                      rocprofiler_buffer_id_t buffer) {
    if(kind != 11 || operations || count || !context.handle || buffer.handle != 41) abort();
    return in_initialize ? DONE : LOCKED;
}
API rocprofiler_status_t rocprofiler_configure_callback_tracing_service(rocprofiler_context_id_t context, int kind,
                                                                        const int32_t* operations, size_t count,
                                                                        rocprofiler_callback_tracing_cb_t callback, void* data) {
    if(kind != 10 || count != 2 || operations[0] != 1 || operations[1] != 2 || !context.handle) abort();
    code_cb = callback;
    code_data = data;
    return DONE;
}

// ---- agents and counters
static const rocprofiler_agent_mem_bank_t bank = {1, 0, 8192, 1300, 206158430208ull};
#ifndef AGENT_SIZE
#define AGENT_SIZE 312
#endif
API rocprofiler_status_t rocprofiler_query_available_agents(int version, rocprofiler_query_available_agents_cb_t callback,
                                                            size_t agent_size, void* data) {
    if(version != 1) return 19;
    if(agent_size > AGENT_SIZE) return 18;
    char* cpu = calloc(1, AGENT_SIZE + 64);
    char* gpu = calloc(1, AGENT_SIZE + 64);
    // Bytes behind the struct that a reader must not take for a unique id.
    memset(gpu + AGENT_SIZE, 0xee, 64);
    rocprofiler_agent_v0_t a = {0};
    a.size = AGENT_SIZE;
    a.id.handle = 0xc9c;
    a.type = 1;
    a.name = "a CPU";
    memcpy(cpu, &a, AGENT_SIZE < sizeof a ? AGENT_SIZE : sizeof a);
    memset(&a, 0, sizeof a);
    a.size = AGENT_SIZE;
    a.id.handle = 0xa9e47;
    a.type = 2;
    a.simd_count = 1216;
    a.mem_banks_count = 1;
    a.max_waves_per_simd = 8;
    a.lds_size_in_kb = 64;
    a.wave_front_size = 64;
    a.num_xcc = 8;
    a.cu_count = 304;
    a.num_shader_banks = 32;
    a.simd_per_cu = 4;
    a.gfx_target_version = 90402;
    a.vendor_id = 0x1002;
    a.device_id = 0x74a1;
    a.location_id = 3 << 8;
    a.domain = 7;
    a.max_engine_clk_fcompute = 2100;
    a.local_mem_size = 206158430208ull;
    a.mem_banks = &bank;
    a.name = "gfx942";
    a.vendor_name = "AMD";
    a.product_name = "AMD Instinct MI300X";
    a.model_name = "ip discovery";
    a.node_id = 1;
    a.logical_node_id = 1;
    a.logical_node_type_id = 0;
    for(int i = 0; i < 16; ++i) a.uuid[i] = (uint8_t)(0x10 + i);
    memcpy(gpu, &a, AGENT_SIZE < sizeof a ? AGENT_SIZE : sizeof a);
    const void* list[] = {cpu, gpu};
    return callback(version, list, 2, data);
}
API rocprofiler_status_t rocprofiler_iterate_agent_supported_counters(rocprofiler_agent_id_t agent,
                                                                      rocprofiler_available_counters_cb_t callback, void* data) {
    if(agent.handle != 0xa9e47) return 39;
    rocprofiler_counter_id_t list[] = {{5}, {6}};
    return callback(agent, list, 2, data);
}
API rocprofiler_status_t rocprofiler_query_counter_info(rocprofiler_counter_id_t counter, int version, void* info) {
    if(version != 1) return 18;
    rocprofiler_counter_info_v0_t plain = {{5}, "SQ_WAVES", "Waves.", "SQ", NULL, 0, 0};
    rocprofiler_counter_info_v0_t derived = {{6}, "FETCH_SIZE", "Fetched.", NULL, "x*64", 0, 1};
    if(counter.handle != 5 && counter.handle != 6) return 8;
    // Later versions of the struct are longer, and written in full.
    memset(info, 0, 96);
    memcpy(info, counter.handle == 5 ? &plain : &derived, sizeof plain);
    return DONE;
}
API rocprofiler_status_t rocprofiler_query_record_counter_id(uint64_t id, rocprofiler_counter_id_t* counter) {
    return counter->handle = (1ull << 32) | (id & 0xff), DONE;
}
API rocprofiler_status_t rocprofiler_query_record_dimension_position(uint64_t id, uint64_t dimension, size_t* position) {
    if(dimension > 7) return 23;
    return *position = (id >> 8) % 10 + dimension, DONE;
}
API rocprofiler_status_t rocprofiler_create_counter_config(rocprofiler_agent_id_t agent, rocprofiler_counter_id_t* list, size_t count,
                                                           rocprofiler_counter_config_id_t* config) {
    if(config->handle) abort();
    if(agent.handle != 0xa9e47) return 7;
    for(size_t i = 0; i < count; ++i)
        if(list[i].handle != 5 && list[i].handle != 6) return 20;
    if(count > 2) return 38;
    return config->handle = 1000 + (uint64_t) ++configs, DONE;
}
API rocprofiler_status_t rocprofiler_destroy_counter_config(rocprofiler_counter_config_id_t config) {
    return config.handle > 1000 ? DONE : 30;
}
API rocprofiler_status_t rocprofiler_configure_buffer_dispatch_counting_service(rocprofiler_context_id_t context,
                                                                                rocprofiler_buffer_id_t buffer,
                                                                                rocprofiler_dispatch_counting_service_cb_t callback,
                                                                                void* data) {
    if(!context.handle || buffer.handle != 41) abort();
    choose_cb = callback;
    choose_data = data;
    return DONE;
}
API rocprofiler_status_t rocprofiler_configure_callback_dispatch_counting_service(
    rocprofiler_context_id_t context, rocprofiler_dispatch_counting_service_cb_t callback, void* data,
    rocprofiler_dispatch_counting_record_cb_t record, void* record_data) {
    if(!context.handle) abort();
    choose_cb = callback;
    choose_data = data;
    counted_cb = record;
    counted_data = record_data;
    return DONE;
}
API rocprofiler_status_t rocprofiler_configure_device_counting_service(rocprofiler_context_id_t context,
                                                                       rocprofiler_buffer_id_t buffer, rocprofiler_agent_id_t agent,
                                                                       rocprofiler_device_counting_service_cb_t callback, void* data) {
    if(!context.handle || buffer.handle || agent.handle != 0xa9e47) abort();
    device_cb = callback;
    device_data = data;
    return DONE;
}
#ifndef LACKS_SAMPLING
API rocprofiler_status_t rocprofiler_sample_device_counting_service(rocprofiler_context_id_t context, rocprofiler_user_data_t user,
                                                                    int flags, rocprofiler_counter_record_t* records,
                                                                    size_t* count) {
    if(!context.handle || user.value || flags || device_config.handle <= 1000) abort();
    if(*count < 2) return 29;
    for(int i = 0; i < 2; ++i)
        records[i] = (rocprofiler_counter_record_t){i, 1.5 * i, 0, {.value = 0}, {0xa9e47}};
    return *count = 2, DONE;
}
#endif
#ifndef WITHOUT_OPTIONAL
API rocprofiler_status_t rocprofiler_iterate_counter_dimensions(rocprofiler_counter_id_t counter,
                                                                rocprofiler_available_dimensions_cb_t callback, void* data) {
    rocprofiler_counter_record_dimension_info_t list[] = {{"DIMENSION_XCC", 8, 1}, {"DIMENSION_SHADER_ENGINE", 4, 3}};
    return callback(counter, list, 2, data);
}
API rocprofiler_status_t rocprofiler_query_counter_instance_count(rocprofiler_agent_id_t agent, rocprofiler_counter_id_t counter,
                                                                  size_t* count) {
    if(agent.handle != 0xa9e47 || counter.handle != 5) return 8;
    return *count = 32, DONE;
}
#endif

// ---- what tests make happen
static rocprofiler_kernel_dispatch_info_t info_of(uint64_t id) {
    rocprofiler_kernel_dispatch_info_t info = {72, {0xa9e47}, {3}, 17, id, 96, 4096, {64, 2, 1}, {6400, 20, 3}, {0}};
    return info;
}
static void put(uint32_t category, uint32_t kind, const void* record, size_t known, size_t size) {
    char* copy = malloc(size);
    memset(copy, 0xdd, size);
    memcpy(copy, record, known < size ? known : size);
    pending[pending_count] = copy;
    headers[pending_count].category = category;
    headers[pending_count].kind = kind;
    headers[pending_count++].payload = copy;
}
// Traced dispatches, newest first, in records of `size` bytes; the last `late` come with the second flush, and `busy` has the first
// flush answer that the buffer is busy.
API void fake_trace(uint64_t count, uint64_t size, uint64_t late, int busy) {
    for(uint64_t id = count; id > 0; --id) {
        rocprofiler_buffer_tracing_kernel_dispatch_record_t record = {
            size, 11, 2, {1000 + id, {.value = 2000 + id}}, 4321, 100 * id, 100 * id + 40, info_of(id)};
        put(1, 11, &record, sizeof record, size);
    }
    late_count = late;
    early_busy = busy;
}
API void fake_other(uint32_t category, uint32_t kind) { put(category, kind, "12345678", 8, 8); }
// A counted dispatch: in the callback form values go to the callback, in the buffered form to the buffer, header first. Gives the
// configuration that was chosen.
API uint64_t fake_dispatch(uint64_t id) {
    rocprofiler_dispatch_counting_service_data_t data = {168, {1000 + id, {.value = 2000 + id}}, 0, 0, info_of(id)};
    rocprofiler_counter_config_id_t config = {0};
    rocprofiler_user_data_t user = {.value = 0};
    choose_cb(data, &config, &user, choose_data);
    if(!config.handle) return 0;
    data.start_timestamp = 100 * id;
    data.end_timestamp = 100 * id + 40;
    rocprofiler_counter_record_t values[3];
    for(int i = 0; i < 3; ++i) values[i] = (rocprofiler_counter_record_t){(5ull << 48) | i, 0.5 + i, id, user, {0xa9e47}};
    if(counted_cb) {
        counted_cb(data, values, 3, user, counted_data);
        return config.handle;
    }
    rocprofiler_dispatch_counting_service_record_t header = {176, 3, data.correlation_id, 100 * id, 100 * id + 40, info_of(id)};
    put(3, 1, &header, sizeof header, sizeof header);
    for(int i = 0; i < 3; ++i) put(3, 2, &values[i], sizeof values[i], sizeof values[i]);
    return config.handle;
}
API void fake_code_object(int phase, uint64_t symbol_size) {
    char buffer[88];
    rocprofiler_callback_tracing_code_object_load_data_t load = {
        sizeof load, 9, {0xa9e47}, 55, "memory://1#offset=2", 0x7000, 0x1000, 0x7000, 2, {.memory_base = 1}};
    rocprofiler_callback_tracing_code_object_kernel_symbol_register_data_t symbol = {
        symbol_size, 17, 9, "_Z4axpyPKfPfid.kd", 0x7040, 272, 8, 4096, 96, 16, 8, 4, 0x1000, 0x8040};
    rocprofiler_callback_tracing_record_t record = {{1}, 4321, {11, {.value = 12}, 13}, 10, 1, phase, &load};
    rocprofiler_user_data_t user = {.value = 0};
    code_cb(record, &user, code_data);
    memset(buffer, 0xdd, sizeof buffer);
    memcpy(buffer, &symbol, symbol_size < sizeof symbol ? symbol_size : sizeof symbol);
    record.operation = 2;
    record.payload = buffer;
    code_cb(record, &user, code_data);
    record.operation = 3;
    code_cb(record, &user, code_data);
}
API const char* fake_client_name(void) { return client_name; }
API void fake_finalize(void) {
    finalized = -1;
    result.finalize(result.tool_data);
    finalized = 1;
}
API void fake_take(int state) { initialized = state; }
