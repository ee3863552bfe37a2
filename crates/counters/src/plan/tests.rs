use super::*;
use crate::arch::Arch;
use crate::set::CounterSet;
use std::collections::BTreeSet;

fn catalog(arch: Arch) -> Catalog {
    Catalog::new(arch).unwrap()
}

fn offline(arch: Arch, names: &[&str]) -> Plan {
    Plan::offline(&catalog(arch), names.iter().copied()).unwrap()
}

/// The request that issue 7 names: 3 + 2 of L2's counters do not fit its 4.
#[test]
fn fetch_and_write_size_take_two_passes_on_gfx942_and_one_on_gfx90a() {
    let names = ["FETCH_SIZE", "WRITE_SIZE", "SQ_INSTS_VALU_MFMA_MOPS_BF16", "SQ_LDS_BANK_CONFLICT"];
    let plan = offline(Arch::Gfx942, &names);
    assert_eq!(plan.passes.len(), 2);
    for pass in &plan.passes {
        assert_eq!(pass.counters[..2], GUARDS.map(String::from));
    }
    assert!(plan.placements.values().all(|place| matches!(place, Placement::Pass(_))), "{plan:?}");
    assert_eq!(offline(Arch::Gfx90a, &names).passes.len(), 1);
}

/// What the real SDK said on a fake MI300X (facts/real-rocm.md section 5): 8 SQ and 4 TCC fit, 9 and 5 do not.
#[test]
fn passes_hold_what_the_real_sdk_accepts() {
    let p1 = [
        "GRBM_GUI_ACTIVE",
        "SQ_WAVES",
        "SQ_BUSY_CYCLES",
        "SQ_WAVE_CYCLES",
        "SQ_WAIT_INST_ANY",
        "SQ_INSTS_VALU",
        "SQ_INSTS_SALU",
        "SQ_VALU_MFMA_BUSY_CYCLES",
        "SQ_INSTS_LDS",
        "TCC_EA0_RDREQ",
        "TCC_EA0_RDREQ_32B",
        "TCC_BUBBLE",
        "TCC_EA0_RDREQ_DRAM",
    ];
    let plan = offline(Arch::Gfx942, &p1);
    assert_eq!((plan.passes.len(), plan.passes[0].counters.len()), (1, 13));
    assert_eq!(
        plan.passes[0].load,
        BTreeMap::from([("GRBM".to_owned(), 1), ("SQ".to_owned(), 8), ("TCC".to_owned(), 4)])
    );
    let more: Vec<&str> = p1.into_iter().chain(["SQ_INSTS_SMEM"]).collect();
    assert_eq!(offline(Arch::Gfx942, &more).passes.len(), 2);
}

#[test]
fn a_ratio_keeps_its_operands_together() {
    for arch in Arch::ALL {
        let catalog = catalog(arch);
        let names = CounterSet::named("all", &catalog).unwrap().names;
        let plan = Plan::offline(&catalog, names.iter().map(String::as_str)).unwrap();
        for (name, placement) in &plan.placements {
            let operands = catalog.operands(name).unwrap();
            match placement {
                Placement::Pass(pass) => {
                    assert!(
                        operands.iter().all(|operand| plan.passes[*pass].counters.contains(operand)),
                        "{arch} {name}"
                    );
                }
                Placement::Spread(_) => assert_eq!(name, "fabric_gbps", "{arch}"),
                Placement::Refused(why) => panic!("{arch} {name}: {why}"),
            }
        }
        for pass in &plan.passes {
            assert!(GUARDS.iter().all(|guard| pass.counters.iter().any(|counter| counter == guard)));
            for (block, load) in &pass.load {
                assert!(*load <= catalog.limit(block), "{arch} {block} {load}");
            }
        }
    }
}

#[test]
fn what_no_pass_holds_is_spread_and_not_refused() {
    let plan = offline(Arch::Gfx942, &["fabric_gbps"]);
    assert_eq!(plan.placements["fabric_gbps"], Placement::Spread(vec![0, 1]));
    assert_eq!(plan.passes.len(), 2);
    assert_eq!(plan.launches(5), 10);
}

#[test]
fn guards_alone_are_a_pass_and_nothing_is_none() {
    let plan = offline(Arch::Gfx942, &["clock_mhz"]);
    assert_eq!(plan.passes.len(), 1);
    assert_eq!(plan.placements["clock_mhz"], Placement::Pass(0));
    assert!(offline(Arch::Gfx942, &[]).passes.is_empty());
}

