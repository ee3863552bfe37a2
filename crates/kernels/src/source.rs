//! Kernel sources with what they include: for content hashes, and as one text for run-time compilers.
//!
//! Only `#include "..."` counts: device sources have no other (no ROCm headers, no host code). A name is looked for
//! beside the file that includes it, then in `include/` of the kernel folder, as the compiler does.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Folder of shared headers below the kernel folder.
pub const INCLUDE_DIR: &str = "include";
/// The largest source with everything it includes, bytes.
const MAX_BYTES: usize = 8 << 20;
/// The deepest chain of includes.
const MAX_DEPTH: usize = 32;

/// A source that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// A file cannot be read.
    #[error("{file} could not be read")]
    Read {
        /// The file, relative to the kernel folder.
        file: String,
        /// Why.
        source: io::Error,
    },
    /// Includes nest too deeply (a header that includes itself without `#pragma once` does).
    #[error("{0}: includes nest deeper than {MAX_DEPTH}")]
    Depth(String),
    /// Too much text.
    #[error("{0}: more than {MAX_BYTES} bytes with everything it includes")]
    Size(String),
}

/// A file of the kernel folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceFile {
    /// Path relative to the kernel folder, `/`-separated.
    pub path: String,
    /// Its text.
    pub text: String,
}

/// A source and all files that it includes, directly or not, each once, the source first. Includes in branches that the
/// preprocessor leaves out count too; those that cannot be found do not (the compiler says so if it needs them).
///
/// # Errors
/// When the source or a file that is there cannot be read, or there is too much.
pub fn with_includes(root: &Path, path: &str) -> Result<Vec<SourceFile>, SourceError> {
    let mut files = vec![read(root, path)?];
    let mut total = 0;
    let mut next = 0;
    while let Some(file) = files.get(next) {
        total += file.text.len();
        if total > MAX_BYTES {
            return Err(SourceError::Size(path.to_owned()));
        }
        let wanted: Vec<String> = file.text.lines().filter_map(included).map(str::to_owned).collect();
        let from = file.path.clone();
        for name in wanted {
            if let Some(found) = find(root, &from, &name)
                && !files.iter().any(|file| file.path == found)
            {
                files.push(read(root, &found)?);
            }
        }
        next += 1;
    }
    Ok(files)
}

/// The source as one text without own includes: what a run-time compiler (hiprtc) takes. `#line` keeps messages right.
///
/// # Errors
/// As [`with_includes`], and when includes nest too deeply.
pub fn single(root: &Path, path: &str) -> Result<String, SourceError> {
    let mut inliner = Inliner { root, source: path, out: String::new(), done: BTreeSet::new() };
    inliner.file(&read(root, path)?, 0, 0)?;
    Ok(inliner.out)
}

struct Inliner<'a> {
    root: &'a Path,
    source: &'a str,
    out: String,
    /// Headers that were inlined outside every `#if`: they need not come again.
    done: BTreeSet<String>,
}

impl Inliner<'_> {
    /// `conditions` is the number of `#if` around the text.
    fn file(&mut self, file: &SourceFile, depth: usize, conditions: usize) -> Result<(), SourceError> {
        if depth > MAX_DEPTH {
            return Err(SourceError::Depth(self.source.to_owned()));
        }
        let mut open = 0usize;
        for (index, line) in file.text.lines().enumerate() {
            match directive(line) {
                Some("if" | "ifdef" | "ifndef") => open += 1,
                Some("endif") => open = open.saturating_sub(1),
                Some("pragma") if depth > 0 && line.split_whitespace().last() == Some("once") => {
                    self.out.push('\n');
                    continue;
                }
                _ => {}
            }
            let found = included(line).and_then(|name| find(self.root, &file.path, name));
            let Some(found) = found else {
                self.out.push_str(line);
                self.out.push('\n');
                if self.out.len() > MAX_BYTES {
                    return Err(SourceError::Size(self.source.to_owned()));
                }
                continue;
            };
            if !self.done.contains(&found) {
                self.header(&found, depth, conditions + open)?;
            }
            // Writing to a string cannot fail.
            let _ = writeln!(self.out, "#line {} \"{}\"", index + 2, file.path);
        }
        Ok(())
    }

    fn header(&mut self, path: &str, depth: usize, conditions: usize) -> Result<(), SourceError> {
        let header = read(self.root, path)?;
        let once = header
            .text
            .lines()
            .any(|line| directive(line) == Some("pragma") && line.split_whitespace().last() == Some("once"));
        let guard: String = path.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
        if once {
            // Marked before its own text, so that a cycle of headers ends here.
            if conditions == 0 {
                self.done.insert(path.to_owned());
            }
            let _ = writeln!(self.out, "#ifndef KBENCH_INLINED_{guard}\n#define KBENCH_INLINED_{guard}");
        }
        let _ = writeln!(self.out, "#line 1 \"{path}\"");
        self.file(&header, depth + 1, conditions)?;
        if once {
            self.out.push_str("#endif\n");
        }
        Ok(())
    }
}

