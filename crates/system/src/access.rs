//! What this process may do: device nodes, groups, capabilities, performance events.

use std::fs::OpenOptions;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::root::{Root, number, numbered, text};

/// Bits of `CapEff` (linux/capability.h).
const CAP_SYS_ADMIN: u32 = 21;
const CAP_PERFMON: u32 = 38;

/// Everything that decides whether GPUs and their counters can be used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Permissions {
    /// `/dev/kfd`.
    pub kfd: DeviceNode,
    /// `/dev/dri/renderD*`.
    pub render_nodes: Vec<DeviceNode>,
    /// Effective user number; 0 is root.
    pub uid: Option<u32>,
    /// The groups `render` and `video`.
    pub groups: Vec<Group>,
    /// Capabilities.
    pub capabilities: Capabilities,
    /// `/proc/sys/kernel/perf_event_paranoid`: counters of a device need 2 or less, or `CAP_PERFMON`.
    pub perf_event_paranoid: Option<i32>,
}

/// A device node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceNode {
    /// Its path.
    pub path: PathBuf,
    /// Whether it can be opened.
    pub access: Access,
    /// The group that owns it: in containers its number may have another name, or none.
    pub owner_gid: Option<u32>,
    /// Whether this process is in that group.
    pub in_owner_group: Option<bool>,
}

/// Whether a file can be opened for reading and writing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "state", content = "reason")]
pub enum Access {
    /// It is not there.
    Missing,
    /// It is there, but permissions or a container's device rules forbid it.
    Denied,
    /// Opening failed for another reason.
    Failed(String),
    /// It can be opened.
    ReadWrite,
}

/// A group by name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    /// Its name.
    pub name: String,
    /// Its number; `None` when there is no such group here.
    pub gid: Option<u32>,
    /// Whether this process is in it.
    pub member: Option<bool>,
}

/// Capabilities of this process; `None` when procfs does not say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Capabilities {
    /// `CAP_PERFMON`: counters of other processes and devices.
    pub perfmon: Option<bool>,
    /// `CAP_SYS_ADMIN`, which includes it.
    pub sys_admin: Option<bool>,
}

impl Permissions {
    /// Reads them. Device nodes are opened and closed again at once: only that tells a container's device rules.
    #[must_use]
    pub fn read(root: &Root) -> Self {
        let status = Status::parse(&text(&root.path("/proc/self/status")).unwrap_or_default());
        let group_file = text(&root.path("/etc/group")).unwrap_or_default();
        let groups = ["render", "video"].map(|name| {
            let gid = gid_of(&group_file, name);
            Group { name: name.to_owned(), gid, member: gid.and_then(|gid| status.in_group(gid)) }
        });
        let node = |path: PathBuf| DeviceNode::read(root, &path, &status);
        let render_nodes =
            numbered(&root.path("/dev/dri"), "renderD").into_iter().map(|(_, path)| node(path)).collect();
        Self {
            kfd: node(root.path("/dev/kfd")),
            render_nodes,
            uid: status.uid,
            groups: groups.into(),
            capabilities: Capabilities {
                perfmon: status.capable(CAP_PERFMON),
                sys_admin: status.capable(CAP_SYS_ADMIN),
            },
            perf_event_paranoid: number(&root.path("/proc/sys/kernel/perf_event_paranoid")),
        }
    }

    /// Whether device-wide counters are allowed; `None` when that cannot be told.
    #[must_use]
    pub fn counters_allowed(&self) -> Option<bool> {
        let Capabilities { perfmon, sys_admin } = self.capabilities;
        if perfmon == Some(true) || sys_admin == Some(true) {
            return Some(true);
        }
        self.perf_event_paranoid.map(|level| level <= 2)
    }
}

