//! Bundles, compressed bundles and host files: those of clang's tools, and every header version written here.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;
#[path = "common/containers.rs"]
mod write;

use common::{Bench, KERNELS, SMALL, read};
use kbench_code_object::{BundleEntry, CompressionMethod, Content, Error, Feature, load};

const ID: &str = "hipv4-amdgcn-amd-amdhsa--gfx942:sramecc+:xnack-";

#[test]
fn entry_ids() {
    let cases = [
        (ID, "hipv4", "amdgcn-amd-amdhsa", Some("gfx942:sramecc+:xnack-")),
        ("hip-amdgcn-amd-amdhsa-gfx906", "hip", "amdgcn-amd-amdhsa", Some("gfx906")),
        ("hipv4-amdgcn-amd-amdhsa--gfx9-4-generic", "hipv4", "amdgcn-amd-amdhsa", Some("gfx9-4-generic")),
        ("host-x86_64-unknown-linux-gnu-", "host", "x86_64-unknown-linux-gnu", None),
        ("", "", "", None),
    ];
    for (id, kind, triple, target_id) in cases {
        let entry = BundleEntry::parse(id);
        assert_eq!((entry.kind.as_str(), entry.triple.as_str()), (kind, triple), "{id}");
        assert_eq!(entry.target_id.as_deref(), target_id, "{id}");
    }
    assert_eq!(BundleEntry::parse(ID).target().unwrap().xnack, Feature::Off);
}

#[test]
fn a_bare_code_object_is_one_image() {
    let images = load(SMALL).unwrap();
    assert_eq!(images.len(), 1);
    assert!(images[0].entry.is_none());
    assert_eq!(images[0].code_object().unwrap().kernels()[0].name, "add_one");
}

