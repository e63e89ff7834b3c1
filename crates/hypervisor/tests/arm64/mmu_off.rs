//! The state in which a kernel starts (Linux `Documentation/arch/arm64/booting.rst`).

use vm_memory::{Bytes, GuestAddress};
use vmbell_hypervisor::aarch64::IMAGE_RAM;
use vmbell_hypervisor::{EntryPoint, Hypervisor, VmConfig, VmEntry, VmExit};

use testbed::{HOLE, configured, step};

/// Stores the two words of `x0`, SCTLR_EL1 and CurrentEL to [`HOLE`], which is `0xd000 << 16`.
const CODE: [u32; 8] = [
    0xd2ba_0001, // movz x1, #0xd000, lsl #16
    0xb900_0020, // str w0, [x1]
    0xd360_fc00, // lsr x0, x0, #32
    0xb900_0020, // str w0, [x1]
    0xd538_1002, // mrs x2, sctlr_el1
    0xb900_0022, // str w2, [x1]
    0xd538_4242, // mrs x2, CurrentEL
    0xb900_0022, // str w2, [x1]
];
/// The bits of SCTLR_EL1 that enable the MMU and the data cache.
const MMU_AND_CACHE: u64 = 1 | 1 << 2;

fn kernel_begins_in_el1_with_the_mmu_off_and_finds_its_tree_in_x0<H: Hypervisor>(h: &H) {
    const PC: u64 = IMAGE_RAM.start + 0x20_0000;
    let config = VmConfig {
        ram_base: IMAGE_RAM.start,
        ..VmConfig::default()
    };
    let vm = configured(h, config);
    let code: Vec<u8> = CODE.iter().flat_map(|word| word.to_le_bytes()).collect();
    vm.memory().write_slice(&code, GuestAddress(PC)).unwrap();
    let mut vcpu = vm.create_vcpu(0).unwrap();
    let tree = 0x1_0010_0000;
    vcpu.set_entry_point(EntryPoint::MmuOff { pc: PC, tree })
        .unwrap();
    let [low, high, control, level] =
        [0; 4].map(|_| match step(&mut vcpu, VmEntry::Resume).unwrap() {
            VmExit::MmioWrite {
                address: HOLE,
                len: 4,
                data,
            } => data,
            other => panic!("{other:?}"),
        });
    assert_eq!((low, high), (0x10_0000, 1));
    assert_eq!(control & MMU_AND_CACHE, 0);
    assert_eq!(level, 1 << 2);
}

testbed::on_kvm! {
    kernel_begins_in_el1_with_the_mmu_off_and_finds_its_tree_in_x0;
}
