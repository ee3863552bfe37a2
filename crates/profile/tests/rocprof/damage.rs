//! Damaged and hostile files are errors or lose what is damaged; large ones are read in constant memory.

use super::*;

struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit.max(1)
    }
}

/// In memory where Linux offers it.
fn scratch() -> TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

/// Reads; whatever comes out adds up. True when something was read.
fn survives(path: &Path) -> bool {
    match read(&[path], &ReadOptions::default()) {
        Ok(found) => {
            assert!(
                !found.rows.is_empty()
                    && found.rows.iter().all(|row| row.calls > 0 && (0.0..=1.0).contains(&row.share))
            );
            true
        }
        Err(error) => {
            assert!(!error.to_string().is_empty());
            false
        }
    }
}

#[test]
fn mutated_json_does_not_panic() {
    const BYTES: &[u8] = b"\"\\{}[]:,0189-.e \xff\0";
    let folder = scratch();
    let path = folder.path().join("a.json");
    let seed = tool_json(&[process_json(7, RUN, true), process_json(8, RUN, false)]).into_bytes();
    let mut random = Random(1);
    let mut accepted = 0;
    for _ in 0..20_000 {
        let mut bytes = seed.clone();
        for _ in 0..=random.below(4) {
            let at = random.below(bytes.len());
            match random.below(6) {
                0 if at < bytes.len() => bytes[at] = BYTES[random.below(BYTES.len())],
                1 => bytes.insert(at, BYTES[random.below(BYTES.len())]),
                2 => bytes.truncate(at),
                3 => {
                    let (start, length) = (random.below(seed.len()), random.below(2000));
                    bytes.splice(at..at, seed[start..(start + length).min(seed.len())].iter().copied());
                }
                4 => drop(bytes.drain(at..(at + random.below(300)).min(bytes.len()))),
                _ => {
                    if let Some(digit) = bytes.iter().skip(at).position(u8::is_ascii_digit) {
                        let huge = [&b"99999999999999999999"[..], b"18446744073709551615", b"-1", b"1e308", b"null"];
                        bytes.splice(at + digit..=at + digit, huge[random.below(huge.len())].iter().copied());
                    }
                }
            }
        }
        std::fs::write(&path, &bytes).unwrap();
        accepted += u32::from(survives(&path));
    }
    assert!(accepted > 5_000 && accepted < 20_000, "{accepted}");
}

#[test]
fn a_damaged_database_is_an_error_and_never_a_panic() {
    let folder = scratch();
    let path = folder.path().join("a.db");
    let many: Vec<Dispatch> =
        (0..2000).map(|number| (1 + number as u64 % 2, 4, 1000 * number + 1, 1000 * number + 11)).collect();
    {
        let mut database = Connection::open(&path).unwrap();
        let transaction = database.transaction().unwrap();
        add_process(&transaction, GUID, Schema::V3, false, &many);
        add_process(&transaction, GUID2, Schema::V4, false, &RUN[..3]);
        transaction.commit().unwrap();
    }
    let whole = std::fs::read(&path).unwrap();
    assert_eq!(inventory(&path).total_ns(), 20_600);
    // A page of the largest table, the last of the file's first half, made void.
    let page = 4096;
    let middle = whole.len() / 2 / page * page;
    let mut bytes = whole.clone();
    bytes[middle..middle + page].fill(0xff);
    std::fs::write(&path, &bytes).unwrap();
    let error = read(&[&path], &ReadOptions::default()).unwrap_err();
    assert!(matches!(error, ReadError::Database { .. }) && error.to_string().contains("damaged"), "{error}");
    // Cut off.
    std::fs::write(&path, &whole[..middle]).unwrap();
    assert!(matches!(read(&[&path], &ReadOptions::default()), Err(ReadError::Database { .. })));

    let mut random = Random(2);
    let (mut accepted, rounds) = (0, 3_000);
    for _ in 0..rounds {
        let mut bytes = whole.clone();
        for _ in 0..=random.below(6) {
            // Half of the damage goes where pages are described.
            let at = match random.below(2) {
                0 => random.below(bytes.len()),
                _ => (random.below(bytes.len() / page) * page + random.below(16)).min(bytes.len() - 1),
            };
            match random.below(4) {
                0 => bytes[at] = random.below(256) as u8,
                1 => bytes[at] ^= 1 << random.below(8),
                2 => {
                    let (from, to) = (random.below(bytes.len() / page) * page, at / page * page);
                    bytes.copy_within(from..from + page, to.min(whole.len() - page));
                }
                _ => {
                    let end = (at + random.below(64)).min(bytes.len());
                    bytes[at..end].fill(random.below(256) as u8);
                }
            }
        }
        if random.below(20) == 0 {
            bytes.truncate(random.below(bytes.len()));
        }
        std::fs::write(&path, &bytes).unwrap();
        accepted += u32::from(survives(&path));
    }
    assert!(accepted > 50 && accepted < rounds, "{accepted}");
}

