//! Whole trees: what is read from one like that of an MI300X machine, from an empty one, and from ones full of junk.
#![allow(clippy::unwrap_used)]

mod common;

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use common::Tree;
use kbench_system::{
    Access, Card, Container, DpmClocks, Environment, Permissions, System, Topology, compilers, installed_libraries,
};
use proptest::prelude::*;

#[test]
fn the_topology_of_an_mi300x_is_read() {
    let topology = Topology::read(&Tree::mi300x().root());
    assert_eq!(topology.nodes.len(), 2);
    let cpu = &topology.nodes[0];
    assert_eq!(
        (cpu.gpu_id, cpu.cpu_cores, cpu.arch.as_deref(), cpu.pci, cpu.unique_id),
        (None, Some(96), None, None, None)
    );
    let gpu = topology.gpus().next().unwrap();
    assert_eq!((gpu.id, gpu.gpu_id, gpu.hidden), (1, Some(51054), false));
    assert_eq!(gpu.arch.as_deref(), Some("gfx942"));
    assert_eq!(gpu.compute_units(), Some(304));
    assert_eq!(gpu.xccs, Some(8));
    assert_eq!(gpu.pci.unwrap().to_string(), "0000:c3:00.0");
    assert_eq!(gpu.unique_id, Some(0x1122_3344_5566_7788));
    assert_eq!(gpu.render_minor, Some(128));
    assert_eq!(gpu.memory_bytes(), Some(206_141_652_992));
    assert_eq!(gpu.memory[0].max_clock_mhz, Some(1300));
    let caches: Vec<_> = gpu.caches.iter().map(|cache| (cache.level, cache.size_kib, cache.count)).collect();
    assert_eq!(caches, [(1, 32, 1), (2, 4096, 3)]);
}

#[test]
fn a_gpu_that_a_container_was_not_given_is_hidden() {
    let tree = Tree::mi300x();
    fs::remove_file(tree.path().join("sys/class/kfd/kfd/topology/nodes/1/properties")).unwrap();
    let topology = Topology::read(&tree.root());
    assert!(topology.nodes[1].hidden);
    assert_eq!(topology.nodes[1].arch, None);
}

#[test]
fn an_mi300x_card_is_read_and_other_vendors_are_not() {
    let cards = Card::all(&Tree::mi300x().root());
    assert_eq!(cards.len(), 1);
    let card = &cards[0];
    assert_eq!((card.number, card.pci.to_string().as_str()), (1, "0000:c3:00.0"));
    assert_eq!((card.device_id, card.revision), (Some(0x74a1), Some(0)));
    assert_eq!(card.product_name.as_deref(), Some("AMD Instinct MI300X OAM"));
    assert_eq!(card.unique_id, Some(0x1122_3344_5566_7788), "the same as KFD's");
    assert_eq!((card.numa_node, card.render_minor), (Some(1), Some(128)));
    assert_eq!((card.link.speed_gts, card.link.width), (Some(32.0), Some(16)));
    assert_eq!((card.compute_partition.as_deref(), card.memory_partition.as_deref()), (Some("SPX"), Some("NPS1")));
    assert_eq!(card.power_cap_w, Some(750.0));
    assert_eq!(card.engine_clock, Some(DpmClocks { current_mhz: Some(132), min_mhz: 132, max_mhz: 2100 }));
    assert_eq!(card.memory_clock.unwrap().max_mhz, 1300);
    assert_eq!(card.metrics, None, "there is no such file");
}

#[test]
fn what_is_missing_is_absent_and_never_zero() {
    let tree = Tree::empty();
    tree.put("sys/class/drm/card0/device/vendor", "0x1002\n");
    tree.put("sys/class/drm/card0/device/uevent", "PCI_SLOT_NAME=0000:c3:00.0\n");
    tree.put("sys/class/drm/card0/device/numa_node", "-1\n");
    tree.put("sys/class/drm/card0/device/unique_id", "ffffffffffffffff\n");
    let cards = Card::all(&tree.root());
    let json = serde_json::to_value(&cards[0]).unwrap();
    let present: Vec<_> =
        json.as_object().unwrap().iter().filter(|(_, value)| !value.is_null() && !value.is_object()).collect();
    assert_eq!(present.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["number", "pci"]);
    assert!(json["link"].as_object().unwrap().values().all(serde_json::Value::is_null));
}

