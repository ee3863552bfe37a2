// What the measuring itself runs beside a case: it computes nothing.
#include "device.h"

namespace kb {

// Reads both clocks, one wave a workgroup: out[2 * workgroup] is the core clock (s_memtime: cycles of the clock that kernels run
// at), out[2 * workgroup + 1] the constant 100 MHz clock (s_memrealtime). Two stamps on one XCD give its clock between them.
KB_KERNEL_FIXED(64) kb_probe_stamp(u64* out) {
    const u64 core = __builtin_amdgcn_s_memtime();
    const u64 constant = __builtin_amdgcn_s_memrealtime();
    if (__builtin_amdgcn_workitem_id_x() == 0) {
        u64* const own = out + 2 * __builtin_amdgcn_workgroup_id_x();
        own[0] = core;
        own[1] = constant;
    }
}

// Forgets the instructions in the caches of the CUs it runs on: the next kernel is fetched from memory. The no-ops behind it keep
// the wave from running ahead of the invalidation.
KB_KERNEL_FIXED(64) kb_probe_flush_icache() {
    asm volatile(
        "s_icache_inv\n\t"
        "s_nop 15\n\ts_nop 15\n\ts_nop 15\n\ts_nop 15\n\t"
        "s_nop 15\n\ts_nop 15\n\ts_nop 15\n\ts_nop 15" ::
            : "memory");
}

}  // namespace kb
