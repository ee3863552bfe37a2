use super::*;
use proptest::prelude::*;

fn jobs_of(format: Format, text: &str) -> Vec<Job> {
    parse("input", format, text).unwrap()
}

fn counters(jobs: &[Job]) -> Vec<Vec<&str>> {
    jobs.iter().map(|job| job.groups.iter().flatten().map(String::as_str).collect()).collect()
}

fn refusal(format: Format, text: &str) -> InputError {
    parse("input", format, text).unwrap_err()
}

/// The forms in which rocprofv3's documentation and its own tests write the same two jobs.
#[test]
fn the_three_forms_say_the_same() {
    let expected = vec![vec!["SQ_WAVES", "GRBM_COUNT"], vec!["GRBM_GUI_ACTIVE"]];
    let text = "# two passes\n\npmc: SQ_WAVES\tGRBM_COUNT   # first\n pmc: GRBM_GUI_ACTIVE\n";
    let yaml = "jobs:\n  - pmc:\n    - SQ_WAVES\n    - GRBM_COUNT\n  - pmc:\n      - GRBM_GUI_ACTIVE\n";
    let flow = "---\njobs:\n- pmc: [SQ_WAVES,\n        GRBM_COUNT] # over two lines\n- {pmc: [\"GRBM_GUI_ACTIVE\"]}\n";
    let json = r#"{"jobs": [{"pmc": ["SQ_WAVES", "GRBM_COUNT"]}, {"pmc": ["GRBM_GUI_ACTIVE"]}]}"#;
    for (format, text) in [(Format::Text, text), (Format::Yaml, yaml), (Format::Yaml, flow), (Format::Json, json)] {
        assert_eq!(counters(&jobs_of(format, text)), expected, "{text}");
    }
}

#[test]
fn filters_and_ranges_are_read() {
    let yaml = r#"
jobs:
  - pmc: [SQ_WAVES]
    kernel_include_regex: ".*_kernel"
    kernel_exclude_regex: 'multi#ply'
    kernel_iteration_range:
    - "[1-2]"
    - "[5-6]"
    kernel_trace: True
    output_format: [csv, json]
  - pmc:
    - GRBM_COUNT
    kernel_exclude_regex: ""
    kernel_iteration_range: "[1, 3, [8-12]]"
  - pmc_groups: [[SQ_WAVES, TCC_HIT], [TCC_MISS]]
"#;
    let jobs = jobs_of(Format::Yaml, yaml);
    assert_eq!(
        (jobs[0].kernel_include.as_deref(), jobs[0].kernel_exclude.as_deref()),
        (Some(".*_kernel"), Some("multi#ply"))
    );
    assert_eq!(jobs[0].iterations.ranges(), [(1, 2), (5, 6)]);
    assert_eq!(jobs[0].unused, ["kernel_trace", "output_format"]);
    assert_eq!((jobs[1].kernel_exclude.clone(), jobs[1].iterations.ranges()), (None, &[(1, 1), (3, 3), (8, 12)][..]));
    assert!(jobs[1].iterations.contains(9) && !jobs[1].iterations.contains(2) && jobs[2].iterations.contains(2));
    assert_eq!(jobs[2].groups, [vec!["SQ_WAVES".to_owned(), "TCC_HIT".to_owned()], vec!["TCC_MISS".to_owned()]]);
}