#[test]
fn an_empty_machine_is_read_without_an_error() {
    let tree = Tree::empty();
    let system = System::read(&tree.root(), Environment::default(), &|_| None);
    assert!(
        system.topology.nodes.is_empty()
            && system.cards.is_empty()
            && system.libraries.is_empty()
            && system.compilers.is_empty()
    );
    assert_eq!(system.permissions.kfd.access, Access::Missing);
    assert_eq!(system.permissions.kfd.path.to_str(), Some("/dev/kfd"), "as the system names it, not the tree");
    assert!(!system.container.likely());
    assert_eq!(system.software, kbench_system::Software::default());
}

#[test]
fn this_machine_is_read_and_can_be_serialised() {
    let system = System::current();
    assert!(system.software.kernel.is_some());
    assert!(system.permissions.uid.is_some());
    let text = serde_json::to_string(&system).unwrap();
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(value["cards"].as_array().unwrap().len(), system.cards.len());
}

#[test]
fn documents_are_read_again_as_they_were() {
    let tree = Tree::mi300x();
    let cards = Card::all(&tree.root());
    let again: Vec<Card> = serde_json::from_str(&serde_json::to_string(&cards).unwrap()).unwrap();
    assert_eq!(again, cards);
    let topology = Topology::read(&tree.root());
    let again: Topology = serde_json::from_str(&serde_json::to_string(&topology).unwrap()).unwrap();
    assert_eq!(again, topology);
}

#[test]
fn permissions_say_which_nodes_open_and_which_groups_there_are() {
    let tree = Tree::empty();
    tree.put("dev/kfd", "");
    tree.put("dev/dri/renderD129", "");
    fs::create_dir_all(tree.path().join("dev/dri/renderD128")).unwrap();
    tree.put("dev/dri/card0", "");
    tree.put("etc/group", "video:x:44:\nrender:x:109:user\n");
    tree.put(
        "proc/self/status",
        "Uid:\t1000\t1000\t1000\t1000\nGid:\t1000\t1000\t1000\t1000\nGroups:\t109 1000 \nCapEff:\t0000000000200000\n",
    );
    tree.put("proc/sys/kernel/perf_event_paranoid", "4\n");
    let permissions = Permissions::read(&tree.root());
    assert_eq!(permissions.kfd.access, Access::ReadWrite);
    let nodes: Vec<_> = permissions.render_nodes.iter().map(|node| node.path.to_str().unwrap()).collect();
    assert_eq!(nodes, ["/dev/dri/renderD128", "/dev/dri/renderD129"]);
    assert!(matches!(permissions.render_nodes[0].access, Access::Failed(_)), "a directory is no device");
    let groups: Vec<_> =
        permissions.groups.iter().map(|group| (group.name.as_str(), group.gid, group.member)).collect();
    assert_eq!(groups, [("render", Some(109), Some(true)), ("video", Some(44), Some(false))]);
    // 0x200000 is bit 21.
    assert_eq!((permissions.capabilities.sys_admin, permissions.capabilities.perfmon), (Some(true), Some(false)));
    assert_eq!((permissions.perf_event_paranoid, permissions.counters_allowed()), (Some(4), Some(true)));
}

#[test]
fn containers_leave_signs() {
    let tree = Tree::empty();
    tree.put(".dockerenv", "");
    tree.put("proc/self/cgroup", "0::/kubepods/besteffort/pod1\n");
    let container =
        Container::read(&tree.root(), &|name| (name == "KUBERNETES_SERVICE_HOST").then(|| OsString::from("10.0.0.1")));
    assert_eq!(container.signs, ["/.dockerenv", "/proc/self/cgroup names kubepods", "$KUBERNETES_SERVICE_HOST is set"]);
}

#[test]
fn compilers_are_found_in_the_order_in_which_builds_take_them() {
    let tree = Tree::empty();
    let files = [
        "opt/rocm/llvm/bin/amdclang++",
        "opt/rocm/llvm/bin/clang",
        "bin/clang-19",
        "bin/clang-21",
        "usr/bin/hipcc",
        "home/zig",
    ];
    for file in files {
        tree.put(file, "");
        fs::set_permissions(tree.path().join(file), fs::Permissions::from_mode(0o755)).unwrap();
    }
    tree.put("bin/clang", "not executable");
    let variables = |name: &str| match name {
        "PATH" => Some(OsString::from("/bin:/usr/bin")),
        "KBENCH_CLANG" => Some(OsString::from("zig:/home/zig")),
        _ => None,
    };
    let found: Vec<_> =
        compilers(&tree.root(), &variables).into_iter().map(|c| (c.found_by, c.path.display().to_string())).collect();
    let expected = [
        ("$KBENCH_CLANG", "/home/zig"),
        ("/opt/rocm", "/opt/rocm/llvm/bin/amdclang++"),
        ("/opt/rocm", "/opt/rocm/llvm/bin/clang"),
        ("$PATH", "/usr/bin/hipcc"),
        ("$PATH", "/bin/clang-21"),
        ("$PATH", "/bin/clang-19"),
    ];
    assert_eq!(found, expected.map(|(by, path)| (by.to_owned(), path.to_owned())));
}

