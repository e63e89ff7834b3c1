//! What INIT does to a vCPU's local APIC and to its register of PV EOI (Linux `kvm_lapic_reset`).

use vmbell_hypervisor::Hypervisor;
use vmbell_vmm::PcConfig;

use super::player::{Op, Play};
use kit::image::Segment;

/// How often the other vCPU has started.
const COUNTER: u32 = 0x500;
/// What the other vCPU found in its PV EOI register at each start, and what it read back.
const FOUND: u32 = 0x510;
/// The value that switches PV EOI on, with its word at 0x3000.
const SWITCHED_ON: u32 = 0x3001;
const ICR: u32 = 0xfee0_0300;
const SPURIOUS: u32 = 0xfee0_00f0;
/// Interrupt commands to all vCPUs but the sender: INIT, and a start-up at page 0.
const INIT: u32 = 0x000c_4500;
const SIPI: u32 = 0x000c_4600;

/// 16-bit code: reads the register, writes it, reads it back, and stores both values in the next eight bytes; then
/// counts itself and halts forever.
const TRAMPOLINE: [u8; 56] = [
    0x66, 0xb9, 0x04, 0x4d, 0x56, 0x4b, // mov ecx, 0x4b564d04
    0x8b, 0x1e, 0x00, 0x05, // mov bx, [0x500]
    0xc1, 0xe3, 0x03, // shl bx, 3
    0x0f, 0x32, // rdmsr
    0x66, 0x09, 0xd0, // or eax, edx
    0x66, 0x89, 0x87, 0x10, 0x05, // mov [bx + 0x510], eax
    0x66, 0xb8, 0x01, 0x30, 0x00, 0x00, // mov eax, 0x3001
    0x66, 0x31, 0xd2, // xor edx, edx
    0x0f, 0x30, // wrmsr
    0x66, 0x31, 0xc0, // xor eax, eax
    0x0f, 0x32, // rdmsr
    0x66, 0x09, 0xd0, // or eax, edx
    0x66, 0x89, 0x87, 0x14, 0x05, // mov [bx + 0x514], eax
    0xf0, 0xff, 0x06, 0x00, 0x05, // lock inc word ptr [0x500]
    0xfa, 0xf4, 0xeb, 0xfd, // cli; hlt; jmp to hlt
];

fn init_switches_pv_eoi_off<H: Hypervisor>(hypervisor: &H) {
    let start = |count| {
        [
            Op::Store(4, ICR, INIT),
            Op::Store(4, ICR, SIPI),
            Op::Await(COUNTER, count),
        ]
    };
    let look = [0, 4, 8, 12].map(|offset| Op::Load(4, FOUND + offset));
    let ops = [
        &[Op::Store(4, SPURIOUS, 0x1ff)],
        &start(1)[..],
        &start(2),
        &look,
    ]
    .concat();
    let play = Play {
        config: PcConfig {
            vcpus: 2,
            ..PcConfig::default()
        },
        segments: vec![Segment::new(0, TRAMPOLINE)],
        ..Play::new(ops)
    };
    let results = play.results(hypervisor);
    let found = &results[results.len() - 4..];
    // Written and read back at the first start, and gone at the second.
    assert_eq!(found, [0, SWITCHED_ON, 0, SWITCHED_ON]);
}

testbed::on_kvm! {
    init_switches_pv_eoi_off;
}
