//! One module a family.

pub mod activation;
mod args;
pub mod attention;
mod checks;
pub mod embedding;
pub mod fmha;
pub mod gemm;
pub mod kv_cache;
pub mod moe_gate;
pub mod moe_gemm;
pub mod moe_sort;
pub mod paged_attention;
pub mod quant;
pub mod rmsnorm;
pub mod rope;
mod row_quant;
pub mod sampling;
mod sizes;
#[cfg(test)]
mod testing;

pub use row_quant::RowQuant;
