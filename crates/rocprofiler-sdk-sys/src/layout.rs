//! Sizes and offsets of the ABI as data, each asserted against the Rust declarations when this crate is compiled. A test compiles
//! the same numbers as `_Static_assert`s of a C header, and the feature `bindgen` compares them with installed headers.

use crate::types::*;
use std::mem::{align_of, offset_of, size_of};

/// Where a field lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name in C.
    pub name: &'static str,
    /// Bytes from the start of the struct.
    pub offset: usize,
}

/// A struct of the C interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Its name in C.
    pub name: &'static str,
    /// Bytes.
    pub size: usize,
    /// Whether later versions may append fields: a larger struct is then no difference.
    pub grows: bool,
    /// Named fields, in order.
    pub fields: &'static [Field],
}

macro_rules! layouts {
    ($($c_name:literal $grows:ident $type:ident $size:literal { $($c_field:literal $field:ident $offset:literal,)* })*) => {
        /// Every struct.
        pub const LAYOUTS: &[Layout] = &[$(Layout {
            name: $c_name,
            size: $size,
            grows: layouts!(@$grows),
            fields: &[$(Field { name: $c_field, offset: $offset },)*],
        },)*];

        $(const _: () = {
            assert!(size_of::<$type>() == $size, concat!("size of ", $c_name));
            assert!(align_of::<$type>() <= 8, concat!("alignment of ", $c_name));
            $(assert!(offset_of!($type, $field) == $offset, concat!("offset of ", $c_name, "::", $c_field));)*
        };)*
    };
    (@fixed) => { false };
    (@grows) => { true };
}

