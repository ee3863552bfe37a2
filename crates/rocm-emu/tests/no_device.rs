//! A machine without a GPU: what each function says then (seen of HIP 7.2.4).
#![allow(unsafe_code, clippy::unwrap_used, clippy::panic, clippy::macro_metavars_in_unsafe)]

mod support;

use kbench_rocm_emu::{Config, configure};
use support::*;

#[test]
fn everything_that_needs_a_device_gives_100_and_leaves_outputs_alone() {
    configure(Config { devices: Vec::new(), ..Config::default() }).unwrap();
    let untouched = 0x55 as Handle;
    let (mut pointer, mut number, mut size) = (untouched, 77, 88_usize);
    let (mut free, mut properties) = (99_usize, [0x66_u8; 1472]);
    let mut count = 5;
    assert_eq!(code!(hipGetDeviceCount(&mut count)), 100);
    assert_eq!(count, 0);
    let codes = [
        code!(hipInit(0)),
        code!(hipMalloc(&mut pointer, 64)),
        code!(hipSetDevice(0)),
        code!(hipDeviceSynchronize()),
        code!(hipStreamCreate(&mut pointer)),
        code!(hipEventCreate(&mut pointer)),
        code!(hipModuleLoadData(&mut pointer, b"junk".as_ptr().cast())),
        code!(hipDeviceGetAttribute(&mut number, 63, 0)),
        code!(hipMemGetInfo(&mut size, &mut free)),
        code!(hipGetDevicePropertiesR0600(properties.as_mut_ptr().cast(), 0)),
    ];
    assert_eq!(codes, [100; 10]);
    assert_eq!((pointer, number, size, free, properties), (untouched, 77, 88, 99, [0x66; 1472]));
    ok!(hipDriverGetVersion(&mut number));
    assert_eq!(number, 70_253_211);
    ok!(hipRuntimeGetVersion(&mut number));
    assert_eq!((hipGetLastError(), hipGetLastError()), (100, 0));
    assert!(configure(Config::default()).is_err(), "in use");
}
