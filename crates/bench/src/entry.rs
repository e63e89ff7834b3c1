//! An entry: something to measure, with a name and a factory that makes its subject.

use std::collections::BTreeMap;
use std::fmt;

use super::{Subject, SubjectError, SubjectOptions};
use vmbell_report::{AddressSpace, Group};

/// Makes a subject, on the thread that will measure it.
pub type SubjectFactory =
    dyn Fn(&SubjectOptions) -> Result<Box<dyn Subject>, SubjectError> + Send + Sync;

/// The name used instead of a backend's where no guest takes part.
pub const HOST: &str = "host";

/// Separates a scenario's name from its variants: `portio-wildcard-eventfd+int3`.
const VARIANT: char = '+';

/// The device model row for each kind of path, by the prefix of names of that kind.
const DEVICE_MODELS: [(&str, &str); 4] = [
    ("portio-", "portio-no-eventfd"),
    ("mmio-", "mmio-no-eventfd"),
    ("hypercall-", "hypercall-no-eventfd"),
    ("doorbell-word", "hypercall-no-eventfd"),
];

/// What an entry adds to its row of the report, so that readers need not parse its name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Remarks {
    /// What distinguishes the entry from similar ones, if its name does not.
    pub parameters: BTreeMap<String, String>,
    /// What readers must know to understand the row's numbers.
    pub note: Option<&'static str>,
    /// The address space of a doorbell that the guest rings back to back by port I/O or MMIO; `None` for
    /// every other entry.
    pub address_space: Option<AddressSpace>,
    /// The shortest operation that this entry can distinguish from 0, in ticks of the time stamp counter; `None` if
    /// many operations are timed together.
    pub resolution: Option<u32>,
}

/// A device that the host must have for an entry.
#[derive(Clone, Copy, Debug)]
pub struct NeededDevice {
    /// The name of the device in `vmbell lab --device`.
    pub name: &'static str,
    /// Whether this host has such a device that can be assigned to a guest.
    pub is_ready: fn() -> bool,
}

/// Something that can be measured under a name.
pub struct BenchEntry {
    name: String,
    /// The name without the values of scanned parameters.
    base: String,
    description: String,
    group: Group,
    backend: &'static str,
    reference: Option<String>,
    device: Option<NeededDevice>,
    /// The maximum number of operations of a run, however many a plan asks for.
    most_ops: u64,
    remarks: Remarks,
    factory: Box<SubjectFactory>,
}

impl BenchEntry {
    /// Makes an entry. A scenario is compared with the device model of its kind, which is derived from its name; floors
    /// and debug entries are compared with nothing.
    pub fn new<F>(
        group: Group,
        name: impl Into<String>,
        description: impl Into<String>,
        factory: F,
    ) -> Self
    where
        F: Fn(&SubjectOptions) -> Result<Box<dyn Subject>, SubjectError> + Send + Sync + 'static,
    {
        let name = name.into();
        Self {
            reference: match group {
                Group::Scenario => device_model_of(&name).map(str::to_owned),
                Group::Floor | Group::Debug => None,
            },
            base: name.clone(),
            name,
            description: description.into(),
            group,
            backend: HOST,
            device: None,
            most_ops: u64::MAX,
            remarks: Remarks::default(),
            factory: Box::new(factory),
        }
    }

    /// Marks the entry as one of several that differ in the value of `parameter`, which is also in the name:
    /// `portio-datamatch-eventfd,doorbells=100`.
    #[must_use]
    pub fn with_parameter(mut self, parameter: &str, value: u32) -> Self {
        self.name = format!("{},{parameter}={value}", self.name);
        let parameters = &mut self.remarks.parameters;
        parameters.insert(parameter.to_owned(), value.to_string());
        self
    }

    /// Sets the backend that runs the entry's guest.
    #[must_use]
    pub const fn on_backend(mut self, backend: &'static str) -> Self {
        self.backend = backend;
        self
    }

    /// Compares the entry with the entry `reference` of the same backend.
    #[must_use]
    pub fn with_reference(mut self, reference: impl Into<String>) -> Self {
        self.reference = Some(reference.into());
        self
    }

