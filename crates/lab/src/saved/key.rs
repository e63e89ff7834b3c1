//! The key of a saved state: everything that the machine was made from, as labelled parts.

use serde::{Deserialize, Serialize};

use crate::cache::hash_bytes;

/// Part of each name. Increase it when the format of saved states changes.
const REVISION: u32 = 1;
/// The number of digits in a name: half a SHA-256.
const DIGITS: usize = 32;

/// What a saved machine was made from. States with different keys are independent of each other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateKey {
    /// What the machine is, for people. It is not part of the name.
    pub title: String,
    /// The parts that determine the name.
    pub parts: Vec<KeyPart>,
}

/// One thing that a machine depends on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyPart {
    /// The name of the part: `kernel`.
    pub label: String,
    /// The value as text; for a file, its digest.
    pub value: String,
}

impl StateKey {
    /// Makes a key without parts.
    pub fn new(title: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            parts: Vec::new(),
        }
    }

    /// Adds a part. For a file, use its digest from [`Store::digest`](super::Store::digest).
    #[must_use]
    pub fn part(mut self, label: &str, value: impl ToString) -> Self {
        self.parts.push(KeyPart {
            label: label.to_owned(),
            value: value.to_string(),
        });
        self
    }

    /// Returns the name of the state's folder.
    pub fn name(&self) -> String {
        // Text in quotes is escaped, so no two lists of parts give the same text. A change of this format makes all
        // states again.
        let part = |KeyPart { label, value }: &KeyPart| {
            format!("Part {{ label: {label:?}, value: {value:?} }}")
        };
        let parts: Vec<String> = self.parts.iter().map(part).collect();
        let parts = parts.join(", ");
        let mut name = hash_bytes(format!("revision {REVISION}\n[{parts}]").as_bytes());
        name.truncate(DIGITS);
        name
    }

    /// Returns whether this can be a key's name.
    pub(super) fn is_name(name: &str) -> bool {
        name.len() == DIGITS && name.bytes().all(|byte| byte.is_ascii_hexdigit())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_of_a_key_changes_its_name() {
        let key = || {
            StateKey::new("Linux 6.12")
                .part("qemu", "7.2")
                .part("cpus", 2)
        };
        assert_eq!(key().name(), key().name());
        assert!(StateKey::is_name(&key().name()));
        let title = StateKey {
            title: "Linux".into(),
            ..key()
        };
        assert_eq!(key().name(), title.name());
        let others = [
            StateKey::new("").part("qemu", "7.2"),
            StateKey::new("").part("qemu", "7.2").part("cpus", 1),
            StateKey::new("").part("qemu", "7.3").part("cpus", 2),
            StateKey::new("").part("qemu", "7.2").part("memory", 2),
            StateKey::new("").part("cpus", 2).part("qemu", "7.2"),
            StateKey::new("")
                .part("qemu", "7.2")
                .part("cpus", 2)
                .part("", ""),
            StateKey::new("").part("qemu7.2", "").part("cpus", 2),
            StateKey::new("")
                .part("qemu", "7.2\", value: \"")
                .part("cpus", 2),
        ];
        let mut names: Vec<_> = others.iter().map(StateKey::name).collect();
        names.push(key().name());
        names.sort();
        names.dedup();
        assert_eq!(names.len(), others.len() + 1);
    }
}
