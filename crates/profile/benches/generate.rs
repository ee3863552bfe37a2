//! A synthetic `kernel_trace.csv` in the columns of rocprofv3 1.0, with the name lengths of a real serving stack.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// Distinct kernels of the trace.
const KERNELS: u64 = 200;

/// Writes at least `bytes` bytes; returns how many.
pub(crate) fn kernel_trace(path: &Path, bytes: u64) -> io::Result<u64> {
    let header = "\"Kind\",\"Agent_Id\",\"Queue_Id\",\"Stream_Id\",\"Thread_Id\",\"Dispatch_Id\",\"Kernel_Id\",\"Kernel_Name\",\"Correlation_Id\",\
                  \"Start_Timestamp\",\"End_Timestamp\",\"LDS_Block_Size\",\"Scratch_Size\",\"VGPR_Count\",\"Accum_VGPR_Count\",\"SGPR_Count\",\
                  \"Workgroup_Size_X\",\"Workgroup_Size_Y\",\"Workgroup_Size_Z\",\"Grid_Size_X\",\"Grid_Size_Y\",\"Grid_Size_Z\"\n";
    let mut out = BufWriter::with_capacity(1 << 20, File::create(path)?);
    out.write_all(header.as_bytes())?;
    let mut written = header.len() as u64;
    let mut line = Vec::new();
    let mut dispatch = 0_u64;
    while written < bytes {
        dispatch += 1;
        let kernel = dispatch * 7919 % KERNELS;
        let start = 1_550_151_853_029_637 + dispatch * 5000;
        line.clear();
        write!(line, "\"KERNEL_DISPATCH\",\"Agent 4\",1,1,834304,{dispatch},{kernel},\"")?;
        match kernel % 4 {
            0 => write!(
                line,
                "Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT{kernel}x16x256_MI16x16x1_SN_LDSB1_AFC1_AFEM1_ASEM1_CLR1_CADS0_ISA942_WG16_4_4"
            )?,
            1 => write!(
                line,
                "void at::native::vectorized_elementwise_kernel<{kernel}, at::native::CUDAFunctor_add<c10::BFloat16>, std::array<char*, 3ul> >(int, std::array<char*, 3ul>)"
            )?,
            2 => write!(
                line,
                "_ZN5aiter24add_rmsnorm_quant_kernelIDF16bDF16bLi256ELi{kernel}ELb1ELb0ELb1ELi1EEEvPT0_PT_PfS4_S4_S4_diiiiiiib"
            )?,
            // rocprofv3 escapes nothing.
            _ => write!(line, "void scan<{kernel}, {{lambda(\"a,b\")#1}}>(float*, operator\"\"_x)")?,
        }
        let end = start + 1000 + kernel * 10;
        writeln!(line, "\",{dispatch},{start},{end},0,0,8,0,16,256,1,1,262144,1,1")?;
        out.write_all(&line)?;
        written += line.len() as u64;
    }
    out.flush()?;
    Ok(written)
}
