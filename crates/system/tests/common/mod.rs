//! A tree like that of a machine with MI300X GPUs, in a temporary directory.
#![allow(dead_code)]

use std::fs;
use std::path::Path;

use kbench_system::Root;
use tempfile::TempDir;

/// A directory that stands for `/`.
pub(crate) struct Tree(TempDir);

impl Tree {
    pub(crate) fn empty() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// One CPU node, one GPU, its card, and a second card of another vendor.
    pub(crate) fn mi300x() -> Self {
        let tree = Self::empty();
        let node = "sys/class/kfd/kfd/topology/nodes";
        tree.put(&format!("{node}/0/gpu_id"), "0\n");
        tree.put(&format!("{node}/0/name"), "\n");
        tree.put(
            &format!("{node}/0/properties"),
            "cpu_cores_count 96\nsimd_count 0\nlocation_id 0\nunique_id 0\ngfx_target_version 0\n",
        );
        tree.put(
            &format!("{node}/0/mem_banks/0/properties"),
            "heap_type 0\nsize_in_bytes 1622514630656\nwidth 64\nmem_clk_max 4800\n",
        );
        tree.put(&format!("{node}/1/gpu_id"), "51054\n");
        tree.put(&format!("{node}/1/name"), "ip discovery\n");
        tree.put(
            &format!("{node}/1/properties"),
            "cpu_cores_count 0\nsimd_count 1216\nmax_waves_per_simd 8\nlds_size_in_kb 64\nwave_front_size 64\nsimd_per_cu 4\n\
             gfx_target_version 90402\nlocation_id 49920\ndomain 0\ndrm_render_minor 128\nmax_engine_clk_fcompute 2100\n\
             unique_id 1234605616436508552\nnum_xcc 8\n",
        );
        for xcc in 0..3 {
            tree.put(&format!("{node}/1/caches/{xcc}/properties"), "level 2\nsize 4096\ncache_line_size 128\ntype 9\n");
        }
        tree.put(&format!("{node}/1/caches/3/properties"), "level 1\nsize 32\ncache_line_size 128\ntype 9\n");
        tree.put(
            &format!("{node}/1/mem_banks/0/properties"),
            "heap_type 1\nsize_in_bytes 206141652992\nwidth 8192\nmem_clk_max 1300\n",
        );

        let card = "sys/class/drm/card1/device";
        for (file, content) in [
            ("uevent", "DRIVER=amdgpu\nPCI_CLASS=120000\nPCI_SLOT_NAME=0000:c3:00.0\n"),
            ("vendor", "0x1002\n"),
            ("device", "0x74a1\n"),
            ("revision", "0x00\n"),
            ("product_name", "AMD Instinct MI300X OAM\n"),
            ("unique_id", "1122334455667788\n"),
            ("vbios_version", "113-M3000100-102\n"),
            ("numa_node", "1\n"),
            ("current_link_speed", "32.0 GT/s PCIe\n"),
            ("current_link_width", "16\n"),
            ("max_link_speed", "32.0 GT/s PCIe\n"),
            ("max_link_width", "16\n"),
            ("mem_info_vram_total", "206141652992\n"),
            ("mem_info_vram_used", "300000000\n"),
            ("current_compute_partition", "SPX\n"),
            ("current_memory_partition", "NPS1\n"),
            ("power_dpm_force_performance_level", "auto\n"),
            ("gpu_busy_percent", "7\n"),
            ("pp_dpm_sclk", "0: 132Mhz *\n1: 2100Mhz\n"),
            ("pp_dpm_mclk", "0: 900Mhz *\n1: 1100Mhz\n2: 1200Mhz\n3: 1300Mhz\n"),
            ("hwmon/hwmon7/power1_input", "137000000\n"),
            ("hwmon/hwmon7/power1_cap", "750000000\n"),
            ("hwmon/hwmon7/temp1_label", "junction\n"),
            ("hwmon/hwmon7/temp1_input", "41500\n"),
            ("hwmon/hwmon7/temp2_label", "mem\n"),
            ("hwmon/hwmon7/temp2_input", "38000\n"),
        ] {
            tree.put(&format!("{card}/{file}"), content);
        }
        fs::create_dir_all(tree.0.path().join(card).join("drm/renderD128")).unwrap();
        tree.put("sys/class/drm/card0/device/vendor", "0x1a03\n");
        tree.put("sys/class/drm/card0/device/uevent", "DRIVER=ast\nPCI_SLOT_NAME=0000:03:00.0\n");
        tree.put("sys/class/drm/card0-VGA-1/status", "disconnected\n");
        tree.put("sys/class/drm/version", "drm 1.1.0 20060810\n");
        tree
    }

    pub(crate) fn put(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    /// Changes a file that is open elsewhere, as sysfs does: the file stays the same one.
    pub(crate) fn change(&self, path: &str, content: impl AsRef<[u8]>) {
        self.put(path, content);
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn root(&self) -> Root {
        Root::at(self.0.path())
    }
}

/// A `gpu_metrics` table of revision 1.6 with an engine clock of each XCD, power, hot spot, and the six residency counters.
pub(crate) fn metrics_1_6(clocks: [u16; 8], power: u16, hotspot: u16, residency: [u32; 6]) -> Vec<u8> {
    let mut table = vec![0xff_u8; 1664];
    table[..4].copy_from_slice(&[0x80, 0x06, 1, 6]);
    table[4..6].copy_from_slice(&hotspot.to_le_bytes());
    table[10..12].copy_from_slice(&power.to_le_bytes());
    for (field, value) in residency.into_iter().enumerate() {
        table[32 + 4 * field..][..4].copy_from_slice(&value.to_le_bytes());
    }
    for (xcd, clock) in clocks.into_iter().enumerate() {
        table[264 + 2 * xcd..][..2].copy_from_slice(&clock.to_le_bytes());
    }
    table
}
