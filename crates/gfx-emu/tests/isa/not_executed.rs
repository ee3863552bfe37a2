//! The operations that are decoded and not executed, with reasons: `tests/executable.rs` holds the list against the executor,
//! `tests/isa_table.rs` puts it into the documents.
#![allow(dead_code, unreachable_pub)]

use std::fmt::Write;

/// Operations (separated by spaces) and why no kernel that the emulator runs can want them.
pub const NOT_EXECUTED: [(&str, &str); 3] = [
    ("s_rfe_b64 s_rfe_restore_b64", "return from a trap handler: waves never enter one, `s_trap` is a fault"),
    (
        "s_scratch_load_dword s_scratch_load_dwordx2 s_scratch_load_dwordx4 s_scratch_store_dword s_scratch_store_dwordx2 \
         s_scratch_store_dwordx4",
        "scalar scratch: no compiler emits it, and the public documents leave its address unit open",
    ),
    (
        "ds_gws_sema_release_all ds_gws_init ds_gws_sema_v ds_gws_sema_br ds_gws_sema_p ds_gws_barrier",
        "the global wave sync unit, which the driver has to allocate for a queue first",
    ),
];

/// The names of all of them.
pub fn names() -> Vec<&'static str> {
    NOT_EXECUTED.iter().flat_map(|(names, _)| names.split_whitespace()).collect()
}

/// The section of the document.
pub fn text() -> String {
    let mut text =
        "Decoded and not executed (a kernel that reaches one gets a fault that names it), vector arithmetic apart:\n\n"
            .to_owned();
    for (names, reason) in NOT_EXECUTED {
        let names: Vec<String> = names.split_whitespace().map(|name| format!("`{name}`")).collect();
        // Writing to a string does not fail.
        let _ = writeln!(text, "- {}: {reason}.", names.join(", "));
    }
    text
}
