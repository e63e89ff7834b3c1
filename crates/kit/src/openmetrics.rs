//! Reads OpenMetrics text.

use std::collections::BTreeMap;

/// The samples: names with labels, and values. Panics unless each has its own name and belongs to a family that was
/// begun once, as the format requires.
pub fn samples(text: &str) -> BTreeMap<String, f64> {
    let mut samples = BTreeMap::new();
    let mut families: Vec<(&str, &str)> = Vec::new();
    let lines = text.strip_suffix("# EOF\n").unwrap().lines();
    for line in lines.filter(|line| !line.starts_with("# HELP ")) {
        if let Some(family) = line.strip_prefix("# TYPE ") {
            let (name, kind) = family.split_once(' ').unwrap();
            assert!(families.iter().all(|(known, _)| *known != name), "{line}");
            families.push((name, kind));
            continue;
        }
        let (name, value) = line.rsplit_once(' ').unwrap();
        let (family, kind) = families.last().unwrap();
        let suffix = if *kind == "counter" { "_total" } else { "" };
        let labels = name
            .strip_prefix(*family)
            .and_then(|rest| rest.strip_prefix(suffix));
        let labels = labels.unwrap_or_else(|| panic!("{line} in {family}"));
        let has_labels = labels.starts_with('{') && labels.ends_with('}');
        assert!(labels.is_empty() || has_labels, "{line}");
        let before = samples.insert(name.to_owned(), value.parse().unwrap());
        assert_eq!(before, None, "{line}");
    }
    samples
}

/// The value of the first sample whose name begins so, and whose labels have `label`.
pub fn value(samples: &BTreeMap<String, f64>, name: &str, label: &str) -> Option<f64> {
    let mut samples = samples.iter();
    let found = samples.find(|(sample, _)| sample.starts_with(name) && sample.contains(label));
    found.map(|(_, value)| *value)
}
