//! Parses `--device NAME[,driver=DRIVER]`.

use crate::args::suggest::did_you_mean;
use vmbell_lab::board::Board;
use vmbell_lab::device::{Device, Driver, Plugged};

/// Parses the value of `--device`: a device of any board, because `--arch` is not known yet.
pub(super) fn device(text: &str) -> Result<Plugged, String> {
    let devices: Vec<_> = Board::ALL.iter().flat_map(|board| board.devices).collect();
    let (name, property) = match text.split_once(',') {
        Some((name, property)) => (name, Some(property)),
        None => (text, None),
    };
    let device = devices.iter().copied().find(|device| device.name == name);
    let device = device.ok_or_else(|| {
        let names: Vec<&str> = devices.iter().map(|device| device.name).collect();
        unknown("device", name, &names)
    })?;
    Ok(Plugged {
        device,
        driver: property.map_or(Ok(Driver::Vfio), |property| driver(device, property))?,
    })
}

/// Refuses a device that is given twice, or that this board does not have.
pub(super) fn check(board: &Board, devices: &[Plugged]) -> Result<(), String> {
    for (index, Plugged { device, .. }) in devices.iter().enumerate() {
        let name = device.name;
        if !has(board, name) {
            let names: Vec<&str> = board.devices.iter().map(|device| device.name).collect();
            let arch = board.arch.name;
            return Err(format!(
                "--device {name}: {arch} has no such device (there are: {})",
                names.join(", ")
            ));
        }
        if devices[..index].iter().any(|p| p.device.name == name) {
            return Err(format!("--device {name} is given twice, and L1 has one"));
        }
    }
    Ok(())
}

/// Adds those devices of these names that this board has and that are not there.
pub(super) fn plug_in(
    board: &Board,
    devices: &mut Vec<Plugged>,
    names: &[&str],
) -> Result<(), String> {
    for name in names {
        if has(board, name) && devices.iter().all(|plugged| plugged.device.name != *name) {
            devices.push(device(name)?);
        }
    }
    Ok(())
}

fn has(board: &Board, name: &str) -> bool {
    board.devices.iter().any(|device| device.name == name)
}

fn driver(device: &Device, property: &str) -> Result<Driver, String> {
    let vfio = device.bus.vfio_driver();
    match property.split_once('=') {
        Some(("driver", "none")) => Ok(Driver::None),
        Some(("driver", name)) if name == vfio => Ok(Driver::Vfio),
        Some(("driver", name)) => Err(unknown("driver", name, &[vfio, "none"])),
        _ => Err(unknown("property", property, &["driver=none"])),
    }
}

fn unknown(what: &str, name: &str, names: &[&str]) -> String {
    let (hint, all) = (did_you_mean(name, names), names.join(", "));
    format!("unknown {what} '{name}'{hint} (there are: {all})")
}

#[cfg(test)]
#[path = "device_test.rs"]
mod tests;
