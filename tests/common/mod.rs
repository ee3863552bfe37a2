//! Helpers of the end-to-end tests.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

use assert_cmd::Command;
use std::path::PathBuf;
use tempfile::TempDir;

/// A scratch folder and the binary set up to keep its peaks and last run in it, never in the user's folders.
pub struct Bench {
    pub dir: TempDir,
}

impl Bench {
    pub fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    /// `kbench` with private cache and state folders.
    pub fn kbench(&self) -> Command {
        let mut command = Command::cargo_bin("kbench").unwrap();
        command.env("XDG_CACHE_HOME", shared_cache()).env("XDG_STATE_HOME", self.dir.path().join("state"));
        command.current_dir(self.dir.path());
        command
    }

    /// Writes a file and returns its path.
    pub fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    /// Reads a file of the scratch folder.
    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.dir.path().join(name)).unwrap()
    }
}

/// One cache folder for every test of a build: peaks are measured once, not once a test.
fn shared_cache() -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("cache")
}

/// A file that cargo built beside this test, by its name; `None` (and a line) where it did not.
pub fn built(name: &str) -> Option<PathBuf> {
    let here = std::env::current_exe().unwrap();
    let found = here.ancestors().skip(1).take(3).map(|folder| folder.join(name)).find(|path| path.exists());
    if found.is_none() {
        assert!(
            std::env::var("CI").as_deref() != Ok("true"),
            "{name} is needed in CI: cargo build --workspace makes it"
        );
        eprintln!("skipped: {name} is not built (cargo build --workspace)");
    }
    found
}

/// The folder of real profiles, or `None` with a line that says so.
pub fn real_data() -> Option<PathBuf> {
    let folder = std::env::var_os("KBENCH_REAL_DATA")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../shared/data"), PathBuf::from);
    if folder.is_dir() {
        return Some(folder);
    }
    eprintln!("skipped: no real profiles at {}", folder.display());
    None
}

/// A small inventory with one case of every family.
pub const ONE_OF_EACH: &str = "\
family,dtype,shape,calls
gemm,bf16,m=16 n=96 k=64,48
rmsnorm,bf16,rows=16 hidden=256,96
activation,bf16,rows=16 hidden=128 kind=silu,48
fmha,bf16,batch=1 q_len=33 q_heads=4 kv_heads=2 head_dim=32 causal=true,24
paged_attention,bf16,\"q_heads=8,kv_heads=2,head_dim=64,ctx=[100,17]\",24
moe_gemm,bf16,tokens=8 hidden=64 inter=32 experts=8 topk=2 stage=gate_up,24
";
