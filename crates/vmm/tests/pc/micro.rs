//! The micro model of the PC: the ways to end it, and what it does not have.

use std::io;

use vmbell_devices::virtio::{Entropy, VirtioConfig};
use vmbell_hypervisor::{CpuFeatures, Hypervisor};
use vmbell_vmm::{Pc, PcConfig, PcModel, Stop};

use super::harness::chain;
use super::player::{Op, Play};

const CONFIG: PcConfig = PcConfig {
    model: PcModel::Micro,
    memory: 128 << 20,
    vcpus: 1,
    hidden: CpuFeatures::NONE,
    pv_eoi: true,
    shared_memory: false,
};

fn play(ops: impl Into<Vec<Op>>) -> Play {
    Play {
        config: CONFIG,
        ..Play::new(ops)
    }
}

/// S5 (kind 0) with the bit that starts the sleep.
fn sleep_control_switches_off<H: Hypervisor>(hypervisor: &H) {
    let played = play([Op::Out(1, 0x600, 0x20), Op::Sleep]).run(hypervisor);
    assert_eq!(played.end, Ok(Stop::Shutdown));
}

fn port_a_resets<H: Hypervisor>(hypervisor: &H) {
    let played = play([Op::Out(1, 0x92, 1), Op::Sleep]).run(hypervisor);
    assert_eq!(played.end, Ok(Stop::Reset));
}

/// The clock, the keyboard controller, firmware configuration, the PICs, the timer and the configuration ports read as ports
/// without a device do.
fn legacy_ports_have_no_device<H: Hypervisor>(hypervisor: &H) {
    let ports = [0x71, 0x64, 0x511, 0x21, 0x40, 0xcf8, 0x604];
    let results = play(ports.map(|port| Op::In(1, port))).results(hypervisor);
    assert_eq!(results, [0xff; 7]);
}

fn devices_that_need_lines_are_refused<H: Hypervisor>(hypervisor: &H) {
    let pc = Pc::new(hypervisor, CONFIG, io::sink()).unwrap();
    let virtio = pc.add_virtio_mmio(Entropy, 1, VirtioConfig::default());
    for (device, refused) in [("virtio-rng", virtio), ("pc-testdev", pc.add_pc_testdev())] {
        let text = chain(&refused.unwrap_err());
        let expected =
            format!("a {device} raises interrupt lines, which the micro model does not have");
        assert!(text.contains(&expected), "{text}");
    }
}

crate::on_kvm! {
    sleep_control_switches_off;
    port_a_resets;
    legacy_ports_have_no_device;
    devices_that_need_lines_are_refused;
}
