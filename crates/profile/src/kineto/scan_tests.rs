//! Tests of the scanner on texts written for them.

use super::*;
use proptest::prelude::*;

#[derive(Default, Debug, PartialEq, Eq, Clone)]
struct Found {
    metadata: Vec<(String, String)>,
    events: Vec<String>,
}

impl Sink for Found {
    fn metadata(&mut self, key: &[u8], value: &[u8]) {
        self.metadata.push((String::from_utf8_lossy(key).into(), String::from_utf8_lossy(value).into()));
    }

    fn event(&mut self, event: &[u8]) {
        self.events.push(String::from_utf8_lossy(event).into());
    }
}

fn scan_chunks<'a>(chunks: impl IntoIterator<Item = &'a [u8]>) -> (Found, ScanReport) {
    let mut found = Found::default();
    let mut scanner = Scanner::new();
    for chunk in chunks {
        scanner.push(chunk, &mut found);
    }
    let report = scanner.finish(&mut found);
    (found, report)
}

fn scan(text: &str) -> (Found, ScanReport) {
    scan_chunks([text.as_bytes()])
}

const TRACE: &str = r#" {
  "schemaVersion": 1, "note": "a \"quoted\" } , {\\", "list": [{"id": 0, "x": [1, 2]}, {"id": 1}],
  "traceEvents": [
    {"ph": "X", "cat": "kernel", "name": "void k<a{b}>(\"s\")", "args": {"grid": [1, 2, 3]}},
    { "name": "process_name", "ph": "M", "args": {"name": "python \\"} }
    ,{}
  ],
  "traceName": "trace.json", "flag": true, "base": 12
}
"#;

