use super::*;
use proptest::prelude::*;

/// Everything found, as text: `M`, `A`, `S`, `D`, `C` with the element, `.` for the end of a process.
#[derive(Default)]
struct Log(Vec<String>);

impl Sink for Log {
    fn element(&mut self, part: Part, text: &[u8]) {
        let mark = match part {
            Part::Metadata => 'M',
            Part::Agent => 'A',
            Part::Symbol => 'S',
            Part::Dispatch => 'D',
            Part::Counted => 'C',
        };
        self.0.push(format!("{mark}{}", String::from_utf8_lossy(text)));
    }

    fn process_end(&mut self) {
        self.0.push(".".to_owned());
    }
}

fn scan(text: &[u8], chunk: usize) -> (Vec<String>, ScanReport) {
    let (mut scanner, mut log) = (Scanner::new(), Log::default());
    for piece in text.chunks(chunk) {
        scanner.push(piece, &mut log);
    }
    let report = scanner.finish(&mut log);
    (log.0, report)
}

const WHOLE: &str = r#" {"rocprofiler-sdk-tool": [ {"metadata": {"pid": 7, "config": {"a": [1, "}"]}}, "counters": [{"x": "]"}, []], "agents": [{"id": {"handle": 1}}],
  "strings": {"buffer_records": [{"kernel_dispatch": [{"size": 1}]}]}, "odd": null, "n": -1.5e3, "s": "\"{[",
  "buffer_records": {"hip_api": [{"size": 2, "args": [[]]}], "kernel_dispatch": [{"size": 3, "i": {"k": "a\\"}}, 5, "{", [{"size": 4}], {"size": 6}], "x": {}},
  "kernel_symbols": [{"kernel_id": 1}], "callback_records": {"counter_collection": [{"r": [{}]}, {}], "y": []}},
  {"kernel_symbols": []} ], "other": {"kernel_dispatch": [{}]}} trailing {"#;

const FOUND: [&str; 10] = [
    r#"M{"pid": 7, "config": {"a": [1, "}"]}}"#,
    r#"A{"id": {"handle": 1}}"#,
    r#"D{"size": 3, "i": {"k": "a\\"}}"#,
    r#"D{"size": 6}"#,
    r#"S{"kernel_id": 1}"#,
    "C",
    "C",
    ".",
    ".",
    "",
];

#[test]
fn the_same_elements_whatever_the_chunks() {
    for chunk in (1..40).chain([WHOLE.len()]) {
        let (found, report) = scan(WHOLE.as_bytes(), chunk);
        assert_eq!(found, FOUND[..9], "chunks of {chunk}");
        assert_eq!((report.found_tool, report.truncated, report.damaged), (true, false, 0), "chunks of {chunk}");
    }
}

#[test]
fn a_cut_text_gives_the_elements_before_the_cut() {
    let end = WHOLE.find(" trailing").unwrap();
    for cut in 0..end {
        let (found, report) = scan(&WHOLE.as_bytes()[..cut], 13);
        assert!(report.truncated, "{cut}");
        // The end of the process is told at the cut at the latest.
        let elements: Vec<&String> = found.iter().filter(|element| *element != ".").collect();
        let expected: Vec<&&str> = FOUND[..7].iter().collect();
        assert!(
            elements.iter().zip(&expected).all(|(found, expected)| found.as_str() == **expected),
            "{cut}: {found:?}"
        );
    }
}

#[test]
fn one_process_may_stand_without_a_list() {
    let (found, report) = scan(br#"{"rocprofiler-sdk-tool":{"kernel_symbols":[{"kernel_id":1}]},"z":1}"#, 5);
    assert_eq!(found, [r#"S{"kernel_id":1}"#, "."]);
    assert!(!report.truncated);
}

#[test]
fn other_texts_have_nothing() {
    for text in ["", "[]", "name,calls", r#"{"traceEvents":[{"size":1}]}"#, r#"{"a":{"rocprofiler-sdk-tool":[]}}"#] {
        let (found, report) = scan(text.as_bytes(), 3);
        assert!(found.iter().all(|found| found == ".") && !report.found_tool, "{text}");
    }
}

/// An odd quote makes the rest of the list one string: the scanner goes on at a later dispatch, and at one only.
#[test]
fn a_dispatch_that_never_ends_costs_its_neighbours_only() {
    let record = |number: usize| format!("{{\"size\": {number}, \"pad\": \"{}\"}},\n", "x".repeat(200));
    let mut text = String::from(r#"{"rocprofiler-sdk-tool":[{"buffer_records":{"kernel_dispatch":["#);
    for number in 0..1000 {
        match number {
            100 => text.push_str("{\"size\": 100, \"pad\": {\"x\"},\n"),
            _ => text.push_str(&record(number)),
        }
    }
    text.push_str("]}}]}");
    for chunk in [1, 7, 4096, text.len()] {
        let (found, report) = scan(text.as_bytes(), chunk);
        let seen = found.iter().filter(|found| found.starts_with('D')).count();
        assert_eq!(report.damaged, 1, "chunks of {chunk}");
        assert!(!report.truncated);
        // 64 KiB of records of some 220 bytes are given up.
        let lost = MAX_DISPATCH / record(0).len();
        assert!((1000 - lost - 3..1000).contains(&seen), "{seen} with chunks of {chunk}");
        assert!(found.iter().any(|found| found.starts_with("D{\"size\": 999,")));
    }
}

#[test]
fn what_is_too_large_is_dropped_and_counted() {
    let long = format!(
        r#"{{"rocprofiler-sdk-tool":[{{"kernel_symbols":[{{"n":"{}"}},{{"kernel_id":2}}]}}]}}"#,
        "x".repeat(MAX_ELEMENT)
    );
    for chunk in [1 << 16, long.len()] {
        let (found, report) = scan(long.as_bytes(), chunk);
        assert_eq!((found, report.damaged), (vec![r#"S{"kernel_id":2}"#.to_owned(), ".".to_owned()], 1));
    }
}

proptest! {
    #[test]
    fn any_bytes_come_to_an_end(bytes in proptest::collection::vec(
        prop_oneof![Just(b'"'), Just(b'\\'), Just(b'{'), Just(b'}'), Just(b'['), Just(b']'), any::<u8>()], 0..300), chunk in 1usize..50,
        at in 0usize..700) {
        let mut text = WHOLE.as_bytes().to_vec();
        let at = at.min(text.len());
        text.splice(at..at, bytes);
        let whole = scan(&text, text.len());
        prop_assert_eq!(&whole, &scan(&text, chunk), "chunks of {}", chunk);
    }
}
