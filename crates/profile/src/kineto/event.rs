//! The fields of one event, and the category that decides whether they are looked at.

use super::json::{Members, unquoted};
use super::model::{DispatchKind, Geometry};
use super::number;
use std::num::NonZeroU64;

/// What an event is about. Both kineto's words and those of old libkineto are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Category {
    Kernel,
    Memcpy,
    Memset,
    /// A call of the runtime or the driver.
    Call,
    Op,
    CpuAnnotation,
    GpuAnnotation,
    /// Says nothing about kernels.
    Other,
}

impl Category {
    fn of(word: &[u8]) -> Self {
        match word {
            b"kernel" | b"Kernel" => Category::Kernel,
            b"gpu_memcpy" | b"Memcpy" => Category::Memcpy,
            b"gpu_memset" | b"Memset" => Category::Memset,
            b"cuda_runtime" | b"cuda_driver" | b"hip_runtime" | b"hip_driver" | b"Runtime" | b"runtime" => {
                Category::Call
            }
            b"cpu_op" | b"Operator" | b"operator" => Category::Op,
            b"user_annotation" => Category::CpuAnnotation,
            b"gpu_user_annotation" => Category::GpuAnnotation,
            _ => Category::Other,
        }
    }
}

/// The raw fields of an event that matters.
#[derive(Clone, Copy, Debug)]
pub(super) struct RawEvent<'a> {
    pub(super) category: Category,
    /// Inside of the quotes, escapes unresolved.
    pub(super) name: &'a [u8],
    pub(super) pid: &'a [u8],
    pub(super) tid: &'a [u8],
    pub(super) ts: &'a [u8],
    pub(super) dur: &'a [u8],
    pub(super) args: &'a [u8],
}

impl<'a> RawEvent<'a> {
    /// Reads the members of an event up to the point where it is clear that it does not matter. `None` for events of
    /// other categories and for those that are no complete event (`ph` other than `X`).
    pub(super) fn parse(text: &'a [u8]) -> Option<Self> {
        let mut event =
            RawEvent { category: Category::Other, name: b"", pid: b"", tid: b"", ts: b"", dur: b"", args: b"" };
        let mut complete = false;
        for (key, value) in Members::of(text) {
            match key {
                b"ph" => {
                    if value != b"\"X\"" {
                        return None;
                    }
                    complete = true;
                }
                b"cat" => {
                    event.category = Category::of(unquoted(value));
                    if event.category == Category::Other {
                        return None;
                    }
                }
                b"name" => event.name = unquoted(value),
                b"pid" => event.pid = unquoted(value),
                b"tid" => event.tid = unquoted(value),
                b"ts" => event.ts = value,
                b"dur" => event.dur = value,
                b"args" => event.args = value,
                _ => {}
            }
        }
        (complete && event.category != Category::Other).then_some(event)
    }
}

/// The arguments of a kernel, copy, call or annotation, whichever of them are there.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RawArgs<'a> {
    pub(super) external_id: Option<NonZeroU64>,
    pub(super) correlation: Option<NonZeroU64>,
    pub(super) device: Option<u64>,
    pub(super) stream: Option<u64>,
    pub(super) kind: DispatchKind,
    pub(super) geometry: Geometry,
    pub(super) bytes: u64,
    /// Kernel name in a launch, escapes unresolved.
    pub(super) kernel: &'a [u8],
    pub(super) graph: Option<u64>,
    pub(super) graph_node: u64,
    /// Operator arguments, raw lists.
    pub(super) dims: &'a [u8],
    pub(super) types: &'a [u8],
    pub(super) strides: &'a [u8],
    pub(super) concrete: &'a [u8],
}

impl<'a> RawArgs<'a> {
    pub(super) fn parse(text: &'a [u8]) -> Self {
        let mut args = RawArgs::default();
        let nonzero = |value| number::id(value).and_then(NonZeroU64::new);
        for (key, value) in Members::of(text) {
            match key {
                b"External id" | b"external id" | b"External Id" => args.external_id = nonzero(value),
                b"correlation" => args.correlation = nonzero(value),
                b"device" => args.device = number::id(value),
                b"stream" => args.stream = number::id(value),
                b"kind" => args.kind = dispatch_kind(unquoted(value)),
                b"grid" | b"grid dim" => args.geometry.grid = number::sizes3(value),
                b"block" | b"block dim" => args.geometry.block = number::sizes3(value),
                b"shared memory" | b"shared size" => {
                    args.geometry.shared_bytes = number::id(value).and_then(|bytes| bytes.try_into().ok()).unwrap_or(0);
                }
                b"bytes" => args.bytes = number::id(value).unwrap_or(0),
                b"kernel" | b"Kernel" => args.kernel = unquoted(value),
                // 0 is what kernels outside of graphs get.
                b"graph id" => args.graph = number::id(value).filter(|graph| *graph != 0),
                b"graph node id" => args.graph_node = number::id(value).unwrap_or(0),
                b"Input Dims" | b"Input dims" => args.dims = value,
                b"Input type" | b"Input Type" | b"Input types" => args.types = value,
                b"Input Strides" | b"Input strides" => args.strides = value,
                b"Concrete Inputs" => args.concrete = value,
                _ => {}
            }
        }
        args
    }
}

fn dispatch_kind(word: &[u8]) -> DispatchKind {
    match word {
        b"Dispatch Kernel" => DispatchKind::Kernel,
        b"Dispatch Task" => DispatchKind::Task,
        _ => DispatchKind::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_come_in_any_order() {
        let text =
            br#"{"args": {"cat": "x", "stream": 18446744073709551615}, "dur": 2.5, "ts": 1, "tid": "T a", "pid": 7,
            "name": "k \"q\"", "cat": "kernel", "ph": "X"}"#;
        let event = RawEvent::parse(text).unwrap();
        assert_eq!((event.category, event.name), (Category::Kernel, &br#"k \"q\""#[..]));
        assert_eq!((event.pid, event.tid, event.ts, event.dur), (&b"7"[..], &b"T a"[..], &b"1"[..], &b"2.5"[..]));
        assert_eq!(RawArgs::parse(event.args).stream, Some(u64::MAX));
    }

    #[test]
    fn what_does_not_matter_is_no_event() {
        for text in [
            r#"{"ph":"X","cat":"python_function","name":"f","ts":1}"#,
            r#"{"ph":"s","cat":"kernel","name":"f","ts":1}"#,
            r#"{"cat":"kernel","name":"f","ts":1}"#,
            r#"{"ph":"X","name":"f"}"#,
            r#"{}"#,
            r#"{"ph""#,
        ] {
            assert!(RawEvent::parse(text.as_bytes()).is_none(), "{text}");
        }
    }

    #[test]
    fn both_spellings_of_a_launch() {
        let new =
            RawArgs::parse(br#"{"kernel":"k","grid":[2,1,1],"block":[64,1,1],"shared memory":16384,"correlation":9}"#);
        let old = RawArgs::parse(
            br#"{"Kernel":"k","grid dim":"[2, 1, 1]","block dim":[64,1,1],"shared size":16384,"stream":"0x0"}"#,
        );
        assert_eq!((new.kernel, new.geometry), (old.kernel, old.geometry));
        assert_eq!(new.geometry, Geometry { grid: Some([2, 1, 1]), block: Some([64, 1, 1]), shared_bytes: 16384 });
        assert_eq!((new.correlation.map(NonZeroU64::get), old.correlation, old.stream), (Some(9), None, Some(0)));
    }
}
