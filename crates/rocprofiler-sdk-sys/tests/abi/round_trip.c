// Takes structs by value from Rust and hands them to a Rust callback by value again, so that both directions of the calling
// convention are run. Each function answers with a hash of the fields as C sees them.
#include "rocprofiler_abi.h"

static uint64_t mix(uint64_t hash, uint64_t value) { return (hash ^ value) * 0x100000001b3ull; }

uint64_t pass_tracing(rocprofiler_callback_tracing_record_t r, uint64_t (*callback)(rocprofiler_callback_tracing_record_t)) {
    uint64_t hash = 1469598103934665603ull;
    hash = mix(hash, r.context_id.handle);
    hash = mix(hash, r.thread_id);
    hash = mix(hash, r.correlation_id.internal);
    hash = mix(hash, r.correlation_id.external.value);
    hash = mix(hash, r.correlation_id.ancestor);
    hash = mix(hash, (uint32_t) r.kind);
    hash = mix(hash, (uint32_t) r.operation);
    hash = mix(hash, (uint32_t) r.phase);
    hash = mix(hash, (uint64_t) (uintptr_t) r.payload);
    return callback(r) == hash ? hash : 0;
}

uint64_t pass_counting(rocprofiler_dispatch_counting_service_data_t d, rocprofiler_counter_config_id_t config,
                       uint64_t (*callback)(rocprofiler_dispatch_counting_service_data_t, rocprofiler_counter_config_id_t)) {
    uint64_t hash = 1469598103934665603ull;
    hash = mix(hash, d.size);
    hash = mix(hash, d.correlation_id.internal);
    hash = mix(hash, d.correlation_id.external.value);
    hash = mix(hash, d.start_timestamp);
    hash = mix(hash, d.end_timestamp);
    hash = mix(hash, d.dispatch_info.size);
    hash = mix(hash, d.dispatch_info.agent_id.handle);
    hash = mix(hash, d.dispatch_info.queue_id.handle);
    hash = mix(hash, d.dispatch_info.kernel_id);
    hash = mix(hash, d.dispatch_info.dispatch_id);
    hash = mix(hash, d.dispatch_info.private_segment_size);
    hash = mix(hash, d.dispatch_info.group_segment_size);
    hash = mix(hash, d.dispatch_info.workgroup_size.x);
    hash = mix(hash, d.dispatch_info.workgroup_size.y);
    hash = mix(hash, d.dispatch_info.workgroup_size.z);
    hash = mix(hash, d.dispatch_info.grid_size.x);
    hash = mix(hash, d.dispatch_info.grid_size.y);
    hash = mix(hash, d.dispatch_info.grid_size.z);
    hash = mix(hash, d.dispatch_info.reserved_padding[0]);
    hash = mix(hash, d.dispatch_info.reserved_padding[55]);
    hash = mix(hash, config.handle);
    return callback(d, config) == hash ? hash : 0;
}

uint64_t pass_client(rocprofiler_client_id_t client) {
    return mix(mix(mix(1469598103934665603ull, client.size), (uint64_t) (uintptr_t) client.name), client.handle);
}