#[test]
fn plain_and_compressed_bundles_of_every_version() {
    let plain = write::bundle(&[("host-x86_64-unknown-linux-gnu-", b""), (ID, SMALL), ("x-spirv64", b"\x03\x02\x23\x07")], 4096);
    let mut files = vec![(plain.clone(), None)];
    for version in [1, 2, 3] {
        for zstd in [false, true] {
            files.push((write::compressed(&plain, version, zstd), Some((version, zstd))));
        }
    }
    for (file, how) in files {
        let bytes = file.len() as u64;
        let images = load(file).unwrap();
        // The empty host entry is left out.
        assert_eq!(images.len(), 2);
        assert_eq!(images[0].entry.as_ref().unwrap().id, ID);
        assert_eq!(&images[0].bytes[..], SMALL);
        assert_eq!(images[1].content, Content::Spirv);
        assert!(images[1].code_object().is_err());
        match (how, images[0].compression) {
            (None, None) => assert_eq!(images[0].file_offset, 4096),
            (Some((version, zstd)), Some(compression)) => {
                assert_eq!(compression.version, version);
                assert_eq!(compression.method == CompressionMethod::Zstd, zstd);
                assert_eq!(compression.uncompressed_bytes, plain.len() as u64);
                assert_eq!(compression.compressed_bytes, bytes);
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn several_bundles_in_a_host_file() {
    let plain = write::bundle(&[(ID, SMALL)], 64);
    let mut fatbin = Vec::new();
    for part in [plain.clone(), write::compressed(&plain, 2, true), write::compressed(&plain, 1, false), plain] {
        fatbin.resize(fatbin.len().next_multiple_of(4096), 0);
        fatbin.extend(part);
    }
    fatbin.resize(fatbin.len() + 1000, 0);
    let images = load(write::host_file(&fatbin)).unwrap();
    assert_eq!(images.len(), 4);
    assert!(images.iter().all(|image| &image.bytes[..] == SMALL));
    // The section's contents begin after the ELF header.
    assert_eq!(images[1].file_offset, 64 + 4096);
}

#[test]
fn errors_say_what_and_where() {
    let plain = write::bundle(&[(ID, SMALL)], 64);
    let mut cut = plain.clone();
    cut.truncate(1000);
    let mut version = write::compressed(&plain, 3, true);
    version[4] = 9;
    let mut claims = write::compressed(&plain, 3, true);
    claims[16..24].copy_from_slice(&(1_u64 << 50).to_le_bytes());
    let mut shorter = write::compressed(&plain, 2, true);
    shorter[12..16].copy_from_slice(&100_u32.to_le_bytes());
    let mut garbage = plain.clone();
    garbage.extend(b"garbage");
    let cases: [(Vec<u8>, &str); 11] = [
        (Vec::new(), "an empty file"),
        (b"kernel void f() {}".to_vec(), "a text file"),
        (b"\x1f\x8b\x08\0\0\0\0\0".to_vec(), "a gzip file"),
        (b"!<arch>\nx".to_vec(), "an archive"),
        (b"BC\xc0\xde1234".to_vec(), "LLVM bitcode"),
        (write::host_file(b""), "machine 62 without a .hip_fatbin section"),
        (cut, "a bundle entry's image needs 2456 bytes"),
        (version, "compressed bundle version 9 (at offset 0x4)"),
        (claims, "claims 1125899906842624 bytes"),
        (shorter, "zstd failed"),
        (garbage, "an offload bundle or zero padding was expected"),
    ];
    for (file, expected) in cases {
        let error = load(file).unwrap_err().to_string();
        assert!(error.contains(expected), "{error:?} does not say {expected:?}");
        assert!(!error.contains('\n'));
    }
}

#[test]
fn bundles_of_the_offload_bundler() {
    let Some(bench) = Bench::with(&["clang-19", "ld.lld-19", "clang-offload-bundler-19"]) else { return };
    let arches = ["gfx90a:xnack-", "gfx942", "gfx1100"];
    let files: Vec<_> = arches.iter().enumerate().map(|(i, arch)| bench.hip(&format!("k{i}"), KERNELS, arch, &[])).collect();
    bench.write("host", "");
    let ids: Vec<String> = arches.iter().map(|arch| format!("hipv4-amdgcn-amd-amdhsa--{arch}")).collect();
    let targets = format!("-targets=host-x86_64-unknown-linux-gnu,{}", ids.join(","));
    let inputs: Vec<String> = files.iter().map(|file| format!("-input={}", file.display())).collect();
    for flags in [&["-bundle-align=4096"][..], &["-compress"], &["-compress", "-compression-level=19"]] {
        let mut args = vec!["-type=o", targets.as_str(), "-input=host", "-output=bundle"];
        args.extend(inputs.iter().map(String::as_str));
        args.extend(flags);
        bench.run("clang-offload-bundler-19", &args);
        let listed = bench.run("clang-offload-bundler-19", &["-list", "-type=o", "-input=bundle"]);
        let images = load(read(&bench.path("bundle"))).unwrap();
        assert_eq!(images.len(), arches.len(), "{flags:?}");
        for (image, (file, arch)) in images.iter().zip(files.iter().zip(arches)) {
            let entry = image.entry.as_ref().unwrap();
            assert!(listed.lines().any(|line| line == entry.id), "{} is not in {listed}", entry.id);
            assert_eq!(entry.target_id.as_deref(), Some(arch));
            assert_eq!(image.bytes, read(file), "{flags:?}");
            assert_eq!(image.compression.is_some(), flags.contains(&"-compress"));
            assert_eq!(image.code_object().unwrap().arch().to_string(), arch);
        }
    }
}

/// What `hipcc --genco` and `hipcc -c` do, through clang itself.
#[test]
fn bundles_and_host_files_of_the_compiler() {
    let Some(bench) = Bench::with(&["clang-19", "ld.lld-19", "clang-offload-bundler-19"]) else { return };
    let source = "\
typedef int hipError_t; typedef void *hipStream_t; struct dim3 { unsigned x, y, z; };\n\
extern \"C\" hipError_t hipLaunchKernel(const void *, dim3, dim3, void **, __SIZE_TYPE__, hipStream_t);\n";
    let kernel = |name: &str| format!("{source}extern \"C\" __attribute__((global)) void {name}(int *p) {{ *p = 1; }}\n");
    bench.write("one.hip", kernel("one"));
    bench.write("two.hip", kernel("two"));
    let common = ["-x", "hip", "--cuda-gpu-arch=gfx90a", "--cuda-gpu-arch=gfx942:xnack-", "-nogpuinc", "-nogpulib", "-O2", "-fPIC"];

    bench.run("clang-19", &[&common[..], &["--cuda-device-only", "one.hip", "-o", "genco"]].concat());
    let images = load(read(&bench.path("genco"))).unwrap();
    let found: Vec<_> = images.iter().map(|image| image.code_object().unwrap().arch().to_string()).collect();
    assert_eq!(found, ["gfx90a", "gfx942:xnack-"]);

    for compress in [false, true] {
        let flags: &[&str] = if compress { &["--offload-compress"] } else { &[] };
        for name in ["one", "two"] {
            let (input, output) = (format!("{name}.hip"), format!("{name}.o"));
            bench.run("clang-19", &[&common[..], flags, &["-c", &input, "-o", &output]].concat());
        }
        bench.run("ld.lld-19", &["-shared", "one.o", "two.o", "-o", "library.so"]);
        let images = load(read(&bench.path("library.so"))).unwrap();
        let found: Vec<_> = images
            .iter()
            .map(|image| {
                assert_eq!(image.compression.is_some(), compress);
                let object = image.code_object().unwrap();
                (object.arch().to_string(), object.kernels()[0].name.clone())
            })
            .collect();
        let expected = [("gfx90a", "one"), ("gfx942:xnack-", "one"), ("gfx90a", "two"), ("gfx942:xnack-", "two")];
        assert_eq!(found, expected.map(|(arch, name)| (arch.to_owned(), name.to_owned())));
    }
}

#[test]
fn objects_that_are_not_linked_or_not_for_hsa_are_told() {
    let mut relocatable = SMALL.to_vec();
    relocatable[16] = 1;
    let mut pal = SMALL.to_vec();
    pal[7] = 65;
    let mut old = SMALL.to_vec();
    old[8] = 0;
    let mut unknown = SMALL.to_vec();
    unknown[48] = 0xee;
    for (file, expected) in
        [(relocatable, "ld.lld -shared"), (pal, "OS ABI 65"), (old, "code object version 2"), (unknown, "processor 0xee")]
    {
        let error = load(file).unwrap()[0].code_object().unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
        assert!(!matches!(error, Error::Damaged { .. }));
    }
}
