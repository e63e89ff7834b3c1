//! Further vCPUs, started as on a PC.

use vmbell_hypervisor::Hypervisor;
use vmbell_vmm::{PcConfig, Stop};

use super::player::{Op, Play};
use kit::image::Segment;

/// Where each vCPU counts itself.
const COUNTER: u32 = 0x500;
const ICR: u32 = 0xfee0_0300;
const SPURIOUS: u32 = 0xfee0_00f0;
/// To all but the sender, asserted: INIT, and a start at page 0.
const INIT: u32 = 0x000c_4500;
const SIPI: u32 = 0x000c_4600;

/// `lock inc word ptr [0x500]`, `cli`, and `hlt` forever, in 16 bits.
const TRAMPOLINE: [u8; 9] = [0xf0, 0xff, 0x06, 0x00, 0x05, 0xfa, 0xf4, 0xeb, 0xfd];

fn started(vcpus: u16, ops: impl Into<Vec<Op>>) -> Play {
    Play {
        config: PcConfig {
            vcpus,
            ..PcConfig::default()
        },
        segments: vec![Segment::new(0, TRAMPOLINE)],
        ..Play::new(ops)
    }
}

fn init_and_sipi_start_all_others_at_page_0<H: Hypervisor>(hypervisor: &H) {
    for vcpus in [2, 4] {
        let play = started(
            vcpus,
            [
                Op::Store(4, SPURIOUS, 0x1ff),
                Op::Store(4, ICR, INIT),
                Op::Store(4, ICR, SIPI),
                Op::Await(COUNTER, u32::from(vcpus) - 1),
                Op::Load(4, COUNTER),
            ],
        );
        assert_eq!(play.results(hypervisor)[4], u32::from(vcpus) - 1);
    }
}

fn others_wait_until_they_are_started<H: Hypervisor>(hypervisor: &H) {
    let wait = vec![Op::In(4, 0x608); 200];
    let ops = [wait, vec![Op::Load(4, COUNTER)]].concat();
    let played = started(2, ops).run(hypervisor);
    assert_eq!(played.end, Ok(Stop::Done(0)));
    assert_eq!(*played.results.last().unwrap(), 0);
}

testbed::on_kvm! {
    init_and_sipi_start_all_others_at_page_0;
    others_wait_until_they_are_started;
}
