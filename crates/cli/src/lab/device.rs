//! Parses `--device NAME[,driver=DRIVER]`.

use super::parts::board;
use crate::suggest::did_you_mean;
use vmbell_lab::device::{Driver, Plugged};

/// Parses the value of `--device`.
pub(super) fn device(text: &str) -> Result<Plugged, String> {
    let devices = board().map_err(|error| error.to_string())?.devices;
    let (name, property) = match text.split_once(',') {
        Some((name, property)) => (name, Some(property)),
        None => (text, None),
    };
    let device = devices.iter().find(|device| device.name == name);
    let device = device.ok_or_else(|| {
        let names: Vec<&str> = devices.iter().map(|device| device.name).collect();
        unknown("device", name, &names)
    })?;
    Ok(Plugged {
        device,
        driver: property.map_or(Ok(Driver::ALL[0]), driver)?,
    })
}

/// Adds the devices of these names that are not there.
pub(super) fn plug_in(devices: &mut Vec<Plugged>, names: &[&str]) -> Result<(), String> {
    for name in names {
        if devices.iter().all(|plugged| plugged.device.name != *name) {
            devices.push(device(name)?);
        }
    }
    Ok(())
}

fn driver(property: &str) -> Result<Driver, String> {
    let names = Driver::ALL.map(Driver::name);
    match property.split_once('=') {
        Some(("driver", name)) => Driver::ALL
            .into_iter()
            .find(|driver| driver.name() == name)
            .ok_or_else(|| unknown("driver", name, &names)),
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
