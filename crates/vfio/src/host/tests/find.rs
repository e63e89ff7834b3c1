//! The lookup of what a user types.

use super::super::{Bus, PciAddress};
use super::fake::{Fake, NIC, RTC};

fn message(fake: &Fake, buses: &[Bus], typed: &str) -> String {
    fake.host().find(buses, typed).unwrap_err().to_string()
}

#[test]
fn a_pci_address_may_leave_out_domain_0() {
    let fake = Fake::ready();
    for typed in ["0000:00:03.0", "00:03.0", "0:3.0", "0000:00:03.0"] {
        let device = fake.host().find(&[Bus::Pci], typed).unwrap();
        assert_eq!(device.name, NIC, "{typed}");
    }
}

#[test]
fn an_address_reads_as_it_is_written() {
    for text in ["0000:00:03.0", "10000:e1:1f.7"] {
        assert_eq!(text.parse::<PciAddress>().unwrap().to_string(), text);
    }
    for text in [
        "",
        ".",
        ":.",
        "00:03",
        "00:20.0",
        "00:03.8",
        "100:03.0",
        "+0:03.0",
        "00:03.0.0",
        "g0:00.0",
        "123456789:00:00.0",
        "0:0:0:0.0",
        "é:0.0",
    ] {
        let error = text.parse::<PciAddress>().unwrap_err().to_string();
        assert!(error.contains("not the address"), "{text}: {error}");
    }
}

#[test]
fn a_platform_device_is_found_by_its_name() {
    let fake = Fake::ready();
    fake.rtc();
    let buses = [Bus::Platform, Bus::Amba];
    assert_eq!(fake.host().find(&buses, RTC).unwrap().bus, Bus::Amba);
}

#[test]
fn what_is_not_found_gets_the_names_like_it() {
    let fake = Fake::ready();
    fake.rtc();
    assert_eq!(
        message(&fake, &[Bus::Pci], "00:04.0"),
        "no device 0000:00:04.0 on the bus pci, did you mean 0000:00:03.0?"
    );
    assert_eq!(
        message(&fake, &[Bus::Platform, Bus::Amba], "pl031"),
        "no device pl031 on the bus platform or amba, did you mean 9010000.pl031?"
    );
    assert_eq!(
        message(&fake, &[Bus::Pci], "fridge"),
        "no device fridge on the bus pci"
    );
}

#[test]
fn a_device_of_another_bus_is_named_with_its_bus() {
    let fake = Fake::ready();
    fake.rtc();
    assert_eq!(
        message(&fake, &[Bus::Pci], RTC),
        "9010000.pl031 is on the bus amba, not pci: its driver is vfio-amba"
    );
    assert_eq!(
        message(&fake, &[Bus::Platform, Bus::Amba], "00:03.0"),
        "0000:00:03.0 is on the bus pci, not platform or amba: its driver is vfio-pci"
    );
}

#[test]
fn a_path_is_no_name() {
    let fake = Fake::ready();
    for typed in ["../devices/0000:00:03.0", "/", "", "..", "."] {
        assert!(fake.host().find(&Bus::ALL, typed).is_err(), "{typed}");
    }
}