layouts! {
    "rocprofiler_context_id_t" fixed ContextId 8 { "handle" handle 0, }
    "rocprofiler_buffer_id_t" fixed BufferId 8 { "handle" handle 0, }
    "rocprofiler_callback_thread_t" fixed CallbackThread 8 { "handle" handle 0, }
    "rocprofiler_agent_id_t" fixed AgentId 8 { "handle" handle 0, }
    "rocprofiler_queue_id_t" fixed QueueId 8 { "handle" handle 0, }
    "rocprofiler_counter_id_t" fixed CounterId 8 { "handle" handle 0, }
    "rocprofiler_counter_config_id_t" fixed CounterConfigId 8 { "handle" handle 0, }
    "rocprofiler_user_data_t" fixed UserData 8 { }
    "rocprofiler_dim3_t" fixed Dim3 12 { "x" x 0, "y" y 4, "z" z 8, }
    "rocprofiler_version_triplet_t" fixed VersionTriplet 12 { "major" major 0, "minor" minor 4, "patch" patch 8, }
    "rocprofiler_correlation_id_t" fixed CorrelationId 24 { "internal" internal 0, "external" external 8, "ancestor" ancestor 16, }
    "rocprofiler_async_correlation_id_t" fixed AsyncCorrelationId 16 { "internal" internal 0, "external" external 8, }
    "rocprofiler_record_header_t" fixed RecordHeader 16 { "category" category 0, "kind" kind 4, "payload" payload 8, }
    "rocprofiler_kernel_dispatch_info_t" fixed KernelDispatchInfo 128 {
        "size" size 0, "agent_id" agent_id 8, "queue_id" queue_id 16, "kernel_id" kernel_id 24, "dispatch_id" dispatch_id 32,
        "private_segment_size" private_segment_size 40, "group_segment_size" group_segment_size 44,
        "workgroup_size" workgroup_size 48, "grid_size" grid_size 60,
    }
    "rocprofiler_buffer_tracing_kernel_dispatch_record_t" grows KernelDispatchRecord 184 {
        "size" size 0, "kind" kind 8, "operation" operation 12, "correlation_id" correlation_id 16, "thread_id" thread_id 32,
        "start_timestamp" start_timestamp 40, "end_timestamp" end_timestamp 48, "dispatch_info" dispatch_info 56,
    }
    "rocprofiler_dispatch_counting_service_data_t" fixed DispatchCountingData 168 {
        "size" size 0, "correlation_id" correlation_id 8, "start_timestamp" start_timestamp 24, "end_timestamp" end_timestamp 32,
        "dispatch_info" dispatch_info 40,
    }
    "rocprofiler_dispatch_counting_service_record_t" grows DispatchCountingRecord 176 {
        "size" size 0, "num_records" num_records 8, "correlation_id" correlation_id 16, "start_timestamp" start_timestamp 32,
        "end_timestamp" end_timestamp 40, "dispatch_info" dispatch_info 48,
    }
    "rocprofiler_counter_record_t" fixed CounterRecord 40 {
        "id" instance_id 0, "counter_value" value 8, "dispatch_id" dispatch_id 16, "user_data" user_data 24, "agent_id" agent_id 32,
    }
    "rocprofiler_callback_tracing_record_t" fixed CallbackTracingRecord 64 {
        "context_id" context_id 0, "thread_id" thread_id 8, "correlation_id" correlation_id 16, "kind" kind 40,
        "operation" operation 44, "phase" phase 48, "payload" payload 56,
    }
    "rocprofiler_callback_tracing_code_object_load_data_t" grows CodeObjectLoadData 88 {
        "size" size 0, "code_object_id" code_object_id 8, "hsa_agent" hsa_agent 24, "uri" uri 32, "load_base" load_base 40,
        "load_size" load_size 48, "load_delta" load_delta 56, "storage_type" storage_type 64,
    }
    "rocprofiler_callback_tracing_code_object_kernel_symbol_register_data_t" grows KernelSymbolData 88 {
        "size" size 0, "kernel_id" kernel_id 8, "code_object_id" code_object_id 16, "kernel_name" kernel_name 24,
        "kernel_object" kernel_object 32, "kernarg_segment_size" kernarg_segment_size 40,
        "kernarg_segment_alignment" kernarg_segment_alignment 44, "group_segment_size" group_segment_size 48,
        "private_segment_size" private_segment_size 52, "sgpr_count" sgpr_count 56, "arch_vgpr_count" arch_vgpr_count 60,
        "accum_vgpr_count" accum_vgpr_count 64, "kernel_code_entry_byte_offset" kernel_code_entry_byte_offset 72,
        "kernel_address" kernel_address 80,
    }
    "rocprofiler_counter_info_v0_t" fixed CounterInfoV0 48 {
        "id" id 0, "name" name 8, "description" description 16, "block" block 24, "expression" expression 32,
    }
    "rocprofiler_counter_record_dimension_info_t" fixed DimensionInfo 24 {
        "name" name 0, "instance_size" instance_size 8, "id" id 16,
    }
    "rocprofiler_client_id_t" fixed ClientId 24 { "size" size 0, "name" name 8, "handle" handle 16, }
    "rocprofiler_tool_configure_result_t" fixed ConfigureResult 32 {
        "size" size 0, "initialize" initialize 8, "finalize" finalize 16, "tool_data" tool_data 24,
    }
    "rocprofiler_agent_mem_bank_t" fixed AgentMemBank 24 {
        "heap_type" heap_type 0, "width" width 8, "mem_clk_max" mem_clk_max 12, "size_in_bytes" size_in_bytes 16,
    }
    "rocprofiler_agent_cache_t" fixed AgentCache 40 {
        "processor_id_low" processor_id_low 0, "size" size 8, "level" level 16, "cache_line_size" cache_line_size 20,
        "cache_lines_per_tag" cache_lines_per_tag 24, "association" association 28, "latency" latency 32, "type" cache_type 36,
    }
    "rocprofiler_agent_v0_t" grows AgentV0 312 {
        "size" size 0, "id" id 8, "type" agent_type 16, "cpu_cores_count" cpu_cores_count 20, "simd_count" simd_count 24,
        "mem_banks_count" mem_banks_count 28, "caches_count" caches_count 32, "io_links_count" io_links_count 36,
        "cpu_core_id_base" cpu_core_id_base 40, "simd_id_base" simd_id_base 44, "max_waves_per_simd" max_waves_per_simd 48,
        "lds_size_in_kb" lds_size_in_kb 52, "gds_size_in_kb" gds_size_in_kb 56, "num_gws" num_gws 60,
        "wave_front_size" wave_front_size 64, "num_xcc" num_xcc 68, "cu_count" cu_count 72, "array_count" array_count 76,
        "num_shader_banks" num_shader_banks 80, "simd_arrays_per_engine" simd_arrays_per_engine 84,
        "cu_per_simd_array" cu_per_simd_array 88, "simd_per_cu" simd_per_cu 92, "max_slots_scratch_cu" max_slots_scratch_cu 96,
        "gfx_target_version" gfx_target_version 100, "vendor_id" vendor_id 104, "device_id" device_id 106,
        "location_id" location_id 108, "domain" domain 112, "drm_render_minor" drm_render_minor 116,
        "max_engine_clk_ccompute" max_engine_clk_ccompute 136, "max_engine_clk_fcompute" max_engine_clk_fcompute 140,
        "cu_per_engine" cu_per_engine 156, "max_waves_per_cu" max_waves_per_cu 160, "family_id" family_id 164,
        "workgroup_max_size" workgroup_max_size 168, "grid_max_size" grid_max_size 172, "local_mem_size" local_mem_size 176,
        "hive_id" hive_id 184, "gpu_id" gpu_id 192, "workgroup_max_dim" workgroup_max_dim 200, "grid_max_dim" grid_max_dim 212,
        "mem_banks" mem_banks 224, "caches" caches 232, "io_links" io_links 240, "name" name 248, "vendor_name" vendor_name 256,
        "product_name" product_name 264, "model_name" model_name 272, "node_id" node_id 280, "logical_node_id" logical_node_id 284,
        "logical_node_type_id" logical_node_type_id 288, "runtime_visibility" runtime_visibility 292, "uuid" uuid 296,
    }
}
