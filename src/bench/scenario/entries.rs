//! The scenarios by name: `{path}-{bell}`, with a suffix for what is out of the ordinary.

use super::notify::Notify;
use super::path::Bell::{self, AnyLength, Datamatch, DeviceModel, Polled, Wildcard};
use super::path::Path::{self, Hypercall, Mmio, Portio, Word};
use super::rate::Rate;
use crate::bench::{Entry, Group, Options, Subject, SubjectError};
use crate::hypervisor::{Hypervisor, PatchMode, SpinPolicy};

/// A suffix of a scenario's name, and what it means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Variant {
    Plain,
    Int3,
    Jmp,
    Spin,
}

impl Variant {
    const fn suffix(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Int3 => "+int3",
            Self::Jmp => "+jmp",
            Self::Spin => "+spin",
        }
    }

    const fn patch(self) -> PatchMode {
        match self {
            Self::Int3 => PatchMode::Int3,
            Self::Jmp => PatchMode::Jmp,
            Self::Plain | Self::Spin => PatchMode::Off,
        }
    }

    const fn description(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Int3 => ", the site patched to int3",
            Self::Jmp => ", the site patched to a jump: no trap",
            Self::Spin => ", the VMM spinning on its CPU",
        }
    }
}

const RATES: [(Path, Bell, Variant); 18] = [
    (Portio, DeviceModel, Variant::Plain),
    (Portio, DeviceModel, Variant::Spin),
    (Portio, Wildcard, Variant::Plain),
    (Portio, Wildcard, Variant::Int3),
    (Portio, Wildcard, Variant::Jmp),
    (Portio, Datamatch, Variant::Plain),
    (Portio, Datamatch, Variant::Int3),
    (Portio, Datamatch, Variant::Jmp),
    (Mmio, DeviceModel, Variant::Plain),
    (Mmio, DeviceModel, Variant::Spin),
    (Mmio, Wildcard, Variant::Plain),
    (Mmio, Datamatch, Variant::Plain),
    (Mmio, AnyLength, Variant::Plain),
    (Hypercall, DeviceModel, Variant::Plain),
    (Hypercall, DeviceModel, Variant::Spin),
    (Hypercall, Wildcard, Variant::Plain),
    (Hypercall, Datamatch, Variant::Plain),
    (Word, Polled, Variant::Plain),
];

const NOTIFIES: [(Path, Bell, Variant); 8] = [
    (Portio, DeviceModel, Variant::Plain),
    (Portio, DeviceModel, Variant::Spin),
    (Portio, Wildcard, Variant::Plain),
    (Mmio, DeviceModel, Variant::Plain),
    (Mmio, Wildcard, Variant::Plain),
    (Hypercall, DeviceModel, Variant::Plain),
    (Hypercall, Wildcard, Variant::Plain),
    (Word, Polled, Variant::Plain),
];

/// All scenarios, on this backend.
pub fn entries<H>(hypervisor: H) -> Vec<Entry>
where
    H: Hypervisor + Clone + Send + Sync + 'static,
{
    let rates = RATES
        .into_iter()
        .map(|case| entry(hypervisor.clone(), case, false));
    let notifies = NOTIFIES
        .into_iter()
        .map(|case| entry(hypervisor.clone(), case, true));
    rates.chain(notifies).collect()
}

fn entry<H>(hypervisor: H, (path, bell, variant): (Path, Bell, Variant), notify: bool) -> Entry
where
    H: Hypervisor + Clone + Send + Sync + 'static,
{
    let name = name(path, bell, variant, notify);
    let description = description(path, bell, variant, notify);
    let subject = name.clone();
    let make = move |options: &Options| -> Result<Box<dyn Subject>, SubjectError> {
        let spin = if variant == Variant::Spin {
            SpinPolicy::Spin
        } else {
            options.spin
        };
        let patch = variant.patch();
        Ok(if notify {
            Box::new(Notify::new(
                &hypervisor,
                &subject,
                path,
                bell,
                patch,
                spin,
                options,
            )?)
        } else {
            Box::new(Rate::new(
                &hypervisor,
                &subject,
                path,
                bell,
                patch,
                spin,
                options,
            )?)
        })
    };
    let plain = self::name(path, DeviceModel, Variant::Plain, notify);
    let entry = Entry::new(Group::Scenario, name, description, make);
    match (notify, path) {
        (true, Word) => {
            entry.with_reference(self::name(Hypercall, DeviceModel, Variant::Plain, true))
        }
        (true, _) => entry.with_reference(plain),
        (false, _) => entry,
    }
}

fn name(path: Path, bell: Bell, variant: Variant, notify: bool) -> String {
    let prefix = if notify { "notify-" } else { "" };
    let bell = match bell {
        Polled => String::new(),
        bell => format!("-{}", bell.name()),
    };
    format!("{prefix}{}{bell}{}", path.name(), variant.suffix())
}

fn description(path: Path, bell: Bell, variant: Variant, notify: bool) -> String {
    let guest = match path {
        Portio => "out of 4 bytes",
        Mmio => "store of 4 bytes",
        Hypercall => "call of the hypercall page",
        Word => "atomic add to a word in shared memory",
    };
    let host = match bell {
        DeviceModel => "handled by a device model in the VMM",
        Wildcard => "signals an eventfd, whatever the value",
        Datamatch => "signals an eventfd if the value is right",
        AnyLength => "signals an eventfd, whatever value and width",
        Polled => "watched by a poller",
    };
    let variant = variant.description();
    if notify {
        format!("from the guest's {guest} to whoever is waiting: {host}{variant}")
    } else {
        format!("{guest}, {host}{variant}")
    }
}
