//! What the report says of a row besides what was measured, so that nobody tells rows by their names.

use std::collections::BTreeMap;

use vmbell_report::AddressSpace;

/// What an entry says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Remarks {
    /// What makes it differ from others, where the name does not say all of it.
    pub parameters: BTreeMap<String, String>,
    /// What must be known to read its numbers.
    pub note: Option<&'static str>,
    /// Where it rings, if that is at an address of a bus.
    pub address_space: Option<AddressSpace>,
}