#[test]
fn metadata_before_and_after_and_each_event_whole() {
    let (found, report) = scan(TRACE);
    let keys: Vec<&str> = found.metadata.iter().map(|(key, _)| key.as_str()).collect();
    assert_eq!(keys, ["schemaVersion", "note", "list", "traceName", "flag", "base"]);
    assert_eq!(found.metadata[2].1, r#"[{"id": 0, "x": [1, 2]}, {"id": 1}]"#);
    assert_eq!(found.metadata[5].1, "12");
    assert_eq!(found.events.len(), 3);
    assert!(found.events[0].starts_with(r#"{"ph": "X""#) && found.events[0].ends_with("[1, 2, 3]}}"));
    assert_eq!(found.events[2], "{}");
    assert!(!report.truncated && report.found_events && report.second_document.is_none());
    assert_eq!(report.events, 3);
}

#[test]
fn chunk_borders_do_not_matter() {
    let whole = scan(TRACE);
    for size in 1..TRACE.len() {
        assert_eq!(scan_chunks(TRACE.as_bytes().chunks(size)), whole, "chunks of {size} bytes");
    }
}

#[test]
fn every_truncation_keeps_the_whole_events_before_it() {
    let whole = scan(TRACE).0;
    for cut in 0..TRACE.trim_end().len() {
        let (found, report) = scan(&TRACE[..cut]);
        assert!(whole.events.starts_with(&found.events), "cut at {cut}");
        assert!(found.metadata.iter().all(|member| whole.metadata.contains(member)), "cut at {cut}");
        assert!(report.truncated || cut <= 1, "cut at {cut}");
        assert!(report.whole_until <= cut as u64);
    }
    // The last event is whole once its brace is there.
    let cut = TRACE.find(",{}").unwrap() + 3;
    assert_eq!(scan(&TRACE[..cut]).0.events.len(), 3);
    assert_eq!(scan(&TRACE[..cut - 1]).0.events.len(), 2);
}

#[test]
fn a_bare_list_is_a_trace_with_or_without_its_bracket() {
    for (text, truncated) in [("[{\"ph\":\"X\"},{\"ph\":\"i\"}]", false), ("[{\"ph\":\"X\"},{\"ph\":\"i\"}", true)] {
        let (found, report) = scan(text);
        assert_eq!(found.events.len(), 2);
        assert!(report.bare_list && report.truncated == truncated);
    }
}

#[test]
fn what_is_no_json_is_said_so() {
    for text in ["kernel,calls\n", "\u{feff}PK", "\"text\"", "12"] {
        assert!(scan(text).1.not_json.is_some(), "{text}");
    }
    assert_eq!(scan("\u{feff}{\"traceEvents\":[]}").1.not_json, None);
    let report = scan("{\"rocprofiler-sdk-tool\": [{\"traceEvents\": [{}]}]}").1;
    assert!(!report.found_events, "a list of that name deeper down is not the list of events");
}

#[test]
fn control_characters_and_bad_escapes_in_strings_do_no_harm() {
    let text = "{\"traceEvents\":[{\"name\":\"a\u{1}\n\\q\\ud800 }\"},{\"name\":\"b\"}]}";
    assert_eq!(scan(text).0.events.len(), 2);
}

#[test]
fn missing_and_doubled_commas_and_stray_words_between_events() {
    let text = r#"{"traceEvents":[,,{"a":1}{"b":2} junk "st}ray{" null,}{"c":3}],"k":1}"#;
    let (found, report) = scan(text);
    assert_eq!(found.events, [r#"{"a":1}"#, r#"{"b":2}"#, r#"{"c":3}"#]);
    assert_eq!(found.metadata.len(), 1);
    assert!(!report.truncated);
}

#[test]
fn a_missing_bracket_costs_only_the_metadata_behind_it() {
    let (found, report) = scan(r#"{"traceEvents":[{"ph":"X"},{"ph":"Y"}, "traceName": "t", "list": [{"id": 0}]}"#);
    assert_eq!(&found.events[..2], [r#"{"ph":"X"}"#, r#"{"ph":"Y"}"#]);
    assert!(report.truncated || found.events.len() == 3);
}

#[test]
fn an_event_with_an_odd_quote_is_given_up_and_the_rest_is_kept() {
    let text = r#"{"traceEvents":[{"ph":"X","name":"a"},{"ph":"X","name":"5" long"},{"ph":"X","name":"b"},{"ph":"X","name":"c"}]}"#;
    let (found, report) = scan(text);
    assert!(found.events.contains(&r#"{"ph":"X","name":"a"}"#.to_owned()));
    assert!(found.events.contains(&r#"{"ph":"X","name":"c"}"#.to_owned()));
    assert_eq!(report.damaged, 1);
}

#[test]
fn an_oversized_event_is_skipped_and_counted() {
    let long = "x".repeat(MAX_EVENT + 10);
    let text = format!(r#"{{"traceEvents":[{{"ph":"X"}},{{"ph":"X","name":"{long}"}},{{"ph":"Y"}}]}}"#);
    let (found, report) = scan_chunks(text.as_bytes().chunks(64 << 10));
    assert!(found.events == [r#"{"ph":"X"}"#, r#"{"ph":"Y"}"#], "{} events", found.events.len());
    assert_eq!((report.oversized, report.damaged, report.truncated), (1, 0, false));
}

#[test]
fn endless_events_cost_no_quadratic_time() {
    let text = format!("{{\"traceEvents\":[{}", "{\"ph\":\"".repeat(6_000_000));
    let started = std::time::Instant::now();
    let (_, report) = scan_chunks(text.as_bytes().chunks(256 << 10));
    assert!(report.truncated && report.damaged > 0);
    assert!(started.elapsed().as_secs() < 20, "{:?}", started.elapsed());
}

#[test]
fn hostile_nesting_is_one_event() {
    let deep = "{\"a\":".repeat(200_000) + "1" + &"}".repeat(200_000);
    let (found, report) = scan(&format!("{{\"traceEvents\":[{deep},{{\"ph\":\"X\"}}]}}"));
    assert_eq!((found.events.len(), report.truncated), (2, false));
}

#[test]
fn after_a_gap_the_next_event_start_is_found_across_chunks() {
    let first = br#"{"traceEvents":[{"ph":"X","name":"a"},{"ph":"X","na"#;
    let second = br#"me":"lost"}},] "x", {"y":1}, { "ph" : "X", "name":"b"},{"ph":"X","name":"c"}],"traceName":"t"}"#;
    for size in 1..second.len() {
        let mut found = Found::default();
        let mut scanner = Scanner::new();
        scanner.push(first, &mut found);
        scanner.gap();
        for chunk in second.chunks(size) {
            scanner.push(chunk, &mut found);
        }
        let report = scanner.finish(&mut found);
        let names = [r#"{"ph":"X","name":"a"}"#, r#"{ "ph" : "X", "name":"b"}"#, r#"{"ph":"X","name":"c"}"#];
        assert_eq!(found.events, names, "chunks of {size}");
        assert_eq!((report.damaged, report.truncated, found.metadata.len()), (1, false, 1));
    }
}

#[test]
fn a_second_document_is_noticed_and_not_mixed_in() {
    let one = r#"{"schemaVersion":1,"traceEvents":[{"ph":"X"}]}"#;
    let (found, report) = scan(&format!("{one}\n{one}"));
    assert_eq!(found.events.len(), 1);
    assert_eq!(report.second_document, Some(one.len() as u64 + 1));

    let mut found = Found::default();
    let mut scanner = Scanner::new();
    scanner.push(br#"{"schemaVersion":1,"traceEvents":[{"ph":"X"},{"ph":"#, &mut found);
    scanner.member();
    scanner.push(one.as_bytes(), &mut found);
    let report = scanner.finish(&mut found);
    assert_eq!(found.events.len(), 1);
    assert!(report.interrupted && report.second_document == Some(51));
}

proptest! {
    /// Valid documents with arbitrary strings: the standard writer is the oracle.
    #[test]
    fn valid_documents_come_out_as_they_went_in(
        events in proptest::collection::vec((".*", any::<i64>(), proptest::collection::vec(".{0,8}", 0..4)), 0..12),
        note in ".*", pretty in any::<bool>(), size in 1usize..64,
    ) {
        let events: Vec<serde_json::Value> = events
            .into_iter()
            .map(|(name, ts, list)| serde_json::json!({ "ph": "X", "name": name, "ts": ts, "args": { "l": list, "d": {} } }))
            .collect();
        let document = serde_json::json!({ "a": note, "traceEvents": events, "z": [note, { "k": note }] });
        let text = if pretty { serde_json::to_string_pretty(&document) } else { serde_json::to_string(&document) }.unwrap();
        let (found, report) = scan_chunks(text.as_bytes().chunks(size));
        let parsed: Vec<serde_json::Value> = found.events.iter().map(|event| serde_json::from_str(event).unwrap()).collect();
        prop_assert_eq!(parsed, events);
        prop_assert_eq!(found.metadata.len(), 2);
        prop_assert!(!report.truncated);
    }

    #[test]
    fn any_bytes_in_any_chunks_give_the_same(
        bytes in proptest::collection::vec(prop_oneof![
            Just(b'"'), Just(b'\\'), Just(b'{'), Just(b'}'), Just(b'['), Just(b']'), Just(b':'), Just(b','), Just(b'p'), Just(b'h'), any::<u8>()], 0..300),
        size in 1usize..40,
    ) {
        let text = [br#"{"traceEvents":["#.to_vec(), bytes].concat();
        let (found, _) = scan_chunks(text.chunks(size));
        prop_assert_eq!(found.events, scan_chunks([&text[..]]).0.events);
    }
}