#[test]
fn mistakes_are_told_with_their_place() {
    let error = refusal(Format::Text, "pmc: SQ_WAVES\nSQ_WAVES\n");
    assert_eq!(error.to_string(), "input:2: a line is `pmc: COUNTER COUNTER ...` or a comment (#)");
    assert!(refusal(Format::Text, "gpu: 0\n").what.contains("first version"));
    assert!(refusal(Format::Text, "pmc:\n").what.contains("no counters"));
    assert!(refusal(Format::Text, "\n# nothing\n").what.contains("no jobs"));
    assert!(refusal(Format::Yaml, "jobs:\n  - pcm: [A]\n").what.contains("did you mean `pmc`"));
    assert_eq!(refusal(Format::Yaml, "jobs:\n  - pmc: [A\n").line, Some(3));
    assert_eq!(refusal(Format::Yaml, "jobs:\n  - pmc: *all\n").line, Some(2));
    assert_eq!(refusal(Format::Yaml, "jobs:\n\t- pmc: [A]\n").line, Some(2));
    assert_eq!(refusal(Format::Yaml, "jobs:\n  - pmc: [A]\n    pmc: [B]\n").line, Some(3));
    assert_eq!(refusal(Format::Yaml, "jobs:\n  - pmc: [A]\n   x: 1\n").line, Some(3));
    assert!(refusal(Format::Yaml, "work:\n  - pmc: [A]\n").what.contains("`work`"));
    assert_eq!(refusal(Format::Json, "{\"jobs\": [\n}").line, Some(2));
    assert!(refusal(Format::Json, r#"{"jobs": [{"pmc": [1]}]}"#).what.contains("job 1"));
    assert!(refusal(Format::Json, r#"{"jobs": [{"kernel_iteration_range": "[4-2]"}]}"#).what.contains("from 1"));
    assert!(refusal(Format::Json, &format!("{}{}", "[".repeat(100_000), "]".repeat(100_000))).what.contains("JSON"));
    assert!(refusal(Format::Yaml, &format!("jobs: {}{}", "[".repeat(100), "]".repeat(100))).what.contains("deeply"));
    for hostile in ["[", "jobs: [\n", "{a: ", "- ", "? ", "- - [", "'", "&a [*a, "] {
        let problem = refusal(Format::Yaml, &hostile.repeat(100_000));
        assert!(problem.what.len() < 200, "{problem}");
    }
    assert!(refusal(Format::Text, &"#".repeat(2 << 20)).what.contains("1 MiB"));
    assert!(Format::of("a.toml").is_err());
    assert_eq!(Format::of("x/INPUT.YML"), Ok(Format::Yaml));
}

/// What a reader by lines gets wrong: a `#` or a bracket within quotes, doubled quotes, quotes within words.
#[test]
fn quotes_and_comments_are_told_apart() {
    for (written, meant) in [
        (r"'''\\#'", r"'\\#"),
        ("'a '' # b' # comment", "a ' # b"),
        ("don't # comment", "don't"),
        ("it is 'so # comment", "it is 'so"),
        ("a#b [c", "a#b [c"),
        (r#""a \" # b""#, r#"a " # b"#),
    ] {
        let yaml = format!("jobs:\n- pmc: [A, 'B'] # both\n  kernel_include_regex: {written}\n");
        assert_eq!(jobs_of(Format::Yaml, &yaml)[0].kernel_include.as_deref(), Some(meant), "{written}");
    }
    assert!(refusal(Format::Yaml, "jobs:\n- &first {pmc: [A]}\n- *first\n").what.contains("aliases"));
    assert!(refusal(Format::Yaml, "jobs:\n- pmc: !!str A\n").what.contains("tags"));
    assert!(refusal(Format::Yaml, "jobs: []\n---\njobs: []\n").what.contains("second document"));
}

/// A random document, written as YAML by hand.
fn document() -> impl Strategy<Value = Vec<(Vec<String>, Option<String>)>> {
    let name = "[A-Z]{2,4}_[A-Z0-9_]{1,10}";
    let text = "[ -~]{0,20}";
    prop::collection::vec((prop::collection::vec(name, 1..5), prop::option::of(text)), 1..6)
}

proptest! {
    #[test]
    fn written_documents_are_read_back(jobs in document(), is_flow in any::<bool>(), indent in 0_usize..4) {
        let mut text = "jobs:\n".to_owned();
        let pad = " ".repeat(indent);
        for (names, include) in &jobs {
            if is_flow {
                text += &format!("{pad}- pmc: [{}]\n", names.join(", "));
            } else {
                text += &format!("{pad}- pmc:\n");
                names.iter().for_each(|name| text += &format!("{pad}  - {name}\n"));
            }
            if let Some(include) = include {
                text += &format!("{pad}  kernel_include_regex: '{}'\n", include.replace('\'', "''"));
            }
        }
        let read = jobs_of(Format::Yaml, &text);
        prop_assert_eq!(read.len(), jobs.len());
        for (job, (names, include)) in read.iter().zip(&jobs) {
            prop_assert_eq!(&job.groups[0], names);
            prop_assert_eq!(job.kernel_include.clone(), include.clone().filter(|text| !text.is_empty()));
        }
    }

    #[test]
    fn any_text_is_read_or_refused(text in "[-a-c:#\\[\\]{}'\"\\\\ \n,.?&*\t]{0,120}", form in 0..3) {
        let format = [Format::Text, Format::Yaml, Format::Json][form as usize];
        let _ = parse("input", format, &text);
    }
}
