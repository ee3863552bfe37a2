//! Several processes at one file, and processes that are killed.

#![allow(clippy::unwrap_used)] // helpers outside of test functions, too

mod common;

use common::{document, name, which};
use kbench_store::{Prune, Store};
use rand_pcg::{
    Pcg64Mcg,
    rand_core::{Rng, SeedableRng},
};
use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Where a child process finds the file and its seed; without it [`child`] does nothing.
const FILE: &str = "KBENCH_STORE_TEST_FILE";
const SEED: &str = "KBENCH_STORE_TEST_SEED";
const RUNS: &str = "KBENCH_STORE_TEST_RUNS";

/// Starts this test program again as a writer of `runs` runs.
fn spawn(path: &Path, seed: u64, runs: u64) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["child", "--exact", "--ignored", "--nocapture"])
        .env(FILE, path)
        .env(SEED, seed.to_string())
        .env(RUNS, runs.to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// The runs that a writer reported as saved.
fn saved(child: Child) -> (Vec<u64>, bool) {
    let mut child = child;
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let saved = lines.map_while(Result::ok).filter_map(|line| line.strip_prefix("saved ").and_then(|n| n.parse().ok()));
    let saved = saved.collect();
    (saved, child.wait().unwrap().success())
}

#[test]
#[ignore = "the writer that the other tests start"]
fn child() {
    let Ok(path) = std::env::var(FILE) else { return };
    let number = |variable| std::env::var(variable).unwrap().parse::<u64>().unwrap();
    let mut store = Store::open(Path::new(&path)).unwrap();
    for i in 0..number(RUNS) {
        let seed = number(SEED) * 100_000 + i;
        store.save(&name(&format!("run {seed}")), 0, &document(seed, 3)).unwrap();
        println!("saved {seed}");
        // Removing and giving room back must not harm what stays.
        if i % 5 == 4 {
            store.save(&name("scratch"), -5, &document(seed, 1)).unwrap();
            store.prune(&Prune { keep: None, older_than_ms: Some(-1) }, false).unwrap();
        }
    }
}

#[test]
fn processes_that_write_at_once_lose_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("shared.db");
    // The file does not exist yet: they also race to make it.
    let children: Vec<Child> = (0..3).map(|seed| spawn(&path, seed, 25)).collect();
    let mut all = BTreeSet::new();
    for child in children {
        let (runs, success) = saved(child);
        assert!(success && runs.len() == 25, "{runs:?}");
        all.extend(runs);
    }
    let store = Store::open_existing(&path).unwrap();
    store.check().unwrap();
    assert_eq!(store.list(None).unwrap().len(), 75);
    for seed in all {
        assert_eq!(store.export(&which(&format!("run {seed}"))).unwrap(), document(seed, 3), "{seed}");
    }
}

/// SIGKILL at twenty random moments: every run that was reported is there, whole, and the file is sound.
#[test]
fn a_killed_writer_loses_nothing_that_was_saved() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("killed.db");
    let mut rng = Pcg64Mcg::seed_from_u64(1);
    let (mut all, mut interrupted) = (BTreeSet::new(), 0);
    for seed in 0..20 {
        let mut child = spawn(&path, seed, 10_000);
        std::thread::sleep(Duration::from_millis(20 + rng.next_u64() % 200));
        child.kill().unwrap();
        let (runs, success) = saved(child);
        interrupted += u32::from(!success);
        all.extend(runs);
        if !path.exists() {
            continue;
        }
        let store = Store::open_existing(&path).unwrap();
        store.check().unwrap();
        let names = store.list(None).unwrap().into_iter().map(|run| run.name.to_string());
        let names: BTreeSet<String> = names.filter(|name| name != "scratch").collect();
        assert!(all.iter().all(|seed| names.contains(&format!("run {seed}"))));
        // At most the one whose report was cut off is there beyond those, from each kill.
        assert!(names.len() <= all.len() + 1 + seed as usize, "{} {}", names.len(), all.len());
    }
    assert_eq!(interrupted, 20);
    assert!(all.len() >= 40, "{} runs were saved before the kills", all.len());
    let store = Store::open_existing(&path).unwrap();
    for seed in all {
        assert_eq!(store.export(&which(&format!("run {seed}"))).unwrap(), document(seed, 3), "{seed}");
    }
}
