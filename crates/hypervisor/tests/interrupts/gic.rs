//! arm64's interrupt controllers as this library sets them up, seen from the guest: priorities, both EOI modes, SPIs
//! and LPIs (Arm IHI 0069 and IHI 0048).

use std::sync::Arc;

use testbed::done;
use vmbell::irq::{Gsi, Msi};
use vmbell_guest::{
    CODE, GicInterrupt, HANDLER, Interrupts, LpiMessage, PARAMETERS, Parameters, Results,
};
use vmbell_hypervisor::aarch64::FIRST_SPI;
use vmbell_hypervisor::{Hypervisor, Irqs, Vcpu, Vm, VmEntry};

use testbed::taker::{has_messages, msi, with_interrupts};
use testbed::{AREA, bells, configured, programs, start, step};

/// The GSI of the SPI.
const PIN: u32 = 5;
/// The message, and the LPI that it becomes.
const EVENT: u32 = 3;
const LPI: u32 = 8192 + EVENT;
/// The bell that lowers the line.
const LOWER: u16 = 0x10;

/// The checks, by their numbers in the program.
#[derive(Clone, Copy, Debug)]
enum Check {
    PriorityDrop = 1,
    EoiMode = 2,
    Edge = 3,
    Level = 4,
    Message = 5,
    Nothing = 6,
}

fn message() -> Msi {
    msi(0, EVENT as u8)
}

struct Checked {
    vm: Arc<dyn Vm>,
    vcpu: Box<dyn Vcpu>,
}

impl Checked {
    fn new<H: Hypervisor>(h: &H, level: bool, lpi: bool) -> Self {
        let vm = configured(h, with_interrupts(1));
        let mut vcpu = start(&vm, programs::gic_checks(), Parameters::default(), 0);
        vcpu.set_interrupt_handler(CODE.0 + HANDLER).unwrap();
        let tables = LpiMessage {
            tables: AREA + 0x10_0000,
            device: 0,
            event: EVENT,
        };
        let interrupts = Interrupts {
            gic: Some(GicInterrupt {
                gic: vm.gic().unwrap(),
                intid: if lpi { LPI } else { FIRST_SPI + PIN },
                level,
                message: lpi.then_some(tables),
            }),
            ..Interrupts::default()
        };
        interrupts.write(vm.memory(), PARAMETERS).unwrap();
        Self { vm, vcpu }
    }

    fn set_line(&self, up: bool) {
        self.vm.set_line(Gsi::new(PIN).unwrap(), up).unwrap();
    }

    fn passes(&mut self, check: Check) {
        let parameters = Parameters {
            value: check as u64,
            address: bells::number(LOWER),
            ..Parameters::default()
        };
        parameters.write(self.vm.memory(), PARAMETERS).unwrap();
        let failed = loop {
            let exit = step(&mut self.vcpu, VmEntry::Resume).unwrap();
            match done(&exit) {
                Some(failed) => break failed,
                None if bells::is_rung(&exit, LOWER) => self.set_line(false),
                None => panic!("{exit:?}"),
            }
        };
        let found = Results::read(self.vm.memory(), PARAMETERS).unwrap().word;
        assert_eq!(
            failed, 0,
            "{check:?}: expectation {failed} found {found:#x}"
        );
    }
}

fn the_end_drops_the_priority_of_one_interrupt<H: Hypervisor>(h: &H) {
    Checked::new(h, false, false).passes(Check::PriorityDrop);
}

fn an_interrupt_stays_active_until_its_deactivation_in_eoi_mode_1<H: Hypervisor>(h: &H) {
    let mut guest = Checked::new(h, false, false);
    guest.passes(Check::EoiMode);
    // Mode 0 works as before.
    guest.passes(Check::PriorityDrop);
}

fn an_edge_is_one_interrupt<H: Hypervisor>(h: &H) {
    let mut guest = Checked::new(h, false, false);
    guest.passes(Check::Nothing);
    guest.passes(Check::Edge);
    for _ in 0..3 {
        guest.set_line(true);
        guest.set_line(false);
    }
    // Including the check's own, four edges came before the first acknowledgement. They are one interrupt.
    guest.passes(Check::Edge);
}

fn a_level_comes_again_until_it_is_down<H: Hypervisor>(h: &H) {
    let mut guest = Checked::new(h, true, false);
    guest.passes(Check::Nothing);
    for _ in 0..10 {
        guest.set_line(true);
        guest.passes(Check::Level);
    }
    guest.set_line(true);
    guest.set_line(false);
    guest.passes(Check::Nothing);
}

fn a_message_is_an_lpi<H: Hypervisor>(h: &H) {
    if !has_messages(h) {
        return;
    }
    let mut guest = Checked::new(h, false, true);
    guest.passes(Check::Nothing);
    for _ in 0..10 {
        assert!(guest.vm.signal_msi(message()).unwrap());
        guest.passes(Check::Message);
    }
    guest.passes(Check::Nothing);
}

testbed::on_kvm! {
    the_end_drops_the_priority_of_one_interrupt;
    an_interrupt_stays_active_until_its_deactivation_in_eoi_mode_1;
    an_edge_is_one_interrupt;
    a_level_comes_again_until_it_is_down;
    a_message_is_an_lpi;
}
