//! Finds the device that a user's text means.

use super::bus::{Bus, PciAddress};
use super::device::HostDevice;
use super::files::{self, Host};

/// Why a text means no device.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FindError {
    /// No device of these buses has the name.
    #[error("no device {name} on the bus {}{}", buses_text(buses), near_text(near))]
    NotFound {
        /// What was typed, with the domain added to a PCI address.
        name: String,
        /// The buses that were searched.
        buses: Vec<Bus>,
        /// The devices with similar names.
        near: Vec<String>,
    },
    /// The device is on another bus.
    #[error("{name} is on the bus {found}, not {}: its driver is {}", buses_text(wanted), found.vfio_driver())]
    OtherBus {
        /// The device.
        name: String,
        /// The device's bus.
        found: Bus,
        /// The buses that were searched.
        wanted: Vec<Bus>,
    },
}

fn buses_text(buses: &[Bus]) -> String {
    let names: Vec<_> = buses.iter().map(|bus| bus.name()).collect();
    names.join(" or ")
}

fn near_text(near: &[String]) -> String {
    if near.is_empty() {
        String::new()
    } else {
        format!(", did you mean {}?", near.join(" or "))
    }
}

/// The maximum number of names that an error shows.
const NEAR: usize = 3;

impl Host {
    /// Finds the device of that name on one of the buses. The domain of a PCI address may be left out if it is 0.
    ///
    /// # Errors
    /// There is no such device, or it is on another bus.
    pub fn find(&self, buses: &[Bus], typed: &str) -> Result<HostDevice, FindError> {
        let full = typed.parse::<PciAddress>().map(|pci| pci.to_string());
        let name = full.unwrap_or_else(|_| typed.to_owned());
        let all = Bus::ALL.map(|bus| (bus, files::names(&self.bus(bus).join("devices"))));
        let on = |bus: &Bus| {
            let (_, names) = &all.iter().find(|(other, _)| other == bus)?;
            names.contains(&name).then_some(*bus)
        };
        if let Some(bus) = buses.iter().find_map(on) {
            return Ok(self.device(bus, name));
        }
        if let Some(found) = Bus::ALL.iter().find_map(on) {
            let wanted = buses.to_vec();
            return Err(FindError::OtherBus {
                name,
                found,
                wanted,
            });
        }
        let candidates = all.iter().filter(|(bus, _)| buses.contains(bus));
        let near = near(&name, candidates.flat_map(|(_, names)| names));
        Err(FindError::NotFound {
            name,
            buses: buses.to_vec(),
            near,
        })
    }
}

/// Returns the most similar names: those that contain what was typed, or differ in up to two characters.
fn near<'n>(typed: &str, names: impl Iterator<Item = &'n String>) -> Vec<String> {
    let mut near: Vec<(usize, &String)> = names
        .filter_map(|name| {
            let distance = distance(typed, name);
            let contains = typed.len() > 2 && name.contains(typed);
            (contains || distance <= 2).then_some((distance, name))
        })
        .collect();
    near.sort();
    near.truncate(NEAR);
    near.into_iter().map(|(_, name)| name.clone()).collect()
}

/// Returns the number of characters to insert, remove or replace (Levenshtein).
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, a) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(a != *b);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}
