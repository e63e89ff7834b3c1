//! Parses `--device NAME[,driver=DRIVER]`.

use vmbell_bench::did_you_mean;
use vmbell_lab::board::LabBoard;
use vmbell_lab::device::{L1Device, L1Driver, PluggedDevice};

/// Parses the value of `--device`. Accepts the devices of any board, because `--arch` is not known yet.
pub(super) fn device(text: &str) -> Result<PluggedDevice, String> {
    let devices: Vec<_> = LabBoard::ALL
        .iter()
        .flat_map(|board| board.devices)
        .collect();
    let (name, property) = match text.split_once(',') {
        Some((name, property)) => (name, Some(property)),
        None => (text, None),
    };
    let device = devices.iter().copied().find(|device| device.name == name);
    let device = device.ok_or_else(|| {
        let names: Vec<&str> = devices.iter().map(|device| device.name).collect();
        unknown("device", name, &names)
    })?;
    Ok(PluggedDevice {
        device,
        driver: property.map_or(Ok(L1Driver::Vfio), |property| driver(device, property))?,
    })
}

/// Refuses a device that is named twice, or that this board lacks.
pub(super) fn check(board: &LabBoard, devices: &[PluggedDevice]) -> Result<(), String> {
    for (index, PluggedDevice { device, .. }) in devices.iter().enumerate() {
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

/// Adds the devices of the list that this board has and that were not added yet.
pub(super) fn plug_in(
    board: &LabBoard,
    devices: &mut Vec<PluggedDevice>,
    names: &[&str],
) -> Result<(), String> {
    for name in names {
        if has(board, name) && devices.iter().all(|plugged| plugged.device.name != *name) {
            devices.push(device(name)?);
        }
    }
    Ok(())
}

fn has(board: &LabBoard, name: &str) -> bool {
    board.devices.iter().any(|device| device.name == name)
}

fn driver(device: &L1Device, property: &str) -> Result<L1Driver, String> {
    let vfio = device.bus.vfio_driver();
    match property.split_once('=') {
        Some(("driver", "none")) => Ok(L1Driver::None),
        Some(("driver", name)) if name == vfio => Ok(L1Driver::Vfio),
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
