use super::*;
use vmbell_lab::board::{AARCH64, X86_64};

#[test]
fn a_device_has_the_vfio_driver_unless_it_is_to_have_none() {
    for (text, driver) in [
        ("edu", L1Driver::Vfio),
        ("edu,driver=vfio-pci", L1Driver::Vfio),
        ("edu,driver=none", L1Driver::None),
    ] {
        let plugged = device(text).unwrap();
        assert_eq!((plugged.device.name, plugged.driver), ("edu", driver));
    }
    let plugged = device("pl031,driver=vfio-amba").unwrap();
    assert_eq!(plugged.driver_name(), Some("vfio-amba"));
}

#[test]
fn what_is_unknown_is_named_with_what_there_is() {
    for (text, message) in [
        (
            "edo",
            "unknown device 'edo', did you mean 'edu'? (there are: edu",
        ),
        ("", "unknown device '' (there are: edu"),
        (
            "edu,driver=nine",
            "unknown driver 'nine', did you mean 'none'? (there are: vfio-pci, none)",
        ),
        ("edu,", "unknown property '' (there are: driver=none)"),
        (
            "edu,drivers=none",
            "unknown property 'drivers=none', did you mean 'driver=none'?",
        ),
    ] {
        let error = device(text).unwrap_err();
        assert!(error.starts_with(message), "{error}");
    }
}

#[test]
fn a_device_that_is_there_is_not_plugged_in_again() {
    let mut devices = vec![device("edu,driver=none").unwrap()];
    plug_in(&X86_64, &mut devices, &["edu", "e1000e"]).unwrap();
    let names: Vec<_> = devices.iter().map(|p| (p.device.name, p.driver)).collect();
    assert_eq!(names, [("edu", L1Driver::None), ("e1000e", L1Driver::Vfio)]);
}

#[test]
fn a_device_of_another_board_is_refused_with_those_that_there_are() {
    let edu = [device("edu").unwrap()];
    assert_eq!(check(&X86_64, &edu), Ok(()));
    let error = check(&AARCH64, &edu).unwrap_err();
    assert!(
        error.starts_with("--device edu: aarch64 has no such device (there are: "),
        "{error}"
    );
    let mut devices = Vec::new();
    plug_in(&AARCH64, &mut devices, &["edu"]).unwrap();
    assert_eq!(devices, []);
}