#[test]
fn installed_libraries_are_files_and_not_links_to_them() {
    let tree = Tree::empty();
    let lib = "opt/rocm-7.2.4/lib";
    for file in ["libamdhip64.so.7.2.70204", "libamdhip64.so.7.bak", "libhiprtc-builtins.so.7"] {
        tree.put(&format!("{lib}/{file}"), "");
    }
    std::os::unix::fs::symlink("libamdhip64.so.7.2.70204", tree.path().join(lib).join("libamdhip64.so.7")).unwrap();
    std::os::unix::fs::symlink("rocm-7.2.4", tree.path().join("opt/rocm")).unwrap();
    tree.put("venv/lib/libamdhip64.so", "");
    let variables = |name: &str| match name {
        "ROCM_PATH" => Some(OsString::from("/opt/rocm")),
        "LD_LIBRARY_PATH" => Some(OsString::from("/venv/lib::relative")),
        _ => None,
    };
    // A temporary directory may itself be reached through links; the tree's own name is what files are compared with.
    let root = kbench_system::Root::at(fs::canonicalize(tree.path()).unwrap());
    let libraries = installed_libraries(&root, &variables);
    let paths = |library: &str| {
        let found = libraries.iter().find(|known| known.library == library).unwrap();
        found.paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>()
    };
    assert_eq!(paths("libamdhip64.so"), ["/opt/rocm-7.2.4/lib/libamdhip64.so.7.2.70204", "/venv/lib/libamdhip64.so"]);
    assert_eq!(paths("libhiprtc.so"), [""; 0]);
}

/// Every file that is read anywhere, to be filled with junk.
const FILES: [&str; 22] = [
    "sys/class/kfd/kfd/topology/nodes/1/properties",
    "sys/class/kfd/kfd/topology/nodes/1/gpu_id",
    "sys/class/kfd/kfd/topology/nodes/1/caches/0/properties",
    "sys/class/kfd/kfd/topology/nodes/1/mem_banks/0/properties",
    "sys/class/drm/card1/device/unique_id",
    "sys/class/drm/card1/device/revision",
    "sys/class/drm/card1/device/numa_node",
    "sys/class/drm/card1/device/current_link_speed",
    "sys/class/drm/card1/device/current_link_width",
    "sys/class/drm/card1/device/mem_info_vram_total",
    "sys/class/drm/card1/device/pp_dpm_sclk",
    "sys/class/drm/card1/device/pp_dpm_mclk",
    "sys/class/drm/card1/device/gpu_busy_percent",
    "sys/class/drm/card1/device/gpu_metrics",
    "sys/class/drm/card1/device/hwmon/hwmon7/power1_cap",
    "sys/class/drm/card1/device/hwmon/hwmon7/power1_input",
    "sys/class/drm/card1/device/hwmon/hwmon7/temp1_input",
    "etc/group",
    "proc/self/status",
    "proc/self/maps",
    "proc/self/cgroup",
    "proc/sys/kernel/perf_event_paranoid",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn junk_in_any_file_is_no_panic_and_no_nonsense(
        junk in proptest::collection::vec((0..FILES.len(), proptest::collection::vec(any::<u8>(), 0..200)), 1..8)
    ) {
        let tree = Tree::mi300x();
        for (file, bytes) in &junk {
            tree.put(FILES[*file], bytes);
        }
        let system = System::read(&tree.root(), Environment::default(), &|_| None);
        prop_assert!(serde_json::to_string(&system).is_ok());
        prop_assert!(system.cards.len() <= 1);
        if let Ok(mut telemetry) = kbench_system::Telemetry::open(&tree.root(), "0000:c3:00.0".parse().unwrap()) {
            let reading = telemetry.read();
            prop_assert!(reading.busy_percent.is_none_or(|busy| busy <= 100));
        }
    }
}
