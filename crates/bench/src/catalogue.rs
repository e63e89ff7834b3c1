//! What can be measured: every entry by name, with a factory that makes its subject.
//!
//! A new scenario or floor is one more [`Entry`] in the list of its module; nothing else in the
//! runner, the report or the command line knows any by name, except [`compare`].

use std::collections::BTreeMap;
use std::fmt;

use super::{Options, Subject, SubjectError, compare, debug, floors};
use vmbell_report::{AddressSpace, Group};

/// Makes a subject, on the thread that will measure it.
pub type Factory = dyn Fn(&Options) -> Result<Box<dyn Subject>, SubjectError> + Send + Sync;

/// What an entry says of itself in the report, so that nobody tells rows by their names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Remarks {
    /// What makes it differ from others, where the name does not say all of it.
    pub parameters: BTreeMap<String, String>,
    /// What must be known to read its numbers.
    pub note: Option<&'static str>,
    /// Where it rings, if that is at an address of a bus.
    pub address_space: Option<AddressSpace>,
}

/// One thing that can be measured.
pub struct Entry {
    name: String,
    description: String,
    group: Group,
    reference: Option<String>,
    remarks: Remarks,
    factory: Box<Factory>,
}

impl Entry {
    /// An entry whose ratio is taken to the device model path of its kind, found by its name.
    pub fn new<F>(
        group: Group,
        name: impl Into<String>,
        description: impl Into<String>,
        factory: F,
    ) -> Self
    where
        F: Fn(&Options) -> Result<Box<dyn Subject>, SubjectError> + Send + Sync + 'static,
    {
        let name = name.into();
        Self {
            reference: match group {
                Group::Scenario => compare::device_model_of(&name).map(str::to_owned),
                Group::Floor | Group::Debug => None,
            },
            name,
            description: description.into(),
            group,
            remarks: Remarks::default(),
            factory: Box::new(factory),
        }
    }

    /// Takes the ratio to this entry instead.
    #[must_use]
    pub fn with_reference(mut self, reference: impl Into<String>) -> Self {
        self.reference = Some(reference.into());
        self
    }

    /// Takes no ratio.
    #[must_use]
    pub fn without_reference(mut self) -> Self {
        self.reference = None;
        self
    }

    /// Says this of itself in the report.
    #[must_use]
    pub fn with_remarks(mut self, remarks: Remarks) -> Self {
        self.remarks = remarks;
        self
    }

    /// The name, as users type it and the report prints it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// One line: what one operation is.
    pub fn description(&self) -> &str {
        &self.description
    }

    /// What it is for.
    pub const fn group(&self) -> Group {
        self.group
    }

    /// The name of the entry that it is compared with.
    pub fn reference(&self) -> Option<&str> {
        self.reference.as_deref()
    }

    /// What it says of itself in the report.
    pub const fn remarks(&self) -> &Remarks {
        &self.remarks
    }

    /// Makes the subject.
    pub fn subject(&self, options: &Options) -> Result<Box<dyn Subject>, SubjectError> {
        (self.factory)(options)
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry")
            .field("name", &self.name)
            .field("group", &self.group)
            .field("reference", &self.reference)
            .finish_non_exhaustive()
    }
}

/// Everything, in the order of the report: these scenarios, floors, debug entries.
pub fn all(scenarios: Vec<Entry>) -> Vec<Entry> {
    let mut entries = scenarios;
    entries.extend(floors::entries());
    entries.extend(debug::entries());
    entries
}