impl DeviceNode {
    fn read(root: &Root, path: &Path, status: &Status) -> Self {
        let owner_gid = std::fs::metadata(path).ok().map(|metadata| metadata.gid());
        let access = match OpenOptions::new().read(true).write(true).open(path) {
            Ok(_closed_at_once) => Access::ReadWrite,
            Err(error) => match error.kind() {
                ErrorKind::NotFound => Access::Missing,
                ErrorKind::PermissionDenied => Access::Denied,
                _ => Access::Failed(error.to_string()),
            },
        };
        let in_owner_group = owner_gid.and_then(|gid| status.in_group(gid));
        Self { path: root.name(path), access, owner_gid, in_owner_group }
    }
}

/// What `/proc/self/status` says of the process.
#[derive(Debug, Default, PartialEq, Eq)]
struct Status {
    /// Effective user and group.
    uid: Option<u32>,
    gid: Option<u32>,
    groups: Option<Vec<u32>>,
    effective_capabilities: Option<u64>,
}

impl Status {
    fn parse(status: &str) -> Self {
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        // Real, effective, saved and file system identity, in this order.
        let effective = |name| field(name)?.split_whitespace().nth(1)?.parse().ok();
        Self {
            uid: effective("Uid"),
            gid: effective("Gid"),
            groups: field("Groups")
                .map(|groups| groups.split_whitespace().filter_map(|gid| gid.parse().ok()).collect()),
            effective_capabilities: field("CapEff").and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()),
        }
    }

    fn in_group(&self, gid: u32) -> Option<bool> {
        let groups = self.groups.as_ref()?;
        Some(self.gid == Some(gid) || groups.contains(&gid))
    }

    fn capable(&self, bit: u32) -> Option<bool> {
        self.effective_capabilities.map(|mask| mask >> bit & 1 == 1)
    }
}

/// The number of a group in `/etc/group`.
fn gid_of(group_file: &str, name: &str) -> Option<u32> {
    group_file.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next()? == name).then(|| fields.nth(1)?.parse().ok())?
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_status_of_a_process_is_read_as_the_kernel_writes_it() {
        let status = Status::parse(
            "Name:\tkbench\nUid:\t1000\t1001\t1000\t1000\nGid:\t100\t44\t100\t100\nGroups:\t27 109 \nCapEff:\t0000004000000000\n",
        );
        assert_eq!((status.uid, status.gid), (Some(1001), Some(44)));
        assert_eq!(status.in_group(109), Some(true));
        assert_eq!(status.in_group(44), Some(true), "the effective group counts");
        assert_eq!(status.in_group(100), Some(false));
        // 0x4000000000 is bit 38 alone.
        assert_eq!((status.capable(CAP_PERFMON), status.capable(CAP_SYS_ADMIN)), (Some(true), Some(false)));
        assert_eq!(Status::parse("").capable(CAP_PERFMON), None);
    }

    #[test]
    fn groups_are_found_by_their_whole_name() {
        let file = "root:x:0:\nvideo2:x:7:\nvideo:x:44:a,b\nrender:x:no:\n";
        assert_eq!(gid_of(file, "video"), Some(44));
        assert_eq!(gid_of(file, "render"), None);
        assert_eq!(gid_of(file, "vid"), None);
    }

    #[test]
    fn counters_need_a_capability_or_a_lenient_kernel() {
        let with = |perfmon, level| Permissions {
            kfd: DeviceNode { path: "/dev/kfd".into(), access: Access::Missing, owner_gid: None, in_owner_group: None },
            render_nodes: Vec::new(),
            uid: Some(1000),
            groups: Vec::new(),
            capabilities: Capabilities { perfmon, sys_admin: Some(false) },
            perf_event_paranoid: level,
        };
        assert_eq!(with(Some(true), Some(4)).counters_allowed(), Some(true));
        assert_eq!(with(Some(false), Some(2)).counters_allowed(), Some(true));
        assert_eq!(with(Some(false), Some(3)).counters_allowed(), Some(false));
        assert_eq!(with(Some(false), None).counters_allowed(), None);
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "((Uid|Gid|Groups|CapEff|render)?:?[0-9a-fx:\t ]{0,24}\n){0,6}\\PC{0,20}") {
            let _status = Status::parse(&text);
            let _gid = gid_of(&text, "render");
        }
    }
}
