//! How fast the emulator runs: wave instructions a second on an RMSNorm kernel, FLOP a second on a matrix loop, and what a
//! second thread adds. `docs/performance.md` has the figures beside a peer's.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use kbench_gfx_emu::launch::{Launch, Module, Options, launch};
use kbench_gfx_emu::mem::Memory;
use kbench_gfx_emu::model::Model;
use std::process::Command;

/// The tokens of a prefill chunk.
const ROWS: u32 = 2048;
const HIDDEN: u32 = 4096;

/// A row of bf16 a workgroup: sum of squares by LDS, then scaled by the weight; as compilers write it.
const SOURCE: &str = r#"
typedef unsigned int u32;
typedef __attribute__((__vector_size__(16))) u32 u32x4;
#define DEVICE static __attribute__((device)) inline
DEVICE float low(u32 v) { return __builtin_bit_cast(float, v << 16); }
DEVICE float high(u32 v) { return __builtin_bit_cast(float, v & 0xffff0000u); }
DEVICE u32 bf16(float x) { u32 b = __builtin_bit_cast(u32, x); return (b + 0x7fff + (b >> 16 & 1)) >> 16; }
DEVICE void barrier() {
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
extern "C" __attribute__((global, amdgpu_flat_work_group_size(256, 256)))
void rmsnorm(const u32x4 *x, const u32x4 *w, u32x4 *y, u32 chunks, float inverse, float eps) {
    __attribute__((shared)) float part[4];
    u32 t = __builtin_amdgcn_workitem_id_x(), row = __builtin_amdgcn_workgroup_id_x();
    const u32x4 *in = x + row * chunks;
    float sum = 0;
    for (u32 c = t; c < chunks; c += 256) {
        u32x4 v = in[c];
        for (int i = 0; i < 4; i++) { float a = low(v[i]), b = high(v[i]); sum += a * a; sum += b * b; }
    }
    for (int step = 1; step < 64; step *= 2) {
        int other = __builtin_amdgcn_ds_bpermute((int)((t ^ step) * 4), __builtin_bit_cast(int, sum));
        sum += __builtin_bit_cast(float, other);
    }
    if ((t & 63) == 0) part[t / 64] = sum;
    barrier();
    float scale = __builtin_amdgcn_rsqf((part[0] + part[1] + part[2] + part[3]) * inverse + eps);
    for (u32 c = t; c < chunks; c += 256) {
        u32x4 v = in[c], g = w[c], o;
        for (int i = 0; i < 4; i++)
            o[i] = bf16(low(v[i]) * scale * low(g[i])) | bf16(high(v[i]) * scale * high(g[i])) << 16;
        y[row * chunks + c] = o;
    }
}
typedef __attribute__((__vector_size__(8))) short s4;
typedef __attribute__((__vector_size__(16))) float f4;
extern "C" __attribute__((global, amdgpu_flat_work_group_size(64, 64)))
void matrix(const s4 *a, float *out, u32 rounds) {
    u32 t = __builtin_amdgcn_workitem_id_x();
    s4 x = a[t], y = a[64 + t];
    f4 c0 = {}, c1 = {}, c2 = {}, c3 = {};
    for (u32 i = 0; i < rounds; i++) {
        c0 = __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(x, y, c0, 0, 0, 0);
        c1 = __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(y, x, c1, 0, 0, 0);
        c2 = __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(x, x, c2, 0, 0, 0);
        c3 = __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(y, y, c3, 0, 0, 0);
    }
    out[__builtin_amdgcn_workgroup_id_x() * 64 + t] = c0[0] + c1[1] + c2[2] + c3[3];
}
"#;

fn compile() -> Option<Vec<u8>> {
    let folder = tempfile::tempdir().unwrap();
    let (input, output) = (folder.path().join("k.hip"), folder.path().join("k.co"));
    std::fs::write(&input, SOURCE).unwrap();
    let done = Command::new("clang-19")
        .args(["-x", "hip", "--cuda-device-only", "--no-gpu-bundle-output", "-nogpuinc", "-nogpulib", "-O3"])
        .args(["--offload-arch=gfx942", "-o"])
        .args([&output, &input])
        .status();
    done.is_ok_and(|status| status.success()).then(|| std::fs::read(&output).unwrap())
}

struct Bench {
    memory: Memory,
    module: Module,
    options: Options,
}

impl Bench {
    fn new(code: &[u8]) -> Self {
        let model = Model::named("mi300x").unwrap();
        let mut memory = Memory::new(1 << 34);
        let module = Module::load(&mut memory, model.arch(), code).unwrap();
        Self { memory, module, options: Options { threads: 1, ..model.launch_options() } }
    }

    fn run(&mut self, request: &Launch) -> u64 {
        launch(&mut self.memory, &self.module, request, &self.options).unwrap().instructions()
    }

    fn rmsnorm(&mut self) -> Launch {
        let row_bytes = u64::from(HIDDEN) * 2;
        let (x, w) = (self.buffer(row_bytes * u64::from(ROWS), "x"), self.buffer(row_bytes, "w"));
        let y = self.buffer(row_bytes * u64::from(ROWS), "y");
        let kernarg = args(&[x, w, y], &[HIDDEN / 8, (1.0 / HIDDEN as f32).to_bits(), 1e-6_f32.to_bits()]);
        let kernel = "rmsnorm".to_owned();
        Launch { kernel, grid: [ROWS, 1, 1], block: [256, 1, 1], dynamic_lds: 0, kernarg }
    }

    fn matrix(&mut self) -> Launch {
        let (operands, out) = (self.buffer(1024, "operands"), self.buffer(16 * 64 * 4, "out"));
        let kernarg = args(&[operands, out], &[256]);
        Launch { kernel: "matrix".to_owned(), grid: [16, 1, 1], block: [64, 1, 1], dynamic_lds: 0, kernarg }
    }

    fn buffer(&mut self, bytes: u64, name: &str) -> u64 {
        let address = self.memory.allocate(bytes, name).unwrap();
        let pattern = |bytes: &mut [u8]| {
            for (i, word) in bytes.chunks_exact_mut(2).enumerate() {
                // bf16 between 0.5 and 2 with either sign.
                let code = 0x3f00_u16 | (i as u16).wrapping_mul(40503) & 0x80ff;
                word.copy_from_slice(&code.to_le_bytes());
            }
        };
        self.memory.with_bytes(address, bytes, pattern).unwrap();
        address
    }
}

fn args(pointers: &[u64], words: &[u32]) -> Vec<u8> {
    let pointers = pointers.iter().flat_map(|pointer| pointer.to_le_bytes());
    pointers.chain(words.iter().flat_map(|word| word.to_le_bytes())).collect()
}

fn speed(c: &mut Criterion) {
    let Some(code) = compile() else {
        println!("skipped: no clang-19");
        return;
    };
    let mut bench = Bench::new(&code);
    let (rmsnorm, matrix) = (bench.rmsnorm(), bench.matrix());
    let mut group = c.benchmark_group("wave_instructions");
    group.sample_size(20);
    for threads in [1, 2] {
        bench.options.threads = threads;
        group.throughput(Throughput::Elements(bench.run(&rmsnorm)));
        group.bench_function(format!("rmsnorm, {threads} threads"), |b| b.iter(|| bench.run(&rmsnorm)));
    }
    // What the machine itself gains from a second CPU: two GPUs that share nothing.
    bench.options.threads = 1;
    let mut other = Bench::new(&code);
    let theirs = other.rmsnorm();
    group.throughput(Throughput::Elements(2 * bench.run(&rmsnorm)));
    group.bench_function("rmsnorm, 2 launches of 1 thread each", |b| {
        b.iter(|| {
            std::thread::scope(|scope| {
                scope.spawn(|| other.run(&theirs));
                bench.run(&rmsnorm)
            })
        })
    });
    group.finish();
    let mut group = c.benchmark_group("flop");
    group.sample_size(20);
    group.throughput(Throughput::Elements(16 * 256 * 4 * 2 * 16 * 16 * 16));
    group.bench_function("mfma_f32_16x16x16_bf16, 1 thread", |b| b.iter(|| bench.run(&matrix)));
    group.finish();
}

criterion_group!(benches, speed);
criterion_main!(benches);
