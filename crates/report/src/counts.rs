//! Named counts that keep the order in which they are shown; in JSON they are an object.

use std::fmt;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// For each name, a count for each run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts(Vec<(String, Vec<u64>)>);

impl Counts {
    /// Whether there are no names.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The count of `name` in every run; `None` if `name` was not counted.
    pub fn get(&self, name: &str) -> Option<&[u64]> {
        let (_, runs) = self.0.iter().find(|(other, _)| other == name)?;
        Some(runs)
    }

    /// Names with their counts, in the order in which they are shown.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[u64])> {
        self.0
            .iter()
            .map(|(name, runs)| (name.as_str(), runs.as_slice()))
    }

    /// The names in several counts, each once, in the order in which they are shown.
    pub(crate) fn names<'c>(all: impl IntoIterator<Item = &'c Self>) -> Vec<&'c str> {
        let mut names: Vec<&str> = Vec::new();
        for (name, _) in all.into_iter().flat_map(Self::iter) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    /// Keeps the names for which `wanted` returns true.
    pub fn retain(&mut self, wanted: impl Fn(&str) -> bool) {
        self.0.retain(|(name, _)| wanted(name));
    }
}

impl FromIterator<(String, Vec<u64>)> for Counts {
    fn from_iter<I: IntoIterator<Item = (String, Vec<u64>)>>(counts: I) -> Self {
        Self(counts.into_iter().collect())
    }
}

impl Serialize for Counts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

impl<'de> Deserialize<'de> for Counts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = Counts;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of lists of counts")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Counts, A::Error> {
                let mut counts = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    counts.push(entry);
                }
                Ok(Counts(counts))
            }
        }
        deserializer.deserialize_map(InOrder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_keep_their_order_in_json() {
        let counts: Counts = [("kicks", vec![2, 3]), ("calls", vec![1, 1])]
            .map(|(name, runs)| (name.to_owned(), runs))
            .into_iter()
            .collect();
        let text = serde_json::to_string(&counts).unwrap();
        assert_eq!(text, r#"{"kicks":[2,3],"calls":[1,1]}"#);
        assert_eq!(serde_json::from_str::<Counts>(&text).unwrap(), counts);
        assert_eq!(counts.get("calls"), Some([1, 1].as_slice()));
        assert_eq!(counts.get("resets"), None);
    }
}
