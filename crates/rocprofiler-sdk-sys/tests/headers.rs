//! The declarations against C headers as bindgen reads them: those of an installed ROCm where there is one, and always the test's own.

#![cfg(feature = "bindgen")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use rocprofiler_sdk_sys::layout::{LAYOUTS, Layout};
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Sizes by type and offsets by type and field.
#[derive(Default)]
struct Headers {
    sizes: HashMap<String, usize>,
    offsets: HashMap<(String, String), usize>,
}

impl Headers {
    /// Reads a header; bindgen writes each size and offset into assertions of its output.
    fn read(header: &Path, include: &[&Path]) -> Self {
        let arguments = include.iter().map(|path| format!("-I{}", path.display()));
        let bindings = bindgen::Builder::default()
            .header(header.to_str().unwrap())
            .clang_args(arguments)
            .allowlist_type("rocprofiler_.*")
            .layout_tests(true)
            .formatter(bindgen::Formatter::None)
            .generate()
            .unwrap();
        Self::parse(&bindings.to_string())
    }

    fn parse(text: &str) -> Self {
        let mut headers = Headers::default();
        let compact: String = text.split_whitespace().collect();
        for part in compact.split("[\"").skip(1) {
            let Some((label, rest)) = part.split_once('"') else { continue };
            let number = rest.split_once(")-").and_then(|(_, rest)| rest.split_once("usize")?.0.parse().ok());
            let Some(number) = number else { continue };
            if let Some(name) = label.strip_prefix("Sizeof") {
                headers.sizes.insert(name.to_owned(), number);
            } else if let Some((name, field)) = label.strip_prefix("Offsetoffield:").and_then(|of| of.split_once("::"))
            {
                headers.offsets.insert((name.to_owned(), field.to_owned()), number);
            }
        }
        headers
    }

    /// What differs from a layout.
    fn differences(&self, layout: &Layout) -> Vec<String> {
        let mut list = Vec::new();
        match self.sizes.get(layout.name) {
            None => list.push(format!("{} is not in the headers", layout.name)),
            Some(size) if *size == layout.size || (layout.grows && *size > layout.size) => {}
            Some(size) => list.push(format!("{}: {} bytes here, {size} in the headers", layout.name, layout.size)),
        }
        for field in layout.fields {
            match self.offsets.get(&(layout.name.to_owned(), field.name.to_owned())) {
                Some(offset) if *offset == field.offset => {}
                // Fields of unnamed unions have no assertion.
                None => {}
                Some(offset) => {
                    list.push(format!(
                        "{}::{}: at {} here, {offset} in the headers",
                        layout.name, field.name, field.offset
                    ));
                }
            }
        }
        list
    }

    fn check(&self) {
        let differences: Vec<String> = LAYOUTS.iter().flat_map(|layout| self.differences(layout)).collect();
        assert!(differences.is_empty(), "{}", differences.join("\n"));
    }
}

fn own() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/abi/rocprofiler_abi.h")
}

#[test]
fn the_tests_own_header() {
    let headers = Headers::read(&own(), &[]);
    let fields: usize = LAYOUTS.iter().map(|layout| layout.fields.len()).sum();
    assert!(headers.sizes.len() >= LAYOUTS.len() && headers.offsets.len() + 2 >= fields, "{}", headers.offsets.len());
    headers.check();
    // And the comparison can fail.
    let wrong = Layout { size: 16, fields: &[], ..LAYOUTS[0] };
    assert_eq!(headers.differences(&wrong).len(), 1);
}

#[test]
fn installed_headers() {
    let roots = std::env::var("ROCM_PATH").into_iter().chain(["/opt/rocm".to_owned()]);
    let found = roots
        .map(|root| Path::new(&root).join("include"))
        .find(|path| path.join("rocprofiler-sdk/rocprofiler.h").exists());
    match found {
        Some(include) => Headers::read(&include.join("rocprofiler-sdk/rocprofiler.h"), &[&include]).check(),
        None => eprintln!("skipped: no headers of rocprofiler-sdk"),
    }
}
