// The part of rocprofiler-sdk's C interface (1.x) that the crate declares, written from its documented layouts for tests: what the
// Rust declarations are compared with where no ROCm is installed. Names of types and fields are those of the real headers.
#ifndef ROCPROFILER_ABI_H
#define ROCPROFILER_ABI_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef int rocprofiler_status_t;

#define HANDLE(name) typedef struct name { uint64_t handle; } name
HANDLE(rocprofiler_context_id_t);
HANDLE(rocprofiler_buffer_id_t);
HANDLE(rocprofiler_callback_thread_t);
HANDLE(rocprofiler_agent_id_t);
HANDLE(rocprofiler_queue_id_t);
HANDLE(rocprofiler_counter_id_t);
HANDLE(rocprofiler_counter_config_id_t);
#undef HANDLE

typedef union rocprofiler_user_data_t { uint64_t value; void* ptr; } rocprofiler_user_data_t;
typedef struct rocprofiler_dim3_t { uint32_t x, y, z; } rocprofiler_dim3_t;
typedef struct rocprofiler_version_triplet_t { uint32_t major, minor, patch; } rocprofiler_version_triplet_t;

typedef struct rocprofiler_correlation_id_t {
    uint64_t internal;
    rocprofiler_user_data_t external;
    uint64_t ancestor;
} rocprofiler_correlation_id_t;

typedef struct rocprofiler_async_correlation_id_t {
    uint64_t internal;
    rocprofiler_user_data_t external;
} rocprofiler_async_correlation_id_t;

typedef struct rocprofiler_record_header_t {
    union {
        struct { uint32_t category; uint32_t kind; };
        uint64_t hash;
    };
    void* payload;
} rocprofiler_record_header_t;

typedef struct rocprofiler_kernel_dispatch_info_t {
    uint64_t size;
    rocprofiler_agent_id_t agent_id;
    rocprofiler_queue_id_t queue_id;
    uint64_t kernel_id;
    uint64_t dispatch_id;
    uint32_t private_segment_size;
    uint32_t group_segment_size;
    rocprofiler_dim3_t workgroup_size;
    rocprofiler_dim3_t grid_size;
    uint8_t reserved_padding[56];
} rocprofiler_kernel_dispatch_info_t;

typedef struct rocprofiler_buffer_tracing_kernel_dispatch_record_t {
    uint64_t size;
    int kind;
    int32_t operation;
    rocprofiler_async_correlation_id_t correlation_id;
    uint64_t thread_id;
    uint64_t start_timestamp;
    uint64_t end_timestamp;
    rocprofiler_kernel_dispatch_info_t dispatch_info;
} rocprofiler_buffer_tracing_kernel_dispatch_record_t;

typedef struct rocprofiler_dispatch_counting_service_data_t {
    uint64_t size;
    rocprofiler_async_correlation_id_t correlation_id;
    uint64_t start_timestamp;
    uint64_t end_timestamp;
    rocprofiler_kernel_dispatch_info_t dispatch_info;
} rocprofiler_dispatch_counting_service_data_t;

typedef struct rocprofiler_dispatch_counting_service_record_t {
    uint64_t size;
    uint64_t num_records;
    rocprofiler_async_correlation_id_t correlation_id;
    uint64_t start_timestamp;
    uint64_t end_timestamp;
    rocprofiler_kernel_dispatch_info_t dispatch_info;
} rocprofiler_dispatch_counting_service_record_t;

typedef struct rocprofiler_counter_record_t {
    uint64_t id;
    double counter_value;
    uint64_t dispatch_id;
    rocprofiler_user_data_t user_data;
    rocprofiler_agent_id_t agent_id;
} rocprofiler_counter_record_t;

typedef struct rocprofiler_callback_tracing_record_t {
    rocprofiler_context_id_t context_id;
    uint64_t thread_id;
    rocprofiler_correlation_id_t correlation_id;
    int kind;
    int32_t operation;
    int phase;
    void* payload;
} rocprofiler_callback_tracing_record_t;

typedef struct rocprofiler_callback_tracing_code_object_load_data_t {
    uint64_t size;
    uint64_t code_object_id;
    rocprofiler_agent_id_t agent_id;
    uint64_t hsa_agent;
    const char* uri;
    uint64_t load_base;
    uint64_t load_size;
    int64_t load_delta;
    int storage_type;
    union {
        int storage_file;
        struct { uint64_t memory_base; uint64_t memory_size; };
    };
} rocprofiler_callback_tracing_code_object_load_data_t;

typedef struct rocprofiler_callback_tracing_code_object_kernel_symbol_register_data_t {
    uint64_t size;
    uint64_t kernel_id;
    uint64_t code_object_id;
    const char* kernel_name;
    uint64_t kernel_object;
    uint32_t kernarg_segment_size;
    uint32_t kernarg_segment_alignment;
    uint32_t group_segment_size;
    uint32_t private_segment_size;
    uint32_t sgpr_count;
    uint32_t arch_vgpr_count;
    uint32_t accum_vgpr_count;
    int64_t kernel_code_entry_byte_offset;
    uint64_t kernel_address;
} rocprofiler_callback_tracing_code_object_kernel_symbol_register_data_t;