/// A device with other limits than the table's.
struct Device {
    catalog: Catalog,
    limits: BTreeMap<&'static str, usize>,
    refuses: BTreeSet<&'static str>,
    asked: usize,
}

impl Device {
    fn new(limits: &[(&'static str, usize)], refuses: &[&'static str]) -> Self {
        let limits = limits.iter().copied().collect();
        Self { catalog: catalog(Arch::Gfx942), limits, refuses: refuses.iter().copied().collect(), asked: 0 }
    }
}

impl Oracle for Device {
    type Error = String;

    fn fits(&mut self, counters: &[&str]) -> Result<bool, String> {
        self.asked += 1;
        if counters.contains(&"SQ_IFETCH") && self.refuses.contains("everything") {
            return Err("status 1".to_owned());
        }
        let events: BTreeSet<Event> = counters.iter().flat_map(|counter| self.catalog.events(counter)).collect();
        let fits = |block: &str| {
            let limit = self.limits.get(block).copied().unwrap_or(usize::from(self.catalog.limit(block)));
            events.iter().filter(|event| event.block == block).count() <= limit
        };
        Ok(counters.iter().all(|counter| !self.refuses.contains(counter))
            && events.iter().all(|event| fits(&event.block)))
    }
}

fn confirmed(device: &mut Device, names: &[&str]) -> Plan {
    Plan::confirmed(&catalog(Arch::Gfx942), names.iter().copied(), device).unwrap()
}

#[test]
fn a_device_that_agrees_leaves_the_plan_as_it_is() {
    let names = ["FETCH_SIZE", "WRITE_SIZE", "l2_hit_rate", "mfma_flops", "lds_conflict_share"];
    let mut device = Device::new(&[], &[]);
    let plan = confirmed(&mut device, &names);
    let offline = offline(Arch::Gfx942, &names);
    assert!(plan.confirmed && plan.passes.len() == offline.passes.len());
    assert!(plan.placements.values().all(|place| matches!(place, Placement::Pass(_))));
}

#[test]
fn a_stricter_device_gets_more_passes_and_a_wider_one_fewer() {
    let names =
        ["SQ_INSTS_VALU", "SQ_INSTS_SALU", "SQ_INSTS_LDS", "SQ_INSTS_SMEM", "l2_hit_rate", "FETCH_SIZE", "WRITE_SIZE"];
    let strict = confirmed(&mut Device::new(&[("SQ", 2)], &[]), &names);
    assert_eq!(strict.passes.len(), 4);
    assert!(strict.passes.iter().all(|pass| pass.load["SQ"] <= 2 && pass.guarded));
    assert!(strict.placements.values().all(|place| matches!(place, Placement::Pass(_))));
    let wide = confirmed(&mut Device::new(&[("TCC", 16)], &[]), &names);
    assert_eq!(wide.passes.len(), 1);
}

#[test]
fn a_group_that_the_device_cannot_hold_is_spread() {
    let plan = confirmed(&mut Device::new(&[("TCC", 1)], &[]), &["l2_hit_rate"]);
    assert_eq!(plan.placements["l2_hit_rate"], Placement::Spread(vec![0, 1]));
    // One SQ counter at a time leaves no room for the guard.
    let plan = confirmed(&mut Device::new(&[("SQ", 1)], &[]), &["SQ_INSTS_VALU"]);
    assert_eq!((plan.passes.len(), plan.passes[0].guarded), (1, false));
}

#[test]
fn a_counter_that_is_refused_costs_only_itself() {
    let plan = confirmed(&mut Device::new(&[], &["TCC_BUBBLE"]), &["FETCH_SIZE", "SQ_INSTS_LDS", "l2_hit_rate"]);
    assert!(matches!(&plan.placements["FETCH_SIZE"], Placement::Refused(why) if why.contains("TCC_BUBBLE")));
    assert!(matches!(plan.placements["l2_hit_rate"], Placement::Pass(_)));
    assert!(matches!(plan.placements["SQ_INSTS_LDS"], Placement::Pass(_)));
}

#[test]
fn a_failing_check_is_an_error_and_not_a_refusal() {
    let mut device = Device::new(&[], &["everything"]);
    let catalog = catalog(Arch::Gfx942);
    let error = Plan::confirmed(&catalog, ["SQ_IFETCH"], &mut device).unwrap_err();
    assert!(error.to_string().contains("status 1"));
}
