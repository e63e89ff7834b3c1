//! The text of a file `hist`: what the histograms of an event have counted.
//!
//! The file has a histogram for each trigger of its event, one after another (Linux `Documentation/trace/histogram.rst`).

/// A histogram.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Hist {
    /// Its trigger, as the kernel prints it.
    pub(super) trigger: String,
    /// The keys of each entry, and how often they were hit.
    pub(super) entries: Vec<(Vec<(String, u64)>, u64)>,
    /// Events that were not counted, because the table was full.
    pub(super) dropped: u64,
}

impl Hist {
    /// The histograms of a file. What is not understood is left out.
    pub(super) fn all(text: &str) -> Vec<Self> {
        let mut all: Vec<Self> = Vec::new();
        for line in text.lines() {
            if let Some(trigger) = line.strip_prefix("# trigger info: ") {
                all.push(Self {
                    trigger: trigger.to_owned(),
                    ..Self::default()
                });
            }
            let Some(hist) = all.last_mut() else {
                continue;
            };
            if let Some(dropped) = line.trim().strip_prefix("Dropped:") {
                hist.dropped = dropped.trim().parse().unwrap_or_default();
            }
            hist.entries.extend(entry(line));
        }
        all
    }

    /// Whether the entries have this key.
    pub(super) fn has_key(&self, name: &str) -> bool {
        let (_, keys) = self.trigger.split_once("keys=").unwrap_or_default();
        let keys = keys.split(':').next().unwrap_or_default();
        keys.split(',').any(|key| key == name)
    }
}

/// `{ common_pid:        133, reason:          5 } hitcount:          1`
fn entry(line: &str) -> Option<(Vec<(String, u64)>, u64)> {
    let (keys, count) = line.strip_prefix('{')?.split_once('}')?;
    let count = count.trim().strip_prefix("hitcount:")?;
    let key = |part: &str| {
        let (name, value) = part.split_once(':')?;
        Some((name.trim().to_owned(), value.trim().parse().ok()?))
    };
    let keys = keys.split(',').map(key).collect::<Option<_>>()?;
    // Other values may follow.
    let count = count.split_whitespace().next()?.parse().ok()?;
    Some((keys, count))
}

#[cfg(test)]
#[path = "hist_test.rs"]
mod tests;
