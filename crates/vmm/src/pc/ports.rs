//! The devices of a PC on fixed ports. A vCPU's thread calls them when its guest accesses the port.

use std::sync::Arc;

use vmbell::bus::{BusDevice, BusRange};
use vmbell_devices::{
    FW_CFG_PORTS, FwCfg, I8042, I8042_LEN, I8042_PORTS, PM_TIMER_LEN, PM_TIMER_PORT,
    PM1_CONTROL_LEN, PM1_EVENT_LEN, PM1_EVENT_PORT, PORT_A, Pm1, PmTimer, PortA, RTC_LEN,
    RTC_PORTS, SERIAL_LEN, SERIAL_PORTS, SHUTDOWN_PORT, SLEEP_PORTS, SLEEP_PORTS_LEN, ShutdownPort,
    SleepRegisters,
};

use super::{Pc, power};
use crate::error::BoardError;
use crate::off::Off;

/// The first port of a device, its number of ports, and the device.
type Ports = (u64, u64, Arc<dyn BusDevice>);

impl Pc {
    /// Adds the devices of this PC's model.
    pub(super) fn add_ports(&self) -> Result<(), BoardError> {
        let port_a = PortA::new(self.turn(|| Off::Reset));
        let mut devices: Vec<Ports> = vec![
            (SERIAL_PORTS, SERIAL_LEN, Arc::clone(&self.serial) as _),
            (PORT_A, 1, Arc::new(port_a)),
        ];
        match &self.pm1 {
            Some(pm1) => devices.extend(self.legacy(pm1)?),
            None => devices.push(self.sleep_registers()),
        }
        for (base, len, device) in devices {
            self.machine.pio.insert(BusRange::new(base, len)?, device)?;
        }
        Ok(())
    }

    /// Makes the devices that only the full model has.
    fn legacy(&self, pm1: &Pm1) -> Result<[Ports; 6], BoardError> {
        self.pci.add_reset_control(self.turn(|| Off::Reset));
        let shutdown = ShutdownPort::new(self.turn(|| Off::Guest));
        let keyboard = I8042::new(self.turn(|| Off::Reset));
        let rtc = power::clock(self.machine.vm(), &self.switch, pm1)?;
        let fw_cfg = FwCfg::new(self.config.vcpus, self.config.memory);
        let pm1_len = PM1_EVENT_LEN + PM1_CONTROL_LEN;
        let (pm1, timer) = (Arc::new(pm1.clone()), Arc::new(PmTimer::new()));
        Ok([
            (FW_CFG_PORTS, 2, Arc::new(fw_cfg)),
            (PM1_EVENT_PORT.into(), pm1_len.into(), pm1),
            (PM_TIMER_PORT.into(), PM_TIMER_LEN.into(), timer),
            (SHUTDOWN_PORT, 1, Arc::new(shutdown)),
            (I8042_PORTS, I8042_LEN, Arc::new(keyboard)),
            (RTC_PORTS, RTC_LEN, Arc::new(rtc)),
        ])
    }

    fn sleep_registers(&self) -> Ports {
        let registers = SleepRegisters::new(self.turn(|| Off::Guest));
        let len = SLEEP_PORTS_LEN.into();
        (SLEEP_PORTS.into(), len, Arc::new(registers))
    }

    /// Returns a function that ends the run.
    fn turn(&self, off: fn() -> Off) -> impl Fn() + Send + Sync + use<> {
        let switch = Arc::clone(&self.switch);
        move || switch.turn(off())
    }
}