fn read(root: &Path, path: &str) -> Result<SourceFile, SourceError> {
    let text =
        fs::read_to_string(root.join(path)).map_err(|source| SourceError::Read { file: path.to_owned(), source })?;
    Ok(SourceFile { path: path.to_owned(), text })
}

/// The word behind `#`.
fn directive(line: &str) -> Option<&str> {
    let rest = line.trim_start().strip_prefix('#')?.trim_start();
    let length = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
    rest.get(..length)
}

/// The name in `#include "name"`.
fn included(line: &str) -> Option<&str> {
    if directive(line) != Some("include") {
        return None;
    }
    let name = line.split_once('"')?.1;
    name.split_once('"').map(|(name, _)| name)
}

/// Where an included file is, relative to the kernel folder.
fn find(root: &Path, from: &str, name: &str) -> Option<String> {
    let beside = Path::new(from).parent().unwrap_or(Path::new(""));
    [beside.to_owned(), PathBuf::from(INCLUDE_DIR)]
        .into_iter()
        .filter_map(|folder| normal(&folder.join(name)))
        .find(|path| root.join(path).is_file())
}

/// Resolves `.` and `..` by text; `None` when the path leaves the kernel folder.
fn normal(path: &Path) -> Option<String> {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.components() {
        match part {
            std::path::Component::Normal(part) => parts.push(part.to_str()?),
            std::path::Component::CurDir => {}
            std::path::Component::ParentDir => {
                parts.pop()?;
            }
            std::path::Component::RootDir | std::path::Component::Prefix(_) => return None,
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        folder
    }

    #[test]
    fn includes_are_followed_beside_and_in_include() {
        let folder = tree(&[
            ("f/f.hip", "#include \"own.h\"\n#  include \"wave.h\"\n#include <stdint.h>\n#include \"absent.h\"\n"),
            ("f/own.h", "#include \"../include/device.h\"\n"),
            ("include/wave.h", "#include \"device.h\"\n"),
            ("include/device.h", "#pragma once\n"),
        ]);
        let files = with_includes(folder.path(), "f/f.hip").unwrap();
        let paths: Vec<&str> = files.iter().map(|file| file.path.as_str()).collect();
        assert_eq!(paths, ["f/f.hip", "f/own.h", "include/wave.h", "include/device.h"]);
    }

    #[test]
    fn a_header_in_a_branch_comes_again_where_it_is_needed() {
        let folder = tree(&[
            ("f.hip", "#ifdef A\n#include \"h.h\"\n#endif\n#include \"h.h\"\n#include \"h.h\"\nint end;\n"),
            ("include/h.h", "#pragma once\nint h;\n"),
        ]);
        let text = single(folder.path(), "f.hip").unwrap();
        assert_eq!(text.matches("int h;").count(), 2, "{text}");
        assert!(text.ends_with("#line 6 \"f.hip\"\nint end;\n"), "{text}");
        assert!(!text.contains("#include") && !text.contains("#pragma"));
    }

    #[test]
    fn headers_that_include_each_other_end() {
        let cycle = [("f.hip", "#include \"a.h\"\n"), ("include/a.h", "#include \"b.h\"\n")];
        let endless = tree(&[cycle[0], cycle[1], ("include/b.h", "#include \"a.h\"\n")]);
        assert_eq!(with_includes(endless.path(), "f.hip").unwrap().len(), 3);
        assert!(matches!(single(endless.path(), "f.hip"), Err(SourceError::Depth(_))));
        let guarded = tree(&[
            cycle[0],
            ("include/a.h", "#pragma once\n#include \"b.h\"\nint a;\n"),
            ("include/b.h", "#pragma once\n#include \"a.h\"\nint b;\n"),
        ]);
        let text = single(guarded.path(), "f.hip").unwrap();
        assert_eq!((text.matches("int a;").count(), text.matches("int b;").count()), (1, 1), "{text}");
    }

    #[test]
    fn a_missing_source_is_named() {
        let folder = tree(&[]);
        assert!(single(folder.path(), "f/none.hip").unwrap_err().to_string().contains("f/none.hip"));
    }
}
