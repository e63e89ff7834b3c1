//! Images without a header as guests of `vmbell run` on arm64: one of our own, which prints what it finds.

use std::fs;

use super::boots::{lab, output, text};

/// Prints `+` on the serial port if `x0` is the address of a device tree above this code and above the memory that the
/// code uses after its end, otherwise `-`. Then it sends `5q` to a `chr-testdev` if there is one, otherwise switches
/// the machine off through PSCI.
const CODE: [u32; 45] = [
    0x1000_0001, // adr x1, .
    0xd2a0_0302, // mov x2, #0x180000
    0x8b02_0021, // add x1, x1, x2
    0xeb01_001f, // cmp x0, x1
    0x5400_0103, // b.cc fail
    0xb940_0002, // ldr w2, [x0]
    0x5281_ba03, // mov w3, #0xdd0
    0x72bd_bfc3, // movk w3, #0xedfe, lsl #16
    0x6b03_005f, // cmp w2, w3
    0x5400_0061, // b.ne fail
    0x5280_0564, // mov w4, #0x2b
    0x1400_0002, // b print
    0x5280_05a4, // fail: mov w4, #0x2d
    0xd2a1_2005, // print: mov x5, #0x9000000
    0x3900_00a4, // strb w4, [x5]
    0x5280_0144, // mov w4, #0xa
    0x3900_00a4, // strb w4, [x5]
    0xd2a1_4005, // mov x5, #0xa000000
    0xb940_04a2, // ldr w2, [x5, #4]
    0x7100_045f, // cmp w2, #0x1
    0x5400_02a1, // b.ne off
    0x1000_0006, // adr x6, .
    0xd34c_fcc6, // lsr x6, x6, #12
    0x9100_04c6, // add x6, x6, #0x1
    0xd374_ccc7, // lsl x7, x6, #12
    0x5282_0002, // mov w2, #0x1000
    0xb900_28a2, // str w2, [x5, #40]
    0x5280_0023, // mov w3, #0x1
    0xb900_30a3, // str w3, [x5, #48]
    0xb900_38a3, // str w3, [x5, #56]
    0xb900_3ca2, // str w2, [x5, #60]
    0xb900_40a6, // str w6, [x5, #64]
    0x9104_00e8, // add x8, x7, #0x100
    0xf900_00e8, // str x8, [x7]
    0x5280_0049, // mov w9, #0x2
    0xf900_04e9, // str x9, [x7, #8]
    0x528e_26a9, // mov w9, #0x7135
    0x7900_0109, // strh w9, [x8]
    0x5280_0029, // mov w9, #0x1
    0x7900_24e9, // strh w9, [x7, #18]
    0xb900_50a3, // str w3, [x5, #80]
    0x5280_0100, // off: mov w0, #0x8
    0x72b0_8000, // movk w0, #0x8400, lsl #16
    0xd400_0002, // hvc #0x0
    0x1400_0000, // b .
];
/// The file's length in bytes. The code compares with 1.5 MiB, because it uses memory after the end of its file.
const LEN: usize = 1 << 20;

#[test]
#[ignore = "boots the lab: cargo xtask lab --arch aarch64"]
fn an_image_without_a_header_finds_its_tree_above_itself_and_what_is_none_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut file: Vec<u8> = CODE.iter().flat_map(|word| word.to_le_bytes()).collect();
    file.resize(LEN, 0);
    fs::write(folder.path().join("image"), &file).unwrap();
    fs::write(folder.path().join("empty"), b"").unwrap();
    let script = r#"
        for memory in 4M 64M 1G; do "$0" run /guest/image -m $memory --vcpus 2 --timeout 120s; echo $?; done
        "$0" run /guest/image --device chr-testdev --timeout 120s; echo $?
        for file in empty image; do "$0" run /guest/$file -m 2M 2>&1; echo $?; done
    "#;
    let guest = crate::vmbell();
    let guest = guest.to_str().unwrap();
    let with = format!("{}:/guest", folder.path().display());
    let output = output(&mut lab(&[
        "--memory", "2G", "--with", &with, "--with", guest, "--", "/bin/sh", "-c", script, guest,
    ]));
    let expected = "+\n0\n+\n0\n+\n0\n+\n11\nerror: /guest/empty: the file is empty\n126\n\
                    error: /guest/image: needs 4096 KiB of memory, but the machine has 2048 KiB: \
                    give the machine more memory (--memory)\n126\n";
    assert_eq!(text(&output.stdout), expected);
}