    /// Compares the entry with nothing.
    #[must_use]
    pub fn without_reference(mut self) -> Self {
        self.reference = None;
        self
    }

    /// Sets the device that the host must have for the entry. On a host without the device, "all entries" excludes the
    /// entry.
    #[must_use]
    pub const fn with_device(mut self, device: NeededDevice) -> Self {
        self.device = Some(device);
        self
    }

    /// Limits the operations of a run, for an entry that rests before each operation.
    #[must_use]
    pub const fn with_most_ops(mut self, ops: u64) -> Self {
        self.most_ops = ops;
        self
    }

    /// Adds `remarks` to the entry's row of the report.
    #[must_use]
    pub fn with_remarks(mut self, remarks: Remarks) -> Self {
        self.remarks = remarks;
        self
    }

    /// The name as users type it and as the report shows it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The name without the values of scanned parameters. Names and globs on the command line match it as well.
    pub fn base(&self) -> &str {
        &self.base
    }

    /// One line that says what an operation is.
    pub fn description(&self) -> &str {
        &self.description
    }

    /// The group that the report shows the entry in.
    pub const fn group(&self) -> Group {
        self.group
    }

    /// The name of the backend that runs the entry's guest; [`HOST`] if there is no guest.
    pub const fn backend(&self) -> &'static str {
        self.backend
    }

    /// The name of the entry that this entry is compared with.
    pub fn reference(&self) -> Option<&str> {
        self.reference.as_deref()
    }

    /// The device that the host must have for the entry.
    pub const fn device(&self) -> Option<&NeededDevice> {
        self.device.as_ref()
    }

    /// The maximum number of operations of a run.
    pub const fn most_ops(&self) -> u64 {
        self.most_ops
    }

    /// What the entry adds to its row of the report.
    pub const fn remarks(&self) -> &Remarks {
        &self.remarks
    }

    /// Makes the entry's subject, on the thread that will measure it.
    pub fn subject(&self, options: &SubjectOptions) -> Result<Box<dyn Subject>, SubjectError> {
        (self.factory)(options)
    }
}

impl fmt::Debug for BenchEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BenchEntry")
            .field("name", &self.name)
            .field("group", &self.group)
            .field("backend", &self.backend)
            .field("reference", &self.reference)
            .finish_non_exhaustive()
    }
}

/// The name of the row that `name` is compared with. `None` for names of unknown kinds, and for the plain device model
/// itself; variants of the device model are compared with the plain one.
pub(crate) fn device_model_of(name: &str) -> Option<&'static str> {
    let base = name.split(VARIANT).next().unwrap_or(name);
    DEVICE_MODELS
        .iter()
        .find(|(prefix, _)| base.starts_with(prefix))
        .map(|(_, model)| *model)
        .filter(|model| *model != name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_its_device_model() {
        for (name, model) in [
            ("portio-wildcard-eventfd", "portio-no-eventfd"),
            ("portio-datamatch-eventfd", "portio-no-eventfd"),
            ("mmio-any-length-eventfd", "mmio-no-eventfd"),
            ("hypercall-wildcard-eventfd", "hypercall-no-eventfd"),
            ("doorbell-word", "hypercall-no-eventfd"),
        ] {
            assert_eq!(device_model_of(name), Some(model), "{name}");
        }
    }

    #[test]
    fn variants_are_compared_with_the_plain_device_model() {
        for (name, model) in [
            ("portio-wildcard-eventfd+int3", "portio-no-eventfd"),
            ("portio-wildcard-eventfd+jmp", "portio-no-eventfd"),
            ("portio-no-eventfd+spin", "portio-no-eventfd"),
            ("mmio-no-eventfd+int3+spin", "mmio-no-eventfd"),
        ] {
            assert_eq!(device_model_of(name), Some(model), "{name}");
        }
    }

    #[test]
    fn the_device_model_is_compared_with_nothing() {
        assert_eq!(device_model_of("portio-no-eventfd"), None);
        assert_eq!(device_model_of("floor-getppid"), None);
    }
}