typedef struct rocprofiler_counter_info_v0_t {
    rocprofiler_counter_id_t id;
    const char* name;
    const char* description;
    const char* block;
    const char* expression;
    uint8_t is_constant : 1;
    uint8_t is_derived : 1;
} rocprofiler_counter_info_v0_t;

typedef struct rocprofiler_counter_record_dimension_info_t {
    const char* name;
    size_t instance_size;
    uint64_t id;
} rocprofiler_counter_record_dimension_info_t;

typedef struct rocprofiler_client_id_t {
    size_t size;
    const char* name;
    uint32_t handle;
} rocprofiler_client_id_t;

typedef void (*rocprofiler_client_finalize_t)(rocprofiler_client_id_t);

typedef struct rocprofiler_tool_configure_result_t {
    size_t size;
    int (*initialize)(rocprofiler_client_finalize_t, void*);
    void (*finalize)(void*);
    void* tool_data;
} rocprofiler_tool_configure_result_t;

typedef struct rocprofiler_agent_mem_bank_t {
    uint32_t heap_type;
    uint32_t flags;
    uint32_t width;
    uint32_t mem_clk_max;
    uint64_t size_in_bytes;
} rocprofiler_agent_mem_bank_t;

typedef struct rocprofiler_agent_cache_t {
    uint64_t processor_id_low;
    uint64_t size;
    uint32_t level;
    uint32_t cache_line_size;
    uint32_t cache_lines_per_tag;
    uint32_t association;
    uint32_t latency;
    uint32_t type;
} rocprofiler_agent_cache_t;

typedef struct rocprofiler_agent_v0_t {
    uint64_t size;
    rocprofiler_agent_id_t id;
    int type;
    uint32_t cpu_cores_count, simd_count, mem_banks_count, caches_count, io_links_count, cpu_core_id_base, simd_id_base,
        max_waves_per_simd, lds_size_in_kb, gds_size_in_kb, num_gws, wave_front_size, num_xcc, cu_count, array_count,
        num_shader_banks, simd_arrays_per_engine, cu_per_simd_array, simd_per_cu, max_slots_scratch_cu, gfx_target_version;
    uint16_t vendor_id, device_id;
    uint32_t location_id, domain, drm_render_minor, num_sdma_engines, num_sdma_xgmi_engines, num_sdma_queues_per_engine,
        num_cp_queues, max_engine_clk_ccompute, max_engine_clk_fcompute, sdma_fw_version, fw_version, capability, cu_per_engine,
        max_waves_per_cu, family_id, workgroup_max_size, grid_max_size;
    uint64_t local_mem_size, hive_id, gpu_id;
    rocprofiler_dim3_t workgroup_max_dim, grid_max_dim;
    const rocprofiler_agent_mem_bank_t* mem_banks;
    const rocprofiler_agent_cache_t* caches;
    const void* io_links;
    const char *name, *vendor_name, *product_name, *model_name;
    uint32_t node_id;
    int32_t logical_node_id, logical_node_type_id;
    uint32_t runtime_visibility;
    uint8_t uuid[16];
} rocprofiler_agent_v0_t;

typedef void (*rocprofiler_buffer_tracing_cb_t)(rocprofiler_context_id_t, rocprofiler_buffer_id_t, rocprofiler_record_header_t**,
                                                size_t, void*, uint64_t);
typedef void (*rocprofiler_callback_tracing_cb_t)(rocprofiler_callback_tracing_record_t, rocprofiler_user_data_t*, void*);
typedef rocprofiler_status_t (*rocprofiler_query_available_agents_cb_t)(int, const void**, size_t, void*);
typedef rocprofiler_status_t (*rocprofiler_available_counters_cb_t)(rocprofiler_agent_id_t, rocprofiler_counter_id_t*, size_t,
                                                                    void*);
typedef rocprofiler_status_t (*rocprofiler_available_dimensions_cb_t)(rocprofiler_counter_id_t,
                                                                      const rocprofiler_counter_record_dimension_info_t*, size_t,
                                                                      void*);
typedef void (*rocprofiler_dispatch_counting_service_cb_t)(rocprofiler_dispatch_counting_service_data_t,
                                                           rocprofiler_counter_config_id_t*, rocprofiler_user_data_t*, void*);
typedef void (*rocprofiler_dispatch_counting_record_cb_t)(rocprofiler_dispatch_counting_service_data_t,
                                                          rocprofiler_counter_record_t*, size_t, rocprofiler_user_data_t, void*);
typedef rocprofiler_status_t (*rocprofiler_device_counting_agent_cb_t)(rocprofiler_context_id_t, rocprofiler_counter_config_id_t);
typedef void (*rocprofiler_device_counting_service_cb_t)(rocprofiler_context_id_t, rocprofiler_agent_id_t,
                                                         rocprofiler_device_counting_agent_cb_t, void*);
typedef rocprofiler_tool_configure_result_t* (*rocprofiler_configure_func_t)(uint32_t, const char*, uint32_t,
                                                                             rocprofiler_client_id_t*);

#ifdef __cplusplus
}
#endif
#endif