/// Pages that point to one another let a small file list 10^9 rows or more: reading must give up by itself.
#[test]
fn a_database_whose_pages_are_shared_is_given_up() {
    const PAGE: usize = 4096;
    let folder = scratch();
    let path = folder.path().join("a.db");
    let many: Vec<Dispatch> = (0..20_000).map(|number| (1, 4, 1000 * number + 1, 1000 * number + 11)).collect();
    let root: usize = {
        let mut database = Connection::open(&path).unwrap();
        let transaction = database.transaction().unwrap();
        add_process(&transaction, GUID, Schema::V3, false, &many);
        transaction.commit().unwrap();
        let query = "SELECT rootpage FROM sqlite_master WHERE name LIKE 'rocpd_kernel_dispatch%'";
        database.query_row(query, [], |row| row.get::<_, i64>(0)).unwrap() as usize
    };
    let mut bytes = std::fs::read(&path).unwrap();
    assert_eq!(u16::from_be_bytes([bytes[16], bytes[17]]) as usize, PAGE);
    let start = |page: usize| (page - 1) * PAGE;
    let word = |bytes: &[u8], at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]) as usize;
    let long = |bytes: &[u8], at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
    // Interior page of a table: type 5, cells at 3, rightmost child at 8, cell places from 12; a cell starts with its child.
    let interior = bytes[start(root)..start(root) + PAGE].to_vec();
    assert_eq!(interior[0], 5);
    let cells: Vec<usize> = (0..word(&interior, 3)).map(|cell| word(&interior, 12 + 2 * cell)).collect();
    let children: Vec<usize> = cells.iter().map(|cell| long(&interior, *cell)).collect();
    assert!(children.len() > 100);
    // Six levels of the same page, each child of which is the next level; the last level's is one leaf.
    let levels: Vec<usize> = [root].iter().chain(&children[..5]).copied().collect();
    for (level, page) in levels.iter().enumerate() {
        let next = levels.get(level + 1).copied().unwrap_or(children[10]) as u32;
        let mut shared = interior.clone();
        shared[8..12].copy_from_slice(&next.to_be_bytes());
        for cell in &cells {
            shared[*cell..cell + 4].copy_from_slice(&next.to_be_bytes());
        }
        bytes[start(*page)..start(*page) + PAGE].copy_from_slice(&shared);
    }
    std::fs::write(&path, bytes).unwrap();
    let begun = std::time::Instant::now();
    let text = refusal(&path);
    assert!(text.contains("more steps than its size explains"), "{text}");
    assert!(begun.elapsed().as_secs() < 20, "{:?}", begun.elapsed());
}

/// Peak resident memory of this process, MB.
fn peak_mb() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse::<u64>().ok().map(|kb| kb / 1024)
}

/// Run alone: `cargo test --test rocprof -- --ignored --nocapture`.
#[test]
#[ignore = "writes half a gigabyte"]
fn large_files_are_read_fast_and_in_constant_memory() {
    const DISPATCHES: i64 = 1_000_000;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.json");
    {
        let mut file = std::io::BufWriter::new(std::fs::File::create(&path).unwrap());
        let [head, tail] = {
            let text = process_json(7, &[(1, 4, 1, 11)], true);
            let at = text.find(r#"{"size": 184"#).unwrap();
            let end = text[at..].find(r#""stream_id": {"handle": 1}}"#).unwrap()
                + at
                + r#""stream_id": {"handle": 1}}"#.len();
            [text[..at].to_owned(), text[end..].to_owned()]
        };
        write!(file, "{{\"rocprofiler-sdk-tool\": [{head}").unwrap();
        for number in 0..DISPATCHES {
            let one = dispatches_json(&[(1 + number as u64 % 2, 4, 1000 * number + 1, 1000 * number + 11)]);
            write!(file, "{}{}", if number > 0 { ",\n" } else { "" }, &one[1..one.len() - 1]).unwrap();
        }
        write!(file, "{tail}]}}").unwrap();
    }
    let measure = |path: &Path| {
        let (begun, size) = (std::time::Instant::now(), std::fs::metadata(path).unwrap().len());
        let found = inventory(path);
        let seconds = begun.elapsed().as_secs_f64();
        assert_eq!(found.total_ns(), 10 * DISPATCHES as u128);
        let (mb, rate) = (size as f64 / 1e6, size as f64 / 1e6 / seconds);
        println!("{}: {mb:.0} MB in {seconds:.2} s, {rate:.0} MB/s, peak {:?} MB", path.display(), peak_mb());
    };
    measure(&path);
    std::fs::remove_file(&path).unwrap();
    assert!(peak_mb().is_none_or(|mb| mb < 100));
    let path = folder.path().join("a.db");
    let many: Vec<Dispatch> =
        (0..DISPATCHES).map(|number| (1 + number as u64 % 2, 4, 1000 * number + 1, 1000 * number + 11)).collect();
    let mut database = Connection::open(&path).unwrap();
    let transaction = database.transaction().unwrap();
    add_process(&transaction, GUID, Schema::V3, false, &many);
    transaction.commit().unwrap();
    drop(database);
    measure(&path);
}
