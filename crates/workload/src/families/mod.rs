//! One module a family.

pub mod activation;
pub mod attention;
pub mod fmha;
pub mod gemm;
pub mod moe_gemm;
pub mod paged_attention;
pub mod rmsnorm;
mod sizes;
